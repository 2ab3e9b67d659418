"""Watching: every change of what is known, with its record, for as many as want to hear of it.

Each change is found once, whoever watches; each of them takes the changes at his own pace, out of a
queue of bounded length. One who was away goes on from where he was.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

from controlplane.core.diff import Change, changed_by
from controlplane.core.entry import Entry
from controlplane.core.order import Ordering
from controlplane.core.owners import owner
from controlplane.core.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.event_loop import apart, sliced, sliced_parts
from controlplane.follower import Follower
from controlplane.loading import load
from controlplane.logs.log import LogNotUsable, ReadableLog

CHANGES_WAITING = 10_000
"""Changes that wait for one who watches: some MB. Who takes longer must look at the state."""

RELEASES_WATCHED = 8
"""Releases as which somebody watches at once: each costs a state and a share of every entry."""

Ends = Mapping[str, Sequence[int]]


class TooSlow(Exception):
    """Changes were lost, because who watches does not take them."""


class Seen(NamedTuple):
    """A change, its record, and up to where the log has been read with it."""

    change: Change
    entry: Entry
    ends: Ends | None
    """Where to go on from; None: the same record changes more."""


class _Queue:
    """What waits for one who watches."""

    def __init__(self) -> None:
        self.waiting: asyncio.Queue[Seen | None] = asyncio.Queue()
        self.failure: Exception | None = None
        """Why he hears of no more."""

    def put(self, found: Sequence[Seen]) -> None:
        if self.failure is not None:
            return
        if self.waiting.qsize() + len(found) > CHANGES_WAITING:
            self.fail(TooSlow(f"more than {CHANGES_WAITING} changes wait to be taken"))
            return
        for one in found:
            self.waiting.put_nowait(one)

    def fail(self, failure: Exception) -> None:
        self.failure = failure
        self.end()

    def end(self) -> None:
        self.waiting.put_nowait(None)


class _Room:
    """Who watches as a worker of one release, as long as the log is the same."""

    def __init__(self, release: str) -> None:
        self.release = release
        self.queues: set[_Queue] = set()
        self.listening = ExitStack()

    async def listen(self, entry: Entry, before: ClusterState, after: ClusterState) -> None:
        found = await _found(entry, before, after)
        for one in self.queues:
            one.put(found)


class Watching:
    """Tells all who watch of what releases learn from a log: `profile`, if they name none."""

    def __init__(self, follower: Follower, log: ReadableLog, profile: Profile) -> None:
        self._follower = follower
        self._log = log
        self._profile = profile
        self._rooms: dict[str, _Room] = {}
        self._ended = False

    async def changes(
        self, since: Ends | None = None, profile: Profile | None = None
    ) -> AsyncGenerator[Seen, None]:
        """Every change from now on, or from where somebody was before. Ends when `end` is called.

        Only connectors that a record is about are looked at, so watching costs what is written, and
        a state for each release.

        Raises:
            TooSlow: so many changes wait to be taken (`CHANGES_WAITING`) that the next is lost.
            LogError: what has happened since cannot be read, or the log is another one now.
        """
        if self._ended:
            return
        profile = profile or self._profile
        state = await self._follower.state(profile)
        mine = _Queue()
        room = self._join(mine, profile)
        try:
            if since is not None:
                async for one in self._missed(since, state.ends_by_topic, state):
                    yield one
            while (found := await mine.waiting.get()) is not None:
                yield found
            if mine.failure is not None:
                raise mine.failure
        finally:
            self._leave(mine, room)

    @property
    def watchers(self) -> int:
        """How many watch just now."""
        return sum(len(room.queues) for room in self._rooms.values())

    def may_watch(self, profile: Profile) -> bool:
        """Whether there is room for one more who watches as this release (`RELEASES_WATCHED`)."""
        return profile.release in self._rooms or len(self._rooms) < RELEASES_WATCHED

    def end(self) -> None:
        """Nothing will change any more, also for those who begin to watch only now."""
        self._ended = True
        for room in self._rooms.values():
            for one in room.queues:
                one.end()

    def _join(self, one: _Queue, profile: Profile) -> _Room:
        room = self._rooms.get(profile.release) or self._opened(profile)
        room.queues.add(one)
        if self._ended:  # meanwhile
            one.end()
        return room

    def _opened(self, profile: Profile) -> _Room:
        room = _Room(profile.release)
        telling = self._follower.telling(profile, room.listen, partial(self._broken_off, room))
        room.listening.enter_context(telling)
        self._rooms[room.release] = room
        return room

    def _broken_off(self, room: _Room) -> None:
        """Who watches now has to begin anew; whoever comes from now on watches the other log."""
        del self._rooms[room.release]
        for one in room.queues:
            one.fail(LogNotUsable("the log is another one now: look at the state, and watch anew"))

    def _leave(self, one: _Queue, room: _Room) -> None:
        room.queues.discard(one)
        if room.queues:
            return
        room.listening.close()
        if self._rooms.get(room.release) is room:
            del self._rooms[room.release]

    async def _missed(
        self, since: Ends, now: Ends, known: ClusterState
    ) -> AsyncGenerator[Seen, None]:
        """What somebody has missed who had read as far as this."""
        start = {topic: _within(since.get(topic, ()), ends) for topic, ends in now.items()}
        fold = await load(
            self._log,
            known.profile,
            topics=known.topics,
            exactly_once=known.exactly_once,
            stop=start,
        )
        ordering = Ordering()
        batches = self._log.read(list(now), start, now)
        async for entry in sliced_parts(batch.entries() async for batch in batches):
            ordering.keep(ordering.rank(entry))
        before = fold.snapshot()
        async for entry in sliced(ordering.entries()):
            await apart(partial(fold.apply, entry), _parts(entry))
            after = fold.snapshot()
            async for one in sliced(await _found(entry, before, after)):
                yield one
            before = after


async def _found(entry: Entry, before: ClusterState, after: ClusterState) -> list[Seen]:
    return await apart(lambda: list(_seen(entry, before, after)), _parts(entry))


BYTES_IN_A_PART = 50
"""Bytes of a record that tell as much as a key of a config with its value."""


def _parts(entry: Entry) -> int:
    return len(entry.value or b"") // BYTES_IN_A_PART


def _seen(entry: Entry, before: ClusterState, after: ClusterState) -> Iterator[Seen]:
    """What a record changes about the connector that it is about."""
    name = owner(entry.topic, entry.key, after.topics, after.profile)
    found = [] if name is None else changed_by(entry, before, after, name)
    for place, change in enumerate(found, 1):
        yield Seen(change, entry, after.ends_by_topic if place == len(found) else None)


def _within(wanted: Iterable[int], ends: Sequence[int]) -> list[int]:
    """Offsets to begin at, one for each partition, none behind its end."""
    given = [*wanted, *[0] * len(ends)]
    return [max(0, min(pair)) for pair in zip(given, ends, strict=False)]
