"""Commands that were cut off, and their endings: sentences for callers, outcomes for the trail.

A crash cuts a command off, and so do workers that do not answer. The log of the cluster shows which
requests were done, and the command ends accordingly. No request is repeated blindly.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from controlplane.attached.command_trail import UNKNOWN, Trail, plan_of, progress_of
from controlplane.attached.connect_client import NOTHING_DONE, OutcomeUnknown
from controlplane.attached.execution import (
    CHECK,
    AcceptedCommand,
    AttachedAnswer,
    AttachedSurroundings,
    CommandExecution,
    connector_of,
)
from controlplane.attached.follow_up import LogFollowUp
from controlplane.attached.plan_comparison import Comparison, comparison_facts
from controlplane.controller.admission import QueueLocks, queue_of, subject_of
from controlplane.core.codec import command_log
from controlplane.core.commands import AnyCommand, CommandRequest, CreateConnector, RestoreConnector
from controlplane.core.plan import Outcome, Plan, Reason, Rejected
from controlplane.core.records import CommandTrace
from controlplane.core.text.redaction import redacted_refusal
from controlplane.logs.log import LogNotUsable, LogUnavailable
from controlplane.rest.errors import WorkerAnswer

UNDER_WAY = (
    "The outcome of the command with the idempotency key {} is not known yet: send it again later"
)

UNKNOWN_OUTCOME = (
    "{}, and the log of the cluster does not show that the request was done. "
    f"The request may still be done; {CHECK}"
)

ENDED_LATER = (
    "{}: some requests of this command were sent. "
    "The command is completed or taken back once the workers answer (see GET /commands)"
)

NOT_ENDED = (
    "The command {} ({}) of connector {} has not ended yet ({}). This command was not sent: "
    "send it again later (see GET /commands)"
)

CUT_OFF = (
    "This service was cut off before a worker had answered. "
    f"The log of the cluster does not show that the request was done: {CHECK}"
)

RECREATED = (
    "This service was cut off before a worker had answered, and the topics of the cluster were "
    f"deleted and created again: {CHECK}"
)


class CutOffCommands:
    """Ends the commands that were cut off, each under the lock of its connector."""

    def __init__(
        self,
        execution: CommandExecution,
        log: LogFollowUp,
        trail: Trail,
        around: AttachedSurroundings,
        locks: QueueLocks,
    ) -> None:
        self._execution = execution
        self._log = log
        self._trail = trail
        self._around = around
        self._locks = locks
        self._closed = False
        self._failing: dict[str, tuple[CommandRequest, str]] = {}
        """Commands whose last attempt to end has failed, and the reason, by queue."""

    def close(self) -> None:
        """Begin no further attempt; the next process ends the commands that are left."""
        self._closed = True

    def begin(self) -> "list[asyncio.Task[None]]":
        """Begin to end the commands of the trail that have not finished, oldest first.

        Each connector has a task of its own. It takes the lock before any newer command does.
        """
        queues: dict[str, list[CommandRequest]] = {}
        for trace in self._trail.commands.values():
            request = command_log.accepted_request(trace) if trace.unfinished else None
            if request is not None:
                queues.setdefault(queue_of(request.command), []).append(request)
        return [
            asyncio.create_task(self._end_in_turn(queue, requests), name=f"cut off: {queue}")
            for queue, requests in queues.items()
        ]

    async def _end_in_turn(self, queue: str, requests: Sequence[CommandRequest]) -> None:
        async with self._locks.turn(queue):
            for request in requests:
                try:
                    await self.end_with_retries(request)
                except Exception as failure:  # noqa: BLE001 - the next process ends this command
                    self.warn_not_ended(request, failure)

    def refusal(self, command: AnyCommand) -> Rejected | None:
        """Refusal of a command whose connector has a command that cannot be ended yet."""
        failing = self._failing.get(queue_of(command))
        if failing is None:
            return None
        request, reason = failing
        tag = request.command.__struct_config__.tag
        text = NOT_ENDED.format(request.command_id, tag, connector_of(request.command), reason)
        return Rejected(Reason.CONFLICT, text)

    async def end_with_retries(
        self, request: CommandRequest, failure: Exception | None = None
    ) -> None:
        """End a command once workers and log can be reached; else the next process ends it.

        `LogNotUsable` is retried too: a right can be granted again. Equal reasons in a row are
        reported once. The caller holds the lock of the connector. `failure` is the one that has cut
        the command off.
        """
        queue, reported = queue_of(request.command), ""
        if failure is not None:
            self._failing[queue] = request, _reason(failure)
        try:
            while not self._closed:
                try:
                    await self._end(request, self._trail.commands[request.command_id])
                except (LogUnavailable, LogNotUsable, OutcomeUnknown) as failed:
                    self._failing[queue] = request, _reason(failed)
                    if str(failed) != reported:
                        self.warn_not_ended(request, failed)
                    reported = str(failed)
                    await asyncio.sleep(self._around.limits.retry_ms / 1_000)
                else:
                    return
        finally:
            self._failing.pop(queue, None)

    def warn_not_ended(self, request: CommandRequest, failure: Exception) -> None:
        """Warn that the end of a command is not recorded yet."""
        self._around.notices.warning(
            "command_not_ended", command_id=request.command_id, reason=str(failure)
        )

    async def _end(self, request: CommandRequest, trace: CommandTrace) -> None:
        """Look up a command in the cluster's log, and end it."""
        progress = progress_of(trace)
        plan = plan_of(trace) or Plan(())
        accepted = AcceptedCommand(request, plan, progress.since)
        command = request.command
        await self._log.state_at_end()
        if not await self._log.reaches(plan, progress.since):
            await self._finish(request, Rejected(Reason.FAILED, RECREATED), None)
            return
        if isinstance(command, CreateConnector) and command.initial_offsets is not None:
            answer = await self._execution.resume_creation(accepted, command, progress.step)
        elif isinstance(command, RestoreConnector) and progress.step:
            answer = await self._execution.resume_undo(accepted, plan, command)
        else:
            answer = await self._logged_answer(accepted, plan)
        comparison = await self._log.compared_now(plan, progress.since, connector_of(command))
        await self._finish(request, answer, comparison)

    async def _finish(
        self, request: CommandRequest, answer: AttachedAnswer, comparison: Comparison | None
    ) -> None:
        """Record the end of a command; `comparison` None: its records are unknown."""
        command = request.command
        facts = comparison_facts(comparison, self._log.present.topics)
        facts |= {"recovered": True, **ending_of(answer)}
        await self._trail.finished(request, self._around.now_ms(), answer, facts)
        self._around.notices.warning(
            "command_recovered",
            command=command.__struct_config__.tag,
            **subject_of(command),
            ending=facts.get("ended", "failed" if isinstance(answer, Rejected) else "done"),
            reason=redacted_refusal(answer.sentence) if isinstance(answer, Rejected) else None,
            command_id=request.command_id,
        )

    async def _logged_answer(self, accepted: AcceptedCommand, plan: Plan) -> AttachedAnswer:
        """Answer of a command of one request: done if the log has all of its records.

        A record of the same key with another value may be that of another client.
        """
        if any(step.records for step in plan.steps):
            connector = connector_of(accepted.request.command)
            comparison = await self._log.compared_now(plan, accepted.since, connector)
            if comparison.proves_plan:
                return plan.outcome
        return Rejected(Reason.FAILED, CUT_OFF)


def _reason(failure: Exception) -> str:
    """Reason why a command has not ended; that nothing was done is untrue of earlier requests."""
    return str(failure).removesuffix(NOTHING_DONE)


def ending_of(answer: AttachedAnswer) -> dict[str, Any]:
    """Ending for the trail if neither a worker nor the log shows whether the command was done."""
    is_unknown = isinstance(answer, Rejected) and str(answer.text).endswith(CHECK)
    return {"ended": UNKNOWN} if is_unknown else {}


def is_success(answer: AttachedAnswer) -> bool:
    """True if the command was done."""
    return isinstance(answer, Outcome) or (isinstance(answer, WorkerAnswer) and answer.is_success)
