"""Follower: keeps the state of each requested release up to date with a growing log.

A state is loaded once from the log (`loader`), then entries are folded as they arrive (`LogTail`).
A follower is like a running worker, not a starting one: it applies entries in their order of
arrival. Entries that arrive together are put into the one order.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Self

from controlplane.clock import backoff
from controlplane.core.entry import Batch, Entry
from controlplane.core.fold import Fold
from controlplane.core.order import Ends
from controlplane.core.releases.profiles import Profile, check_support
from controlplane.core.state import ClusterState, Topics
from controlplane.event_loop import close, ended, first_of
from controlplane.logs.log import HasInterruptions, LogError, LogUnavailable, ReadableLog
from controlplane.projection.as_of import Past, PastState, ends_now
from controlplane.projection.followed_topics import FollowedTopics
from controlplane.projection.limits import FollowerLimits
from controlplane.projection.loader import load
from controlplane.projection.notices import Notices
from controlplane.projection.release_folds import (
    FoldObserver,
    Listener,
    ReleaseFolds,
    Subscription,
)


class Follower:
    """Follows one log: `async with Follower(log) as follower`, then ask for a `state`.

    The follower does not close the log. During an outage it answers from the last state, `failure`
    gives the reason, and it retries. With `live=False` the log is read once, when the block is
    entered.
    """

    def __init__(  # noqa: PLR0913 - settings, by name only
        self,
        log: ReadableLog,
        *,
        topics: Topics | None = None,
        exactly_once: bool = False,
        live: bool = True,
        limits: FollowerLimits | None = None,
        notices: Notices | None = None,
    ) -> None:
        limits, topics = limits or FollowerLimits(), topics or Topics()
        self._log = log
        self._topics = topics
        self._exactly_once = exactly_once
        self._live = live
        self._past = Past(log, topics=topics, exactly_once=exactly_once)
        self._folds = ReleaseFolds(self._load, limits.profiles_kept, self._past.forget)
        self._positions = self._folds.positions
        self.moved = self._positions.moved
        self.wait_for = self._positions.wait_for
        self.wait_for_records = self._positions.wait_for_records
        self._followed = FollowedTopics(log, topics, self._folds, limits.topics_poll_ms)
        self._tail = LogTail(log, self._followed, self._folds, limits, notices)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Find the ends of the log and follow it from there, in a task of its own."""
        self._positions.replace(await ends_now(self._log, self._topics))
        if self._live:
            self._task = asyncio.create_task(self._tail.run(), name="follower")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._task is not None:
            await ended([self._task])

    @property
    def failure(self) -> LogError | None:
        """The reason why the log cannot be followed at present; None if all is well."""
        return self._positions.failure

    @property
    def ends(self) -> Ends:
        """End offsets up to which the log has been read, by topic and partition."""
        return self._positions.ends

    async def state(self, profile: Profile) -> ClusterState:
        """Return the current state of a worker of this release; the first use folds the whole log.

        Raises:
            UnknownRelease: it has no exactly-once support, with which the log is read here.
            LogUnavailable: the release is not loaded yet and the log cannot be read.
        """
        check_support(profile, exactly_once=self._exactly_once)
        if self._task is not None and self._task.done():
            self._task.result()  # raises the exception that ended the task
        return (await self._folds.load(profile)).state()

    async def state_at(self, moment: str, profile: Profile) -> PastState:
        """Return the state of a worker of this release at a moment (see `order.ends_at`).

        Raises:
            UnknownMoment: the text is no moment, or the log has nothing there.
            UnknownRelease: it has no exactly-once support, with which the log is read here.
            LogUnavailable: the log cannot be read.
        """
        check_support(profile, exactly_once=self._exactly_once)
        return await self._past.state(moment, profile, self.ends)

    def present(self, profile: Profile) -> ClusterState | None:
        """Return the state of a release that is loaded; else None."""
        fold = self._folds.get(profile)
        return None if fold is None else fold.state()

    @contextmanager
    def subscribed(
        self, profile: Profile, listener: Listener, broken_off: Callable[[], None]
    ) -> Iterator[None]:
        """Call the listener within the block for every entry that this release folds.

        If the log is replaced, `broken_off` is called once, and the listener no more.

        Raises:
            KeyError: this release is not loaded.
        """
        subscription = Subscription(listener, broken_off)
        with self._folds.pinned(profile) as fold:
            fold.subscriptions.append(subscription)
            try:
                yield
            finally:
                fold.subscriptions.remove(subscription)

    @contextmanager
    def observed(
        self, records: Callable[[Sequence[Entry]], None], broken_off: Callable[[], None]
    ) -> Iterator[None]:
        """Call `records` within the block with the records of each fold.

        They are in the one order, and the positions move after the call. If the log is replaced,
        `broken_off` is called. No states are made, unlike for `subscribed`.
        """
        observer = FoldObserver(records, broken_off)
        self._folds.observers.append(observer)
        try:
            yield
        finally:
            self._folds.observers.remove(observer)

    @contextmanager
    def hastened(self) -> Iterator[None]:
        """Fold records as soon as they arrive within the block: a command waits for them."""
        with self._tail.window.skipped():
            yield

    @contextmanager
    def pinned(self, profile: Profile) -> Iterator[None]:
        """Pin this release against eviction within the block.

        Raises:
            KeyError: this release is not loaded.
        """
        with self._folds.pinned(profile):
            yield

    @property
    def moves(self) -> int:
        """Counter that increases with each fold of new entries."""
        return self._positions.moves

    async def follow(self, topics: Iterable[str]) -> None:
        """Follow these topics as well, before any connector's config names them.

        Returns as soon as all their records have been folded. A missing topic is left out.
        """
        new_topics = self._positions.without(topics)
        if new_topics:
            new_topics &= (await self._log.topics()).keys()
            self._followed.add(new_topics)
            await self.wait_for(await self._log.ends(new_topics))

    async def _load(self, profile: Profile, stop: Ends) -> Fold:
        return await load(
            self._log, profile, topics=self._topics, exactly_once=self._exactly_once, stop=stop
        )


class GatherWindow:
    """Time in which records are gathered, to be folded together in the one order."""

    def __init__(self, gather_ms: int) -> None:
        self._gather_s = gather_ms / 1_000
        self._hurry = asyncio.Event()
        self._blocks = 0

    @contextmanager
    def skipped(self) -> Iterator[None]:
        """End the window, and open none within the block. Blocks may overlap."""
        self._blocks += 1
        self._hurry.set()
        try:
            yield
        finally:
            self._blocks -= 1
            if not self._blocks:
                self._hurry.clear()

    async def wait(self) -> None:
        """Wait until the window ends."""
        await asyncio.sleep(0)  # at least what has arrived already is gathered
        if not self._gather_s:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(self._gather_s):
                await self._hurry.wait()


class LogTail:
    """Reads a log without end, over outages, replacements and new topics.

    Entries that arrive within a moment are folded together.
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
        """Follow the log, despite failures, until this is cancelled."""
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
        """Follow the log until the set of topics changes, or the log fails."""
        ends = await self._topics.ends()
        await self._folds.start_over_if_cut(ends)
        self._positions.add(ends)
        self._recover()
        topics = sorted(self._positions.ends)
        pending: asyncio.Queue[Batch] = asyncio.Queue(self._limits.batches_pending)
        works = [
            self._collect(topics, pending),
            self._fold(pending),
            self._topics.until_others(topics),
        ]
        if isinstance(self._log, HasInterruptions):
            works.append(self._notice_interruptions(self._log))
        await first_of(*works)

    async def _collect(self, topics: Iterable[str], pending: asyncio.Queue[Batch]) -> None:
        """Take batches as the log brings them."""
        tail = self._log.tail(topics, self._positions.ends)
        try:
            async for batch in tail:
                await pending.put(batch)
        finally:
            await close(tail)

    async def _fold(self, pending: asyncio.Queue[Batch]) -> None:
        """Fold entries that arrive within a moment together, in the one order."""
        while True:
            batches = [await pending.get()]
            await self.window.wait()
            while not pending.empty():
                batches.append(pending.get_nowait())
            await self._folds.fold(batches)

    async def _notice_interruptions(self, log: HasInterruptions) -> None:
        """Report when the tail loses its log, and when it continues; the tail itself is silent.

        This sends no request: its answer could take long during an outage.
        """
        while True:
            await asyncio.sleep(self._limits.interruption_poll_ms / 1_000)
            if (failure := log.interruption) is None:
                self._recover()
            else:
                self._fail(failure)

    def _fail(self, failure: LogError) -> None:
        """Note a failure, and report it once.

        One outage has many errors (no listener, no leader); only the first is reported.
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
