"""Task that reads a growing log; outages, replacements and new topics do not end it."""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from controlplane.core.entry import Batch
from controlplane.event_loop import backoff, close, first_of
from controlplane.logs.log import HasInterruptions, LogError, LogUnavailable, ReadableLog
from controlplane.projection.followed_topics import FollowedTopics
from controlplane.projection.limits import FollowerLimits
from controlplane.projection.notices import Notices
from controlplane.projection.release_folds import ReleaseFolds


class GatherWindow:
    """Time window in which batches are gathered, to be folded together in the one order."""

    def __init__(self, gather_ms: int) -> None:
        self._gather_s = gather_ms / 1_000
        self._skipping = asyncio.Event()
        self._blocks = 0

    @contextmanager
    def skipped(self) -> Iterator[None]:
        """Skip the waiting window until the block ends. Blocks may overlap."""
        self._blocks += 1
        self._skipping.set()
        try:
            yield
        finally:
            self._blocks -= 1
            if not self._blocks:
                self._skipping.clear()

    async def wait(self) -> None:
        """Wait until the window ends, or is skipped."""
        await asyncio.sleep(0)  # lets the collector queue the batches that have arrived
        if not self._gather_s:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(self._gather_s):
                await self._skipping.wait()


class LogTail:
    """Reads a log until it is cancelled, despite outages, replacements and new topics.

    Entries that arrive within one gather window are folded together.
    """

    def __init__(
        self,
        log: ReadableLog,
        topics: FollowedTopics,
        folds: ReleaseFolds,
        limits: FollowerLimits,
        notices: Notices | None,
    ) -> None:
        self._log = log
        self._topics = topics
        self._folds = folds
        self._positions = folds.positions
        self._limits = limits
        self.window = GatherWindow(limits.gather_ms)
        self._notices = notices

    async def run(self) -> None:
        """Follow the log until this is cancelled; retry after failures, with backoff."""
        pauses = self._pauses()
        while True:
            moves = self._positions.moves
            try:
                await self._follow()
            except LogError as failure:
                self._fail(failure)
                if self._positions.moves != moves:
                    pauses = self._pauses()
                await asyncio.sleep(next(pauses))

    def _pauses(self) -> Iterator[float]:
        return backoff(self._limits.retry_first_ms, self._limits.retry_last_ms)

    async def _follow(self) -> None:
        """Follow the log until the set of topics changes.

        Raises:
            LogError: the log cannot be read.
        """
        ends = await self._topics.ends()
        await self._folds.start_over_if_cut(ends)
        self._positions.add(ends)
        self._recover()
        topics = sorted(self._positions.ends)
        pending: asyncio.Queue[Batch] = asyncio.Queue(self._limits.batches_pending)
        tasks = [
            self._collect(topics, pending),
            self._fold(pending),
            self._topics.until_others(topics),
        ]
        if isinstance(self._log, HasInterruptions):
            tasks.append(self._notice_interruptions(self._log))
        await first_of(*tasks)

    async def _collect(self, topics: Iterable[str], pending: asyncio.Queue[Batch]) -> None:
        """Queue batches as they arrive; wait while the queue is full."""
        tail = self._log.tail(topics, self._positions.ends)
        try:
            async for batch in tail:
                await pending.put(batch)
        finally:
            await close(tail)

    async def _fold(self, pending: asyncio.Queue[Batch]) -> None:
        """Fold the batches of each gather window together, in the one order."""
        while True:
            batches = [await pending.get()]
            await self.window.wait()
            while not pending.empty():
                batches.append(pending.get_nowait())
            await self._folds.fold(batches)

    async def _notice_interruptions(self, log: HasInterruptions) -> None:
        """Report interruptions of the tail and their ends: the tail itself raises no error.

        This polls a local flag, because a request could hang during an outage.
        """
        while True:
            await asyncio.sleep(self._limits.interruption_poll_ms / 1_000)
            if (failure := log.interruption) is None:
                self._recover()
            else:
                self._fail(failure)

    def _fail(self, failure: LogError) -> None:
        """Record a failure, and report it once.

        One outage causes several errors (no listener, no leader); only the first is reported.
        """
        outage_reported = self._positions.failure is not None and isinstance(
            failure, LogUnavailable
        )
        repeated = str(failure) == str(self._positions.failure)
        if self._notices is not None and not outage_reported and not repeated:
            self._notices.warning("log_not_followed", reason=str(failure))
        self._positions.fail(failure)

    def _recover(self) -> None:
        if self._notices is not None and self._positions.failure is not None:
            self._notices.info("log_followed_again")
        self._positions.failure = None
