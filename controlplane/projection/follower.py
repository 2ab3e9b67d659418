"""Follower: keeps the state of each requested release up to date with a growing log.

It loads a state once from the log (`loader`), then folds entries as they arrive (`LogTail`). Like a
running worker, it applies entries in their order of arrival. It sorts entries that arrive together
into the one order (`core.order`). Outages, replacements and new topics do not end it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Self

from controlplane.core.entry import Batch, Entry, Position
from controlplane.core.fold import Fold
from controlplane.core.order import Ends
from controlplane.core.releases.profiles import Profile, check_support
from controlplane.core.state import ClusterState, Topics
from controlplane.event_loop import backoff, cancel_all, close, first_of
from controlplane.logs.log import (
    HasInterruptions,
    LogError,
    LogNotUsable,
    LogUnavailable,
    ReadableLog,
)
from controlplane.notices import Notices
from controlplane.projection.followed_topics import FollowedTopics
from controlplane.projection.limits import FollowerLimits
from controlplane.projection.loader import load
from controlplane.projection.past_states import PastState, PastStates, ends_now
from controlplane.projection.release_folds import (
    FoldObserver,
    Listener,
    ReleaseFolds,
    Subscription,
)


class Follower:
    """Follows one log: `async with Follower(log) as follower`, then ask for a `state`.

    The follower does not close the log. During an outage it answers from the last state, `failure`
    gives the reason, and it retries. With `live=False` it reads only up to the end that the log had
    when the block was entered.
    """

    present: Callable[[Profile], ClusterState | None]
    """Returns the state of a release that is loaded; else None."""
    moved: Callable[[int], Awaitable[None]]
    """Waits until `moves` differs from the given number."""
    wait_for: Callable[[Ends], Awaitable[None]]
    """Waits until every record before these ends has been folded; see `ReadPositions`."""
    wait_for_records: Callable[[Sequence[Position]], Awaitable[None]]
    """Waits until the records at these positions have been folded; an outage is waited out."""

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
        self._past = PastStates(log, topics=topics, exactly_once=exactly_once)
        self._folds = ReleaseFolds(self._load, limits.profiles_kept, self._past.forget)
        self._positions = positions = self._folds.positions
        self.present = self._folds.present
        self.moved, self.wait_for = positions.moved, positions.wait_for
        self.wait_for_records = positions.wait_for_records
        self._followed = FollowedTopics(
            log, topics, self._folds, limits.topics_poll_ms, exactly_once=exactly_once
        )
        self._tail = LogTail(log, self._followed, self._folds, limits, notices)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Read the ends of the log; if `live`, start the task that follows it from there."""
        ends = await ends_now(self._log, self._topics, exactly_once=self._exactly_once)
        self._positions.replace(ends)
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
            await cancel_all([self._task])

    @property
    def failure(self) -> LogError | None:
        """The reason why the log cannot be followed at present; None if it is followed."""
        return self._positions.failure

    @property
    def ends(self) -> Ends:
        """End offsets up to which the log has been read, by topic and partition."""
        return self._positions.ends

    async def state(self, profile: Profile) -> ClusterState:
        """Return the current state of a worker of this release; the first use loads the log.

        Raises:
            UnknownRelease: the log is read with exactly-once support, which the release lacks.
            LogError: the release is not loaded yet and the log cannot be read, or the block has
                been left.
        """
        if self._task is not None and self._task.done():
            if self._task.cancelled():
                raise LogUnavailable("The log is no longer followed: its reader is closed")
            self._task.result()  # raises the exception that ended the task
        return (await self._folds.load(profile)).state()

    async def whole_state(self, profile: Profile) -> ClusterState:
        """Return the current state; wait for the end of a group of entries that is being folded.

        A subscription that begins before the next `await` gets every entry after this state. The
        method `state` does not guarantee this. While a group is being folded, `state` returns the
        state before the group. A new subscription then misses the entries that are folded already.

        Raises:
            UnknownRelease: the log is read with exactly-once support, which the release lacks.
            LogError: the log cannot be read.
        """
        while True:
            state, fold = await self.state(profile), self._folds.get(profile)
            if fold is None or fold.whole.is_set():
                return state
            await fold.whole.wait()

    async def state_at(self, moment: str, profile: Profile) -> PastState:
        """Return the state of a worker of this release at a moment (see `order.ends_at`).

        Raises:
            UnknownMoment: the text is no moment, or the log has no record there.
            UnknownRelease: the log is read with exactly-once support, which the release lacks.
            LogError: the log cannot be read.
        """
        check_support(profile, exactly_once=self._exactly_once)
        return await self._past.state(moment, profile, self.ends)

    @contextmanager
    def subscribed(
        self, profile: Profile, listener: Listener, broken_off: Callable[[], None]
    ) -> Iterator[None]:
        """Call the listener within the block for every entry that this release folds.

        If the log is replaced, `broken_off` is called once, and the listener is not called again.

        Raises:
            KeyError: this release is not loaded.
        """
        subscription = Subscription(listener, broken_off)
        with self._folds.pinned(profile) as fold:
            fold.subscriptions.append(subscription)
            try:
                yield
            finally:
                if subscription in fold.subscriptions:  # a replacement of the log removes it
                    fold.subscriptions.remove(subscription)

    @contextmanager
    def observed(
        self, on_records: Callable[[Sequence[Entry]], None], broken_off: Callable[[], None]
    ) -> Iterator[None]:
        """Call `on_records` within the block with each group of records that is folded together.

        The records of a group are in the one order.

        The positions move after the call. If the log is replaced, `broken_off` is called. Unlike
        `subscribed`, this creates no states.
        """
        observer = FoldObserver(on_records, broken_off)
        self._folds.observers.append(observer)
        try:
            yield
        finally:
            self._folds.observers.remove(observer)

    @contextmanager
    def hastened(self) -> Iterator[None]:
        """Fold records without a gather window within the block: a command waits for them."""
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
        """Counter that increases if entries are folded, topics dropped, or the log is replaced."""
        return self._positions.moves

    async def follow(self, topics: Iterable[str]) -> None:
        """Follow these topics as well, before any connector's config names them.

        If a topic is not read yet, this waits until its present records have been folded. Another
        caller that names the topic meanwhile waits, too. Missing topics are ignored.
        """
        new_topics = self._positions.behind(topics)
        if new_topics:
            new_topics &= (await self._log.topics()).keys()
            self._followed.add(new_topics)
            await self.wait_for(await self._log.ends(new_topics))

    async def _load(self, profile: Profile, stop: Ends) -> Fold:
        check_support(profile, exactly_once=self._exactly_once)
        return await load(
            self._log, profile, topics=self._topics, exactly_once=self._exactly_once, stop=stop
        )


# --- the growing log ------------------------------------------------------------------------------


class GatherWindow:
    """Time window in which batches are gathered, to be folded together in the one order."""

    def __init__(self, gather_ms: int) -> None:
        self._gather_s = gather_ms / 1_000
        self._skipping = asyncio.Event()
        self._blocks = 0

    @contextmanager
    def skipped(self) -> Iterator[None]:
        """End the present window, and skip later ones until the block ends. Blocks may overlap."""
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
        if not self._gather_s or self._skipping.is_set():
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
        """Follow the log until this is cancelled; retry after failures, with backoff.

        Any exception but `LogError` is a defect of this program, and ends this method. From then
        on, `Follower.failure` has the reason, and `Follower.state` raises the exception.
        """
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
            except Exception as defect:
                reason = f"A defect ended the follower: {type(defect).__name__}: {defect}"
                self._fail(LogNotUsable(f"{reason}; restart this process"))
                raise

    def _pauses(self) -> Iterator[float]:
        return backoff(self._limits.retry_first_ms, self._limits.retry_last_ms)

    async def _follow(self) -> None:
        """Follow the log until the set of topics or partitions changes.

        Raises:
            LogError: the log cannot be read.
        """
        partitions = await self._log.topics()
        ends = await self._topics.ends()
        await self._folds.start_over_if_cut(ends)
        if lost := self._topics.lost(partitions):
            await self._folds.forget(lost)
        self._positions.add(ends)
        topics = sorted(self._positions.ends)
        pending: asyncio.Queue[Batch] = asyncio.Queue(self._limits.batches_pending)
        await first_of(
            self._collect(topics, pending),
            self._fold(pending),
            self._topics.until_others(topics, partitions),
            self._notice_interruptions(),
        )

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

    async def _notice_interruptions(self) -> None:
        """Report that the tail is interrupted or goes on again: the tail itself raises no error.

        This polls a local flag, because a request could hang during an outage.

        `run` calls this method in each attempt to follow the log. During an outage, an attempt may
        fail although the flag reports no interruption. A poll before this failure would call
        `_recover`, and `_fail` would then report the same outage again. So a pause precedes the
        first poll.
        """
        log = self._log
        while True:
            await asyncio.sleep(self._limits.interruption_poll_ms / 1_000)
            failure = log.interruption if isinstance(log, HasInterruptions) else None
            if failure is None:
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
