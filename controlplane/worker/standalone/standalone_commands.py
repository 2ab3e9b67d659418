"""Commands of a standalone worker (Kafka: `StandaloneHerder`).

A command that creates or changes a connector is answered once its start has succeeded or failed. A
deletion is answered once the connector has ended. Every other command is answered as soon as it is
in the log. A distributed worker answers all commands as soon as they are in the log.
"""

import asyncio

import msgspec

from controlplane.core.commands import (
    AnyCommand,
    CreateConnector,
    DeleteConnector,
    PatchConfig,
    PutConfig,
)
from controlplane.core.fold.commands import ENDED_KEPT
from controlplane.core.plan import (
    ConnectorAfterCommand,
    GroupOffsets,
    Outcome,
    Plan,
    Reason,
    Rejected,
)
from controlplane.core.releases.profiles import Profile
from controlplane.failure_text import message_of
from controlplane.logs.log import LogError
from controlplane.worker.failure_reader import text_in_time
from controlplane.worker.lifecycle.connector_actor import StartTimedOut
from controlplane.worker.log_context import connector_logs
from controlplane.worker.worker import ConnectWorker

_AwaitedCommand = CreateConnector | PutConfig | PatchConfig | DeleteConnector
"""Commands whose effect is awaited before the answer."""

_CommandEffect = int | Rejected
"""Number of tasks after a command, or the failure of the connector's start."""

START_TIMEOUT_S = 90.0
"""Time limit for a connector to start, in seconds: that of Kafka's requests (`RestServer`)."""


class StandaloneCommands:
    """Runs commands on the plane of a worker (`rest.service.Commands`)."""

    def __init__(self, worker: ConnectWorker, start_timeout_s: float = START_TIMEOUT_S) -> None:
        self._start_timeout_s = start_timeout_s
        self._worker = worker
        self._plane = worker.plane
        self._effects: dict[str, asyncio.Task[_CommandEffect]] = {}
        """Effects of commands by idempotency key.

        A repeated key gets the first effect, even if the connector has changed since.
        """

    @property
    def failure(self) -> LogError | None:
        """Permanent failure after which commands are refused; None while they work."""
        return self._plane.failure

    async def trouble(self) -> LogError | None:
        """Return the error that would fail a command now; None if the log is available."""
        return await self._plane.trouble()

    async def carry_out(
        self,
        command: AnyCommand,
        *,
        principal: str,
        key: str | None = None,
        profile: Profile | None = None,
    ) -> Outcome | Rejected:
        """Run a command. Wait for the start of a new or changed connector, or a deleted one's end.

        A connector whose start fails exists all the same; the answer names the failure.
        A repeated key gets the first answer, but a start that took too long is awaited again.
        """
        if key is not None and key not in self._plane.state.commands:
            self._effects.pop(key, None)  # the plane has forgotten the command, and runs it again
        answer = await self._plane.carry_out(command, principal=principal, key=key, profile=profile)
        if isinstance(answer, Rejected):
            return answer
        if not isinstance(command, _AwaitedCommand):
            return answer
        effect = await (self._effect(command) if key is None else self._first_effect(command, key))
        if isinstance(effect, Rejected):
            return effect
        shown = answer.connector
        if shown is None:
            return answer
        shown = ConnectorAfterCommand(shown.config, effect, shown.type)
        return msgspec.structs.replace(answer, connector=shown)

    async def _first_effect(self, command: _AwaitedCommand, key: str) -> _CommandEffect:
        """Return the effect of a keyed command; a caller that disconnects does not end the wait."""
        awaited = self._effects.get(key)
        if awaited is None:
            effect = self._effect(command, key)
            awaited = self._effects[key] = asyncio.create_task(effect, name=f"effect {key}")
            if len(self._effects) > ENDED_KEPT:
                del self._effects[next(iter(self._effects))]
        return await asyncio.shield(awaited)

    async def _effect(self, command: _AwaitedCommand, key: str | None = None) -> _CommandEffect:
        """Wait until the worker has carried a command out; return the effect."""
        name = command.connector
        try:
            if isinstance(command, DeleteConnector):
                await self._worker.removed(name)
            else:
                await self._worker.started(name, self._start_timeout_s)
        except StartTimedOut:
            if key is not None:
                self._effects.pop(key, None)  # the connector may still start
            return Rejected(Reason.FAILED, "Request timed out")
        except Exception as failure:  # noqa: BLE001 - a connector may raise anything
            text = f"Failed to transition connector {name} to state STARTED"
            with connector_logs(name):
                reason = await text_in_time(message_of, failure)
            return Rejected(Reason.FAILED, text, self._worker.excerpt(reason))
        return len(self._plane.state.config.task_ids(name))

    async def plan(
        self, command: AnyCommand, *, profile: Profile | None = None, believe_hooks: bool = False
    ) -> Plan | Rejected:
        """Return the plan of a command; nothing is written."""
        return await self._plane.plan(command, profile=profile, believe_hooks=believe_hooks)

    def command_of(self, key: str) -> AnyCommand | None:
        """Return the command that was accepted under an idempotency key, while it is remembered."""
        return self._plane.command_of(key)

    async def group_offsets(self, connector: str) -> GroupOffsets:
        """Read the committed offsets of a sink connector's consumer group."""
        return await self._plane.group_offsets(connector)
