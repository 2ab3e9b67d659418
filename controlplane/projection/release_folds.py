"""Folds of one log, one per requested release, and the positions up to which all have read it.

Listeners receive each entry. Callers wait until the positions have reached a record.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from controlplane.core.entry import Batch, Entry, Position, TopicPartition
from controlplane.core.fold import Fold
from controlplane.core.order import Ends, EntrySorter, entries_of, in_order
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.event_loop import sliced, to_its_end
from controlplane.logs.log import LogError, LogUnavailable
from controlplane.projection.lru_cache import LruCache

AT_ONCE = 200
"""Maximum entries that are folded in one go; more are folded in slices, some 10 µs each."""

LONG_VALUE = 1 << 14
"""Bytes of a value above which its entry is folded in a thread: it takes some 10 ms if the value is
read token by token."""

INLINE_POSITIONS = 200
"""Maximum positions that are summed up in the event loop; more are summed up in a thread."""

Listener = Callable[[Entry, ClusterState, ClusterState], Awaitable[None]]
"""Receives an entry and the states before and after it; the next entry is folded afterwards."""


Load = Callable[[Profile, Ends], Awaitable[Fold]]
"""Function that folds the log for a release, up to these ends."""


class Subscription(NamedTuple):
    """A listener, and the callback for a replacement of the log."""

    listener: Listener
    broken_off: Callable[[], None]


class FoldObserver(NamedTuple):
    """Callbacks about the log that all folds share."""

    records: Callable[[Sequence[Entry]], None]
    """Receives the records of each fold, in the one order, before the positions move."""
    broken_off: Callable[[], None]
    """Called when the log was replaced."""


class ReleaseFold:
    """The fold of one release and its last published state."""

    def __init__(self, fold: Fold) -> None:
        self.subscriptions: list[Subscription] = []
        self.pins = 0
        """Number of callers that pin this fold against eviction."""
        self._fold = fold
        self._state: ClusterState | None = None

    def state(self) -> ClusterState:
        """Current state, made on demand: the next change after publishing costs a copy."""
        if self._state is None:
            self._state = self._fold.snapshot()
        return self._state

    def apply(self, entries: Sequence[Entry], ends: Mapping[TopicPartition, int]) -> None:
        """Fold entries that arrived together, up to these ends; publish no state in between."""
        self._fold.apply_all(entries, ends)
        self._state = None

    async def apply_in_slices(
        self, entries: Sequence[Entry], ends: Mapping[TopicPartition, int]
    ) -> None:
        """Fold entries that arrived together, up to these ends; call the listeners for each."""
        # First of all: while a thread changes the fold below, `state` must find a cached state. A
        # snapshot taken at that moment would be of a half-folded entry.
        before = self.state()
        async for entry in sliced(entries):
            if _is_long(entry):
                await asyncio.to_thread(self._fold.apply, entry)
            else:
                self._fold.apply(entry)
            if self.subscriptions:
                after = self._fold.snapshot()
                for subscription in [*self.subscriptions]:
                    await subscription.listener(entry, before, after)
                before = after
        self.apply((), ends)


class ReadPositions:
    """End offsets by topic and partition. Every fold of new entries moves them and wakes waiters.

    `failure` is the reason why the log cannot be read; `fail` sets it and wakes the waiters.
    """

    def __init__(self) -> None:
        self.failure: LogError | None = None
        self._ends: dict[str, list[int]] = {}
        self._changed = asyncio.Event()
        """Set and cleared at once: releases the tasks that wait now, and no later one."""
        self._moves = 0

    @property
    def ends(self) -> Ends:
        """Positions up to which the log has been folded, by topic and partition; a copy."""
        return {topic: tuple(parts) for topic, parts in self._ends.items()}

    def without(self, topics: Iterable[str]) -> set[str]:
        """Return the given topics that are not read."""
        return {*topics} - self._ends.keys()

    @property
    def moves(self) -> int:
        """Counter that increases with each fold of new entries."""
        return self._moves

    def end(self, topic: str, partition: int) -> int:
        """Return the position in one partition; 0 if it is unknown."""
        parts = self._ends.get(topic, ())
        return parts[partition] if partition < len(parts) else 0

    def exceeds(self, ends: Ends) -> bool:
        """Return True if a position in one of these topics is beyond its end here."""
        return any(
            any(map(int.__lt__, parts, self._ends.get(topic, ()))) for topic, parts in ends.items()
        )

    def add(self, ends: Ends) -> None:
        """Add every topic and partition that is new, at its beginning."""
        for topic, parts in ends.items():
            positions = self._ends.setdefault(topic, [])
            positions.extend([0] * (len(parts) - len(positions)))

    def replace(self, ends: Ends) -> None:
        """Start over at these positions: the log was replaced."""
        self._ends = {topic: list(parts) for topic, parts in ends.items()}
        self._move()

    def advance(self, ends: Mapping[TopicPartition, int]) -> None:
        """Move partitions forward to these ends."""
        for (topic, partition), end in ends.items():
            parts = self._ends.setdefault(topic, [])
            parts.extend([0] * (partition + 1 - len(parts)))
            parts[partition] = max(parts[partition], end)
        self._move()

    def fail(self, failure: LogError) -> None:
        """Record why the log cannot be read. Waiters may have to give up."""
        self.failure = failure
        self._wake()

    async def moved(self, moves: int) -> None:
        """Return as soon as `moves` differs from the given number."""
        while self._moves == moves:
            await self._changed.wait()

    async def wait_for_records(self, positions: Sequence[Position]) -> None:
        """Return as soon as the records at these positions have been folded."""
        few = len(positions) <= INLINE_POSITIONS
        behind = _behind(positions) if few else await asyncio.to_thread(_behind, positions)
        while not self._reach(behind):
            await self._changed.wait()

    async def wait_for(self, ends: Ends) -> None:
        """Return as soon as every record before these ends has been folded.

        Raises:
            LogError: the log cannot be read, for another reason than an outage.
        """
        behind = {
            (topic, number): end
            for topic, parts in ends.items()
            for number, end in enumerate(parts)
        }
        while not self._reach(behind):
            if self.failure is not None and not isinstance(self.failure, LogUnavailable):
                raise self.failure
            await self._changed.wait()

    def _reach(self, ends: Mapping[TopicPartition, int]) -> bool:
        return all(self.end(*partition) >= end for partition, end in ends.items())

    def _move(self) -> None:
        self._moves += 1
        self._wake()

    def _wake(self) -> None:
        """Wake every task that waits now; each checks again whether it may go on."""
        self._changed.set()
        self._changed.clear()


def _behind(positions: Iterable[Position]) -> dict[TopicPartition, int]:
    """Return the end after the last of these positions in each partition."""
    ends: dict[TopicPartition, int] = {}
    for topic, partition, offset in positions:
        ends[topic, partition] = max(offset + 1, ends.get((topic, partition), 0))
    return ends


class ReleaseFolds:
    """Folds of one log by release: the most recently used ones, and all pinned ones.

    New entries, a new release and a replaced log take turns, so every fold is at `positions`.
    """

    def __init__(
        self,
        load: Load,
        kept: int,
        restarted: Callable[[], None],
    ) -> None:
        self.positions = ReadPositions()
        self._load = load
        self._restarted = restarted
        """Called when the log was replaced."""
        self._recent: LruCache[str, ReleaseFold] = LruCache(kept)
        self._pinned: dict[str, ReleaseFold] = {}
        self.observers: list[FoldObserver] = []
        self._turn = asyncio.Lock()

    def get(self, profile: Profile) -> ReleaseFold | None:
        """Return the fold of a release if it is loaded, and mark it as most recently used.

        A pinned fold needs no mark: it is not evicted.
        """
        return self._pinned.get(profile.release) or self._recent.use(profile.release)

    def any(self) -> ReleaseFold | None:
        """Return the fold of some release; None if none is loaded."""
        return next(iter(self._recent.values()), None)

    async def load(self, profile: Profile) -> ReleaseFold:
        """Return the fold of a release; fold it from the log if it is not loaded.

        Raises:
            LogError: the log cannot be read.
        """
        loaded = self.get(profile)
        if loaded is not None:
            return loaded
        async with self._turn:
            loaded = self.get(profile)
            if loaded is not None:
                return loaded
            fold = ReleaseFold(await self._load(profile, self.positions.ends))
            return self._recent.put(profile.release, fold)

    async def fold(self, batches: Sequence[Batch]) -> None:
        """Fold batches that arrived together, in the one order, into every release.

        If it is cancelled, it folds them to the end first.
        """
        async with self._turn:
            folds = {*self._recent.values(), *self._pinned.values()}
            entries = _few_entries(batches)
            if entries is None or any(fold.subscriptions for fold in folds):
                await to_its_end(self._fold_in_slices(folds, batches))
            else:  # without a pause, so nothing can cancel it half-way
                ends = _ends_of(batches)
                for fold in folds:
                    fold.apply(entries, ends)
                self._report(entries)
                self.positions.advance(ends)

    async def start_over_if_cut(self, ends: Ends) -> None:
        """Drop all folds if the log ends before the read positions: it was replaced."""
        async with self._turn:
            if not self.positions.exceeds(ends):
                return
            self._recent.clear()
            self._break_off()
            self._restarted()
            self.positions.replace(ends)

    @contextmanager
    def pinned(self, profile: Profile) -> Iterator[ReleaseFold]:
        """Pin a fold against eviction.

        Raises:
            KeyError: this release is not loaded.
        """
        fold = self.get(profile)
        if fold is None:
            raise KeyError(profile.release)
        fold.pins += 1
        self._pinned[profile.release] = fold
        try:
            yield fold
        finally:
            fold.pins -= 1
            if not fold.pins and self._pinned.get(profile.release) is fold:
                del self._pinned[profile.release]

    async def _fold_in_slices(self, folds: Iterable[ReleaseFold], batches: Sequence[Batch]) -> None:
        entries, ends = await _ordered(batches), _ends_of(batches)
        for fold in folds:
            await fold.apply_in_slices(entries, ends)
        self._report(entries)
        self.positions.advance(ends)

    def _report(self, entries: Sequence[Entry]) -> None:
        for observer in self.observers:
            observer.records(entries)

    def _break_off(self) -> None:
        """End every subscription: the log was replaced."""
        for observer in self.observers:
            observer.broken_off()
        pinned, self._pinned = self._pinned, {}
        for fold in pinned.values():
            for subscription in fold.subscriptions:
                subscription.broken_off()


def _ends_of(batches: Iterable[Batch]) -> dict[TopicPartition, int]:
    """Return the last end of these batches in each partition."""
    ends: dict[TopicPartition, int] = {}
    for batch in batches:
        partition = batch.topic, batch.partition
        ends[partition] = max(ends.get(partition, 0), batch.end)
    return ends


def _few_entries(batches: Sequence[Batch]) -> Sequence[Entry] | None:
    """Return the entries in the one order if they can be folded in one go; else None."""
    entries: list[Entry] = []
    for batch in batches:
        if len(entries) + len(batch) > AT_ONCE:
            return None
        entries += batch.entries()
    entries = in_order(entries)
    return None if any(map(_is_long, entries)) else entries


async def _ordered(batches: Sequence[Batch]) -> Sequence[Entry]:
    """Return the entries of batches in the one order."""
    ordering = EntrySorter()
    async for entry in sliced(entries_of(batches)):
        ordering.keep(ordering.rank(entry))
    return [entry async for entry in sliced(ordering.entries())]


def _is_long(entry: Entry) -> bool:
    """Return True if folding this one entry would block the event loop."""
    return len(entry.value or b"") > LONG_VALUE
