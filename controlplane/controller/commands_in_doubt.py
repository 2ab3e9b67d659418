"""Recovery of commands that may be half done.

A command stays unfinished if a step, or the command's end, could not be written. A failed command
also stays unfinished while a step cannot be undone. Such a command is ended before the next command
of its queue begins. A retry in the background may end it earlier, once the log is available.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from controlplane.controller.admission import (
    CommandLimits,
    QueueLocks,
    TooMany,
    queue_of,
    subject_of,
)
from controlplane.controller.plan_execution import NotTakenBack
from controlplane.core.codec import command_log
from controlplane.core.commands import CommandRequest
from controlplane.core.decide.recovery import ReportedFailure
from controlplane.core.records import CommandTrace
from controlplane.core.state import ClusterState
from controlplane.logs.log import Fenced, LogError
from controlplane.notices import Notices

ReadToEnd = Callable[[], Awaitable[ClusterState]]
"""Reads the log to its end; returns the state there."""

EndCommand = Callable[[CommandRequest, CommandTrace, ReportedFailure | None], Awaitable[None]]
"""Ends one command; the failure is what its caller got.

Raises `NotTakenBack` if its actions outside of the log cannot be taken back yet.
"""


class CommandsInDoubt:
    """The commands in doubt, by queue, each with the failure that its caller got, if any."""

    def __init__(  # noqa: PLR0913 - callbacks, by name only
        self,
        locks: QueueLocks,
        limits: CommandLimits,
        notices: Notices,
        *,
        read_to_end: ReadToEnd,
        end: EndCommand,
        fenced: Callable[[Fenced], None],
    ) -> None:
        self._locks = locks
        self._limits = limits
        self._notices = notices
        self._read_to_end = read_to_end
        self._end = end
        self._fenced = fenced
        self.by_queue: dict[str, dict[str, ReportedFailure | None]] = {}
        """Failures by queue and command id; None: the caller got no failure."""
        self._retrying: asyncio.Task[None] | None = None
        self._unreadable: set[str] = set()
        """Ids of commands with an unreadable record, which are reported already."""

    def add(self, request: CommandRequest, failure: ReportedFailure | None) -> None:
        """Remember a command that is not known to have ended, and start the retries."""
        self.by_queue.setdefault(queue_of(request.command), {})[request.command_id] = failure
        if self._retrying is None or self._retrying.done():
            self._retrying = asyncio.create_task(self._retry(), name="commands left unfinished")

    def has(self, queue: str) -> bool:
        """True if a command of the queue is not known to have ended."""
        return queue in self.by_queue

    def add_not_taken_back(self, request: CommandRequest, failure: NotTakenBack) -> None:
        """Remember a failed command whose actions outside of the log must still be taken back."""
        if request.command_id not in self.by_queue.get(queue_of(request.command), ()):
            self._notices.warning(
                "command_not_taken_back",
                command=request.command.__struct_config__.tag,
                **subject_of(request.command),
                reason=str(failure),
                command_id=request.command_id,
            )
        self.add(request, ReportedFailure(failure.failed.sentence, failure.step))

    async def end_all(self) -> None:
        """End the unfinished commands of all writers in the log, the oldest first."""
        state = await self._read_to_end()
        failures = {
            command_id: failure
            for queue in self.by_queue.values()
            for command_id, failure in queue.items()
        }
        in_doubt, self.by_queue = self.by_queue, {}
        try:
            await self._end_unfinished(state, lambda _: True, failures)
        except BaseException:
            # The failures are known nowhere else, and the next attempt needs them.
            for queue, earlier in in_doubt.items():
                self.by_queue[queue] = earlier | self.by_queue.get(queue, {})
            raise

    async def end_in(self, queue: str) -> None:
        """End the commands of a queue that are in doubt. The caller holds the queue's lock.

        Raises:
            NotTakenBack: a command cannot be taken back yet; no other command of the queue may
                begin.
        """
        if queue not in self.by_queue:
            return
        state = await self._read_to_end()
        failure = await self._end_unfinished(
            state, lambda request: queue_of(request.command) == queue, self.by_queue[queue]
        )
        if failure is not None:
            raise failure
        del self.by_queue[queue]

    def stop_retrying(self) -> list["asyncio.Task[None]"]:
        """Cancel the retries; return their task for the caller to await."""
        if self._retrying is None:
            return []
        self._retrying.cancel()
        return [self._retrying]

    async def _retry(self) -> None:
        """End commands in doubt once the log is available, unless another writer has taken over."""
        try:
            while self.by_queue:
                await asyncio.sleep(self._limits.retry_last_ms / 1_000)
                for queue in sorted(self.by_queue):
                    await self._end_if_possible(queue)
        except Fenced as failure:
            self._fenced(failure)

    async def _end_if_possible(self, queue: str) -> None:
        """End the commands of a queue; leave them for the next retry if the log fails.

        `LogNotUsable` is retried too: an expired certificate can be renewed. So is `TooMany`: the
        queue may have room later.

        Raises:
            Fenced: another writer has taken over.
        """
        try:
            async with self._locks.turn(queue):
                await self.end_in(queue)
        except Fenced:
            raise
        except (LogError, TooMany):
            pass

    async def _end_unfinished(
        self,
        state: ClusterState,
        chosen: Callable[[CommandRequest], bool],
        failures: Mapping[str, ReportedFailure | None],
    ) -> NotTakenBack | None:
        """End the chosen commands, the oldest first; return the last `NotTakenBack`, if any."""
        last_failure = None
        for trace in [trace for trace in state.commands.values() if trace.unfinished]:
            request = command_log.request_of(trace)
            if request is None:
                self._warn_unreadable(trace)
            elif chosen(request):
                try:
                    await self._end(request, trace, failures.get(request.command_id))
                except NotTakenBack as failure:
                    self.add_not_taken_back(request, failure)
                    last_failure = failure
        return last_failure

    def _warn_unreadable(self, trace: CommandTrace) -> None:
        """Report a command that cannot be ended, once; later attempts meet it again."""
        assert trace.accepted is not None
        if trace.accepted.command_id in self._unreadable:
            return
        self._unreadable.add(trace.accepted.command_id)
        self._notices.warning(
            "command_record_unreadable",
            command_id=trace.accepted.command_id,
            reason="the command's record is of a newer version, or damaged: "
            "the command stays unfinished",
        )
