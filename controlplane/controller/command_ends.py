"""Ends of commands that have been answered: each "finished" record waits for the next append.

On a log with fast batches, an append to one partition is much faster than to several. So "finished"
is not in the batch of the last step, which goes to another topic. The caller's answer need not wait
for "finished", because the steps have been read back. Instead, "finished" shares the batch of the
next command's "accepted" record. If no command follows, it is written soon after the answer. Both
records are in the same partition, "finished" first.

A retry may append a "finished" record late. So a command first waits until its queue has no running
append of a "finished" record. Therefore no step of a later command precedes the "finished" record
of an earlier command of the same connector.

A crash may lose a waiting record. Then `recover` ends the command again, with the same result
(`may_end_later`).
"""

import asyncio
from collections.abc import Callable, Sequence

from controlplane.controller.admission import queue_of
from controlplane.controller.plan_execution import LogWriter, RequestDrafts
from controlplane.core.commands import CommandRequest
from controlplane.core.entry import Position
from controlplane.event_loop import retrieve_exception
from controlplane.logs.log import LogError, LogNotUsable, LogUnavailable

EndsFailed = Callable[[Sequence[CommandRequest], LogError], None]
"""Called with answered commands whose ends could not be written, and the failure."""

InDoubt = Callable[[str], bool]
"""Returns True if a command of this queue has no end yet, because the log was unavailable."""


class CommandEnds:
    """The "finished" records of answered commands that are not written yet, in order."""

    def __init__(
        self, writer: LogWriter, delay_ms: int, failed: EndsFailed, in_doubt: InDoubt
    ) -> None:
        self._writer = writer
        self._delay_s = delay_ms / 1_000
        self._failed = failed
        self._in_doubt = in_doubt
        self._waiting: list[RequestDrafts] = []
        self._under_way: dict[asyncio.Future[Sequence[Position]], frozenset[str]] = {}
        """Running appends that include ends. Key: future of the positions that the append has
        written. Value: names of the queues whose ends it includes."""
        self._flushes: set[asyncio.Task[Sequence[Position]]] = set()
        """Running appends that contain only ends. A caller that is cancelled does not stop them."""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, end: RequestDrafts) -> None:
        """Let the end of a command wait for the next append, or for the delay."""
        self._waiting.append(end)
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._delay_s, self._begin_flush)

    async def append_before(self, first: RequestDrafts) -> Sequence[Position]:
        """Append the waiting ends and the first records of a command, in one batch.

        Return the positions of all these records. Raises what `LogWriter.append` raises for the
        records of the command.
        """
        if first.begins:
            await self._wait_for_ends(queue_of(first.request.command))
        ends = self._take()
        if not ends:
            return await self._writer.append(first)
        return await self._append(self._announced(ends), ends, first)

    async def _wait_for_ends(self, queue: str) -> None:
        """Wait until no end of a queue is under way.

        Raises:
            LogUnavailable: an end of the queue could not be written. The next command of the queue
                must not begin before that end is written.
        """
        while under_way := [end for end, queues in self._under_way.items() if queue in queues]:
            await asyncio.wait(under_way)
        if self._in_doubt(queue):
            raise LogUnavailable("the end of an earlier command is not written yet: try again")

    async def flush(self) -> Sequence[Position]:
        """Write the ends that wait, and await the appends under way; return all their positions.

        A cancelled call stops no append.
        """
        self._begin_flush()
        positions: list[Position] = []
        for written in [*self._under_way]:
            await asyncio.wait([written])  # unlike `await`, never cancels the future
            positions += written.result()
        return positions

    def stop(self) -> Sequence["asyncio.Task[Sequence[Position]]"]:
        """Begin no further append; return the running appends of ends for the caller to cancel.

        An append that also contains records of a later command is not returned: the task of that
        command runs it.
        """
        self._take()
        return [*self._flushes]

    def _begin_flush(self) -> None:
        if ends := self._take():
            written = self._announced(ends)
            flush = asyncio.create_task(self._append(written, ends), name="ends of commands")
            self._flushes.add(flush)
            flush.add_done_callback(self._flushes.discard)
            flush.add_done_callback(retrieve_exception)  # a failure is reported to `failed`
            # A task that is cancelled before it runs never enters `_append`. So this callback
            # resolves `written`, for which other commands may wait.
            flush.add_done_callback(lambda _: self._conclude(written, []))

    def _announced(self, ends: Sequence[RequestDrafts]) -> "asyncio.Future[Sequence[Position]]":
        """Create the future that other callers await while an append of ends runs."""
        written = asyncio.get_running_loop().create_future()
        self._under_way[written] = frozenset(queue_of(end.request.command) for end in ends)
        return written

    async def _append(
        self,
        written: "asyncio.Future[Sequence[Position]]",
        ends: Sequence[RequestDrafts],
        *first: RequestDrafts,
    ) -> Sequence[Position]:
        """Append ends and the first records of a command; pass their positions to `written`.

        A log does not tell whose record it refuses. So after a refusal, each end is appended alone,
        before the records of the command.
        """
        positions: list[Position] = []
        try:
            positions += await self._writer.append(*ends, *first)
        except LogNotUsable:
            for end in ends:
                positions += await self._append_alone(end)
            if first:
                positions += await self._writer.append(*first)
        except LogError as failure:
            self._failed([end.request for end in ends], failure)
            raise
        finally:
            self._conclude(written, positions)
        return positions

    def _conclude(
        self, written: "asyncio.Future[Sequence[Position]]", positions: Sequence[Position]
    ) -> None:
        """Note that an append is no longer under way; resolve its future, unless it is resolved."""
        self._under_way.pop(written, None)
        if not written.done():
            written.set_result(positions)

    async def _append_alone(self, end: RequestDrafts) -> Sequence[Position]:
        try:
            return await self._writer.append(end)
        except LogError as failure:
            self._failed([end.request], failure)
            return ()

    def _take(self) -> list[RequestDrafts]:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        ends, self._waiting = self._waiting, []
        return ends
