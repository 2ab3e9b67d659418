"""Change feed: sends every change of the state, with its record, to any number of watchers.

Each change is computed once for all watchers. Each watcher reads at its own pace from a bounded
queue. A watcher that reconnects continues at its last position.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import ExitStack, aclosing
from functools import partial
from typing import NamedTuple

from controlplane.core.entry import Entry
from controlplane.core.order import Ends, EntrySorter
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.core.topics.key_owners import owner
from controlplane.core.views.diff import Change, changed_by
from controlplane.event_loop import OwnLoop, in_thread_if_large, sliced, sliced_parts
from controlplane.logs.log import LogNotUsable, ReadableLog
from controlplane.projection.follower import Follower
from controlplane.projection.loader import load

CHANGES_WAITING = 10_000
"""Maximum changes in a watcher's queue, some MB; beyond it the watcher gets `TooSlow`."""

MISSED_AT_ONCE = 1_000
"""Maximum missed records whose changes are computed before the first is sent, some MB."""

MISSED_READS = 4
"""Maximum number of short reads of missed records that run at once; further reads wait.

A read is short if it has up to `MISSED_AT_ONCE` records. Long reads are counted separately, with
the same maximum. A long read keeps a state and all missed records in memory, until the watcher has
taken them."""

RELEASES_WATCHED = 8
"""Maximum number of releases that have watchers. Each of them takes memory for a state, and
time to fold every new entry and to compute its changes."""


class TooSlow(Exception):
    """The queue of a watcher is full, so changes are lost: it must read the state again."""


class TooManyReleases(Exception):
    """`RELEASES_WATCHED` other releases have watchers: this one cannot be watched now."""

    def __init__(self) -> None:
        super().__init__(
            f"{RELEASES_WATCHED} other releases are watched, the maximum: try again later"
        )


class ChangeEvent(NamedTuple):
    """A change, its record, and the end offsets after that record."""

    change: Change
    entry: Entry
    ends: Ends | None
    """Position to resume from; None: more changes of the same record follow."""


class _WatcherQueue:
    """Queue of the changes that one watcher has not taken yet; None ends its stream."""

    def __init__(self) -> None:
        self.events: asyncio.Queue[ChangeEvent | None] = asyncio.Queue()
        self.failure: Exception | None = None
        """Reason why the watcher gets no more changes."""

    def put(self, events: Sequence[ChangeEvent]) -> None:
        if self.failure is not None:
            return
        if self.events.qsize() + len(events) > CHANGES_WAITING:
            remedy = "read the state again, then watch again"
            self.fail(TooSlow(f"more than {CHANGES_WAITING} changes wait: {remedy}"))
            return
        for event in events:
            self.events.put_nowait(event)

    def fail(self, failure: Exception) -> None:
        self.failure = failure
        self.end()

    def end(self) -> None:
        self.events.put_nowait(None)


class _ReleaseWatchers:
    """Watchers of one release; they share one subscription, until the log is replaced."""

    def __init__(self, release: str) -> None:
        self.release = release
        self.queues: set[_WatcherQueue] = set()
        self.listening = ExitStack()

    async def listen(self, entry: Entry, before: ClusterState, after: ClusterState) -> None:
        events = await _events_of(entry, before, after)
        for queue in self.queues:
            queue.put(events)


class ChangeFeed:
    """Sends the changes of each release to its watchers; `profile` is the default release."""

    def __init__(self, follower: Follower, log: ReadableLog, profile: Profile) -> None:
        self._follower = follower
        self._log = log
        self._profile = profile
        self._by_release: dict[str, _ReleaseWatchers] = {}
        self._ended = False
        self._loop = OwnLoop()
        self._short_reads = asyncio.Semaphore(MISSED_READS)
        self._long_reads = asyncio.Semaphore(MISSED_READS)

    async def changes(
        self, since: Ends | None = None, profile: Profile | None = None
    ) -> AsyncGenerator[ChangeEvent, None]:
        """Yield every change from now on, or since an earlier position. Ends when `end` is called.

        For each new record, the views of its connector before and after the record are compared.

        Raises:
            TooSlow: more than `CHANGES_WAITING` changes waited.
            TooManyReleases: too many others are watched; the default release is always admitted.
            LogError: missed changes cannot be read, or the log was replaced.
            RuntimeError: another event loop runs the caller.
        """
        self._loop.check()
        if self._ended:
            return
        profile = profile or self._profile
        if since is None:
            since = (await self._follower.state(profile)).ends_by_topic
        state = await self._follower.whole_state(profile)
        queue = _WatcherQueue()
        # Join first: changes that arrive while the missed ones are read wait in the queue.
        watchers = self._join(queue, profile)
        try:
            async for missed in self._missed(since, state.ends_by_topic, state):
                yield missed
            while (event := await queue.events.get()) is not None:
                yield event
            if queue.failure is not None:
                raise queue.failure
        finally:
            self._leave(queue, watchers)

    @property
    def watchers(self) -> int:
        """Number of current watchers; tests wait until it changes."""
        return sum(len(watchers.queues) for watchers in self._by_release.values())

    def may_watch(self, profile: Profile) -> bool:
        """Return True if another client may watch with this release (`RELEASES_WATCHED`)."""
        return profile.release in self._by_release or len(self._by_release) < RELEASES_WATCHED

    def end(self) -> None:
        """End the streams of all present and future watchers."""
        self._ended = True
        for watchers in self._by_release.values():
            for queue in watchers.queues:
                queue.end()

    def _join(self, queue: _WatcherQueue, profile: Profile) -> _ReleaseWatchers:
        watchers = self._by_release.get(profile.release) or self._subscribe(profile)
        watchers.queues.add(queue)
        if self._ended:  # ended during the wait
            queue.end()
        return watchers

    def _subscribe(self, profile: Profile) -> _ReleaseWatchers:
        # Others may have begun since the caller asked `may_watch`.
        if profile.release != self._profile.release and not self.may_watch(profile):
            raise TooManyReleases
        watchers = _ReleaseWatchers(profile.release)
        subscribed = self._follower.subscribed(
            profile, watchers.listen, partial(self._end_watchers, watchers)
        )
        watchers.listening.enter_context(subscribed)
        self._by_release[watchers.release] = watchers
        return watchers

    def _end_watchers(self, watchers: _ReleaseWatchers) -> None:
        """End the present watchers, because the log was replaced; later ones watch the new log."""
        del self._by_release[watchers.release]
        for queue in watchers.queues:
            queue.fail(LogNotUsable("the log was replaced: read the state again, then watch again"))

    def _leave(self, queue: _WatcherQueue, watchers: _ReleaseWatchers) -> None:
        watchers.queues.discard(queue)
        if watchers.queues:
            return
        watchers.listening.close()
        if self._by_release.get(watchers.release) is watchers:
            del self._by_release[watchers.release]

    async def _missed(
        self, since: Ends, now: Ends, state: ClusterState
    ) -> AsyncGenerator[ChangeEvent, None]:
        """Yield the changes between two positions, which a reconnecting watcher has missed."""
        start = {topic: _within(since.get(topic, ()), ends) for topic, ends in now.items()}
        records = sum(sum(now[topic]) - sum(start[topic]) for topic in now)
        if not records:
            return
        if records <= MISSED_AT_ONCE:
            async with self._short_reads:
                events = [event async for event in self._read_missed(start, now, state)]
            # A slow watcher keeps these changes in memory, but frees its place for other reads.
            async for event in sliced(events):
                yield event
            return
        async with self._long_reads, aclosing(self._read_missed(start, now, state)) as missed:
            async for event in missed:
                yield event

    async def _read_missed(
        self, start: Ends, now: Ends, state: ClusterState
    ) -> AsyncGenerator[ChangeEvent, None]:
        """Read the log between two positions; yield the changes."""
        fold = await load(
            self._log,
            state.profile,
            topics=state.topics,
            exactly_once=state.exactly_once,
            stop=start,
        )
        ordering = EntrySorter()
        batches = self._log.read(list(now), start, now)
        async for entry in sliced_parts(batch.entries() async for batch in batches):
            ordering.keep(ordering.rank(entry))
        before = fold.snapshot()
        async for entry in sliced(ordering.entries()):
            await in_thread_if_large(partial(fold.apply, entry), _parts(entry))
            after = fold.snapshot()
            async for event in sliced(await _events_of(entry, before, after)):
                yield event
            before = after


async def _events_of(entry: Entry, before: ClusterState, after: ClusterState) -> list[ChangeEvent]:
    return await in_thread_if_large(lambda: list(_events(entry, before, after)), _parts(entry))


BYTES_IN_A_PART = 50
"""Bytes of a record that take as long to compare as one config key with its value."""


def _parts(entry: Entry) -> int:
    return len(entry.value or b"") // BYTES_IN_A_PART


def _events(entry: Entry, before: ClusterState, after: ClusterState) -> Iterator[ChangeEvent]:
    """Yield the changes of a record's connector."""
    name = owner(entry.topic, entry.key, after.topics, after.profile)
    changes = [] if name is None else changed_by(entry, before, after, name)
    for number, change in enumerate(changes, 1):
        yield ChangeEvent(change, entry, after.ends_by_topic if number == len(changes) else None)


def _within(starts: Iterable[int], ends: Sequence[int]) -> list[int]:
    """Return the start offset of each partition: 0 if it is missing, at most the end."""
    padded_starts = [*starts, *[0] * len(ends)]
    return [max(0, min(pair)) for pair in zip(padded_starts, ends, strict=False)]
