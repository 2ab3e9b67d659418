"""Commands of a standalone worker; it answers once a connector has been started or deleted.

Kafka: `StandaloneHerder`. The answer to any other command comes as soon as the log has it. A
distributed worker answers every command so.
"""

import msgspec

from controlplane.core.commands import (
    AnyCommand,
    CreateConnector,
    DeleteConnector,
    PatchConfig,
    PutConfig,
)
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

STARTED_BY = (CreateConnector, PutConfig, PatchConfig)
"""Commands after which a connector is started."""


START_TIMEOUT_S = 90.0
"""Time limit for a connector to start, in seconds: that of Kafka's requests (`RestServer`)."""


class StandaloneCommands:
    """Runs commands on the plane of a worker (`rest.service.Commands`)."""

    def __init__(self, worker: ConnectWorker, start_timeout_s: float = START_TIMEOUT_S) -> None:
        self._start_timeout_s = start_timeout_s
        self._worker = worker
        self._plane = worker.plane

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
        """
        answer = await self._plane.carry_out(command, principal=principal, key=key, profile=profile)
        if isinstance(answer, Rejected):
            return answer
        if isinstance(command, DeleteConnector):
            await self._worker.removed(command.connector)
        if isinstance(command, STARTED_BY):
            return await self._started(command.connector, answer)
        return answer

    async def _started(self, name: str, outcome: Outcome) -> Outcome | Rejected:
        try:
            await self._worker.started(name, self._start_timeout_s)
        except StartTimedOut:
            return Rejected(Reason.FAILED, "Request timed out")
        except Exception as failure:  # noqa: BLE001 - a connector may raise anything
            text = f"Failed to transition connector {name} to state STARTED"
            with connector_logs(name):
                reason = await text_in_time(message_of, failure)
            return Rejected(Reason.FAILED, text, self._worker.excerpt(reason))
        shown = outcome.connector
        if shown is None:
            return outcome
        tasks = len(self._plane.state.config.task_ids(name))
        shown = ConnectorAfterCommand(shown.config, tasks, shown.type)
        return msgspec.structs.replace(outcome, connector=shown)

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
