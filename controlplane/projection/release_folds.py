"""Folds of one log, one per requested release, and the read positions that they share.

Listeners receive each entry. Callers wait until the positions have reached a record.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from controlplane.core.entry import Batch, Entry, Position, TopicPartition
from controlplane.core.fold import Fold
from controlplane.core.order import Ends, EntrySorter, entries_of, has_lost, in_order
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.event_loop import run_to_end, sliced
from controlplane.logs.log import LogError, LogUnavailable
from controlplane.projection.lru_cache import LruCache

AT_ONCE = 200
"""Maximum entries that are folded without a pause, about 10 µs each; more are folded in slices."""

AT_ONCE_BYTES = 1 << 16
"""Maximum bytes of JSON that are parsed without a pause.

Each loaded release parses every value. Unusual JSON of this size takes up to 200 ms.
"""

LONG_VALUE = 1 << 14
"""Longest value, in bytes, whose entry is folded in the event loop; longer ones use a thread.

Unusual JSON of this length blocks the loop for up to 50 ms: `core.java.jackson` parses it in
Python.
"""

INLINE_POSITIONS = 200
"""Maximum number of awaited records whose end offsets the event loop computes itself.

A thread computes those of more records.
"""

Listener = Callable[[Entry, ClusterState, ClusterState], Awaitable[None]]
"""Receives an entry and the states before and after it; the next entry waits until it returns."""


Load = Callable[[Profile, Ends], Awaitable[Fold]]
"""Folds the log for a release, up to these ends; returns the fold."""


class Subscription(NamedTuple):
    """A listener, and the callback for a replacement of the log."""

    listener: Listener
    broken_off: Callable[[], None]


class FoldObserver(NamedTuple):
    """Callbacks for new entries and for a replacement of the log."""

    on_records: Callable[[Sequence[Entry]], None]
    """Receives the entries of each `fold` call in the one order, before the positions move."""
    broken_off: Callable[[], None]
    """Called when the log was replaced."""


class ReleaseFold:
    """The fold of one release and its last published state."""

    def __init__(self, fold: Fold) -> None:
        self.subscriptions: list[Subscription] = []
        self.pins = 0
        """Number of callers that pin this fold against eviction."""
        self.whole = asyncio.Event()
        """Set, except while a group of entries is folded in slices."""
        self.whole.set()
        self._fold = fold
        self._state: ClusterState | None = None

    @property
    def profile(self) -> Profile:
        """Release of the fold."""
        return self._fold.profile

    def replace(self, fold: Fold) -> None:
        """Continue with another fold of the same log; keep the subscriptions."""
        self._fold, self._state = fold, None

    def start_over(self, fold: Fold) -> None:
        """Continue with the fold of another log; end the subscriptions."""
        self.replace(fold)
        ended, self.subscriptions = self.subscriptions, []
        for subscription in ended:
            subscription.broken_off()

    def state(self) -> ClusterState:
        """Return the current state; it is cached until further entries are folded.

        The state and the fold share tables. The fold copies such a table before it changes it.
        """
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
        # `state()` caches this state, so readers get it until the group is folded. Otherwise they
        # would snapshot the fold while a thread changes it, and see a half-folded entry.
        before = self.state()
        self.whole.clear()
        try:
            async for entry in sliced(entries):
                await self._fold_entry(entry)
                if self.subscriptions:
                    after = self._fold.snapshot()
                    for subscription in [*self.subscriptions]:
                        await subscription.listener(entry, before, after)
                    before = after
            self.apply((), ends)
        finally:
            self.whole.set()

    async def catch_up(self, batches: Sequence[Batch]) -> None:
        """Fold batches in the one order, as a load does; no caller may have the fold yet."""
        async for entry in sliced(await _ordered(batches)):
            await self._fold_entry(entry)
        self.apply((), _ends_of(batches))

    async def _fold_entry(self, entry: Entry) -> None:
        if _is_long(entry):
            await asyncio.to_thread(self._fold.apply, entry)
        else:
            self._fold.apply(entry)


class ReadPositions:
    """End offsets up to which the log was folded. Each fold of new entries moves them.

    `failure`: the reason why the log cannot be read; `fail` sets it and wakes the waiters.
    """

    def __init__(self) -> None:
        self.failure: LogError | None = None
        self._ends: dict[str, list[int]] = {}
        self._first_ends: dict[str, list[int]] = {}
        """Ends that topics had when they were added; a topic is behind until it reaches them."""
        self._changed = asyncio.Event()
        """Set and cleared at once: releases the tasks that wait now, and no later one."""
        self._moves = 0

    @property
    def ends(self) -> Ends:
        """Positions up to which the log has been folded, by topic and partition; a copy."""
        return {topic: tuple(parts) for topic, parts in self._ends.items()}

    def behind(self, topics: Iterable[str]) -> set[str]:
        """Return the given topics that are not read yet.

        A new topic is read once it has reached the end that it had when it was added.
        """
        return {topic for topic in topics if topic not in self._ends or self._is_behind(topic)}

    def _is_behind(self, topic: str) -> bool:
        ends = self._first_ends.get(topic, ())
        if any(self.end(topic, partition) < end for partition, end in enumerate(ends)):
            return True
        self._first_ends.pop(topic, None)
        return False

    @property
    def moves(self) -> int:
        """Counter that increases if entries are folded, topics dropped, or the log is replaced."""
        return self._moves

    def end(self, topic: str, partition: int) -> int:
        """Return the end offset in one partition; 0 for an unknown partition."""
        parts = self._ends.get(topic, ())
        return parts[partition] if partition < len(parts) else 0

    def exceeds(self, ends: Ends) -> bool:
        """Return True if a topic of `ends` has lost records or partitions that were folded."""
        return has_lost(ends, self._ends)

    def add(self, ends: Ends) -> None:
        """Add every topic and partition that is new, at its beginning."""
        for topic, parts in ends.items():
            positions = self._ends.setdefault(topic, [])
            if len(positions) < len(parts):
                self._first_ends[topic] = [*parts]
            positions.extend([0] * (len(parts) - len(positions)))

    def replace(self, ends: Ends) -> None:
        """Continue at these positions: at the start, or because the log was replaced."""
        self._ends = {topic: list(parts) for topic, parts in ends.items()}
        self._first_ends.clear()
        self._move()

    def drop(self, topics: Iterable[str]) -> None:
        """Remove topics that are no longer read."""
        for topic in topics:
            del self._ends[topic]
            self._first_ends.pop(topic, None)
        self._move()

    def advance(self, ends: Mapping[TopicPartition, int]) -> None:
        """Move partitions forward to these ends."""
        for (topic, partition), end in ends.items():
            parts = self._ends.setdefault(topic, [])
            parts.extend([0] * (partition + 1 - len(parts)))
            parts[partition] = max(parts[partition], end)
        self._move()

    def fail(self, failure: LogError) -> None:
        """Record why the log cannot be read, and wake waiters, which may give up."""
        self.failure = failure
        self._wake()

    async def moved(self, moves: int) -> None:
        """Wait until `moves` differs from the given number."""
        while self._moves == moves:
            await self._changed.wait()

    async def wait_for_records(self, positions: Sequence[Position]) -> None:
        """Wait until the records at these positions have been folded."""
        few = len(positions) <= INLINE_POSITIONS
        ends = _ends_after(positions) if few else await asyncio.to_thread(_ends_after, positions)
        while not self._reach(ends):
            await self._changed.wait()

    async def wait_for(self, ends: Ends) -> None:
        """Wait until every record before these ends has been folded.

        Raises:
            LogError: the log cannot be read; an outage (`LogUnavailable`) is waited out.
        """
        partition_ends = {
            (topic, number): end
            for topic, parts in ends.items()
            for number, end in enumerate(parts)
        }
        while not self._reach(partition_ends):
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


def _ends_after(positions: Iterable[Position]) -> dict[TopicPartition, int]:
    """Return the end after the last of these positions in each partition."""
    ends: dict[TopicPartition, int] = {}
    for topic, partition, offset in positions:
        ends[topic, partition] = max(offset + 1, ends.get((topic, partition), 0))
    return ends


class ReleaseFolds:
    """Folds of one log by release: the most recently used ones, and all pinned ones.

    A lock orders new entries and replacements of the log, so every fold is at `positions`. A load
    runs without the lock: otherwise new entries, and so commands, would wait for the load. The
    loaded fold catches up afterwards.
    """

    def __init__(
        self,
        load: Load,
        folds_kept: int,
        log_replaced: Callable[[], None],
    ) -> None:
        self.positions = ReadPositions()
        self._load = load
        self._log_replaced = log_replaced
        """Called when the log was replaced, or has lost topics."""
        self._recent: LruCache[str, ReleaseFold] = LruCache(folds_kept)
        self._pinned: dict[str, ReleaseFold] = {}
        self.observers: list[FoldObserver] = []
        self._lock = asyncio.Lock()
        self._load_lock = asyncio.Lock()
        """Held by the one load that runs at a time."""
        self._missed: list[Batch] | None = None
        """Batches that were folded since the present load began; None: no valid load is running."""

    def get(self, profile: Profile) -> ReleaseFold | None:
        """Return the fold of a release if it is loaded, and mark it as most recently used.

        A pinned fold needs no mark: it is not evicted.
        """
        return self._pinned.get(profile.release) or self._recent.use(profile.release)

    def present(self, profile: Profile) -> ClusterState | None:
        """Return the state of a release that is loaded; else None."""
        fold = self.get(profile)
        return None if fold is None else fold.state()

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
        async with self._load_lock:
            loaded = self.get(profile)
            while loaded is None:
                loaded = await self._load_now(profile)
            return loaded

    async def _load_now(self, profile: Profile) -> ReleaseFold | None:
        """Fold the log up to the present positions.

        Return None if the log was replaced, or has lost topics, meanwhile.
        """
        missed = self._missed = list[Batch]()
        try:
            fold = ReleaseFold(await self._load(profile, self.positions.ends))
            # Most of the missed batches are folded before the lock, which is then held briefly.
            folded = len(missed)
            await fold.catch_up(missed[:folded])
            async with self._lock:
                if self._missed is not missed:
                    return None
                await fold.catch_up(missed[folded:])
                return self._recent.put(profile.release, fold)
        finally:
            self._missed = None

    async def fold(self, batches: Sequence[Batch]) -> None:
        """Fold batches that arrived together, in the one order, into every release.

        A cancelled call first folds all of them: else the folds would stand at different positions.
        """
        async with self._lock:
            folds = {*self._recent.values(), *self._pinned.values()}
            entries = _few_entries(batches, len(folds))
            if entries is None or any(fold.subscriptions for fold in folds):
                await run_to_end(self._fold_in_slices(folds, batches))
            else:  # without an await, so no cancellation can stop it half-way
                ends = _ends_of(batches)
                for fold in folds:
                    fold.apply(entries, ends)
                self._advance(batches, entries, ends)

    async def start_over_if_cut(self, ends: Ends) -> None:
        """Drop all folds if the log ends before the read positions: it was replaced.

        Pinned folds are loaded from the other log. Until then, and after a failure, all folds keep
        their states: a pinned release always has one.

        Raises:
            LogError: the log cannot be read.
        """
        async with self._lock:
            if not self.positions.exceeds(ends):
                return
            loaded = await self._load_pinned(ends)
            for observer in self.observers:
                observer.broken_off()
            for release, fold in self._pinned.items():
                fold.start_over(loaded[release])
            self._drop_others()
            self.positions.replace(ends)

    async def forget(self, topics: Collection[str]) -> None:
        """Drop all folds, and load the pinned ones again without these topics: they were deleted.

        The positions in other topics stay, so subscriptions and observers go on.

        Raises:
            LogError: the log cannot be read.
        """
        async with self._lock:
            ends = self.positions.ends
            loaded = await self._load_pinned({at: ends[at] for at in ends if at not in topics})
            for release, fold in self._pinned.items():
                fold.replace(loaded[release])
            self._drop_others()
            self.positions.drop(topics)

    async def _load_pinned(self, ends: Ends) -> dict[str, Fold]:
        """Load the folds of all pinned releases from the log, up to these ends."""
        loaded: dict[str, Fold] = {}
        while unloaded := [
            fold for release, fold in self._pinned.items() if release not in loaded
        ]:  # others may be pinned during a load
            profile = unloaded[0].profile
            loaded[profile.release] = await self._load(profile, ends)
        return loaded

    def _drop_others(self) -> None:
        """Drop the folds that are not pinned, a load under way, and the cached past states."""
        self._recent.clear()
        self._missed = None  # a load that runs now has read the old log
        for release, fold in self._pinned.items():
            self._recent.put(release, fold)
        self._log_replaced()

    @contextmanager
    def pinned(self, profile: Profile) -> Iterator[ReleaseFold]:
        """Pin the loaded fold of a release against eviction within the block.

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
            if not fold.pins:
                del self._pinned[profile.release]

    async def _fold_in_slices(self, folds: Iterable[ReleaseFold], batches: Sequence[Batch]) -> None:
        entries, ends = await _ordered(batches), _ends_of(batches)
        for fold in folds:
            await fold.apply_in_slices(entries, ends)
        self._advance(batches, entries, ends)

    def _advance(
        self,
        batches: Sequence[Batch],
        entries: Sequence[Entry],
        ends: Mapping[TopicPartition, int],
    ) -> None:
        """Report folded entries to the observers and to the present load; move the positions."""
        for observer in self.observers:
            observer.on_records(entries)
        if self._missed is not None:
            self._missed += batches
        self.positions.advance(ends)


def _ends_of(batches: Iterable[Batch]) -> dict[TopicPartition, int]:
    """Return the last end of these batches in each partition."""
    ends: dict[TopicPartition, int] = {}
    for batch in batches:
        partition = batch.topic, batch.partition
        ends[partition] = max(ends.get(partition, 0), batch.end)
    return ends


def _few_entries(batches: Sequence[Batch], folds: int) -> Sequence[Entry] | None:
    """Return the entries in the one order if all folds can apply them without a pause; else None.

    `folds`: number of releases that are folded.
    """
    entries: list[Entry] = []
    for batch in batches:
        if len(entries) + len(batch) > AT_ONCE:
            return None
        entries += batch.entries()
    entries = in_order(entries)
    value_bytes = [len(entry.value or b"") for entry in entries]
    if max(value_bytes, default=0) > LONG_VALUE or sum(value_bytes) * folds > AT_ONCE_BYTES:
        return None
    return entries


async def _ordered(batches: Sequence[Batch]) -> Sequence[Entry]:
    """Return the entries of batches in the one order."""
    ordering = EntrySorter()
    async for entry in sliced(entries_of(batches)):
        ordering.keep(ordering.rank(entry))
    return [entry async for entry in sliced(ordering.entries())]


def _is_long(entry: Entry) -> bool:
    """Return True if folding this entry would block the event loop for long."""
    return len(entry.value or b"") > LONG_VALUE
