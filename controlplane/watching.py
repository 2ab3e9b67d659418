"""Watching: every change of what is known, with its record, for as many as want to hear of it.

Each change is found once, whoever watches; each of them takes the changes at his own pace, out of a
queue of bounded length. One who was away goes on from where he was.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from controlplane.core.diff import Change, diff
from controlplane.core.entry import Entry
from controlplane.core.order import entries_of, in_order
from controlplane.core.owners import owner
from controlplane.core.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.follower import Follower
from controlplane.loading import load
from controlplane.logs.log import ReadableLog

CHANGES_WAITING = 10_000
"""Changes that wait for one who watches: some MB. Who takes longer must look at the state."""

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
        self.lost = False

    def put(self, found: Sequence[Seen]) -> None:
        if self.lost:
            return
        self.lost = self.waiting.qsize() + len(found) > CHANGES_WAITING
        for one in found:
            self.waiting.put_nowait(None if self.lost else one)

    def end(self) -> None:
        self.waiting.put_nowait(None)


class Watching:
    """Tells all who watch of what one release learns from a log."""

    def __init__(self, follower: Follower, log: ReadableLog, profile: Profile) -> None:
        self._follower = follower
        self._log = log
        self._profile = profile
        self._queues: set[_Queue] = set()
        self._listening = ExitStack()
        self._ended = False

    async def changes(self, since: Ends | None = None) -> AsyncGenerator[Seen, None]:
        """Every change from now on, or from where somebody was before. Ends when `end` is called.

        Only connectors that a record is about are looked at, so watching costs what is written.

        Raises:
            TooSlow: so many changes wait to be taken (`CHANGES_WAITING`) that the next is lost.
            LogError: what has happened since cannot be read.
        """
        if self._ended:
            return
        state = await self._follower.state(self._profile)
        mine = _Queue()
        self._join(mine)
        try:
            if since is not None:
                async for one in self._missed(since, _ends(state)):
                    yield one
            while (found := await mine.waiting.get()) is not None:
                yield found
            if mine.lost:
                raise TooSlow(f"more than {CHANGES_WAITING} changes wait to be taken")
        finally:
            self._leave(mine)

    @property
    def watchers(self) -> int:
        """How many watch just now."""
        return len(self._queues)

    def end(self) -> None:
        """Nothing will change any more, also for those who begin to watch only now."""
        self._ended = True
        for one in self._queues:
            one.end()

    def _join(self, one: _Queue) -> None:
        if not self._queues:
            self._listening.enter_context(self._follower.telling(self._profile, self._listen))
        self._queues.add(one)
        if self._ended:  # meanwhile
            one.end()

    def _leave(self, one: _Queue) -> None:
        self._queues.discard(one)
        if not self._queues:
            self._listening.close()

    def _listen(self, entry: Entry, before: ClusterState, after: ClusterState) -> None:
        found = list(_seen(entry, before, after))
        for one in self._queues:
            one.put(found)

    async def _missed(self, since: Ends, now: Ends) -> AsyncGenerator[Seen, None]:
        """What somebody has missed who had read as far as this."""
        known = await self._follower.state(self._profile)
        start = {topic: _within(since.get(topic, ()), ends) for topic, ends in now.items()}
        fold = await load(
            self._log,
            self._profile,
            topics=known.topics,
            exactly_once=known.exactly_once,
            stop=start,
        )
        read = self._log.read(list(now), start, now)
        before = fold.snapshot()
        for entry in in_order(entries_of([batch async for batch in read])):
            fold.apply(entry)
            after = fold.snapshot()
            for one in _seen(entry, before, after):
                yield one
            before = after


def _seen(entry: Entry, before: ClusterState, after: ClusterState) -> Iterator[Seen]:
    """What a record changes about the connector that it is about."""
    name = owner(entry.topic, entry.key, after.topics, after.profile)
    found = [] if name is None else diff(before, after, name)
    for place, change in enumerate(found, 1):
        yield Seen(change, entry, _ends(after) if place == len(found) else None)


def _ends(state: ClusterState) -> dict[str, list[int]]:
    """Up to where a state has been read."""
    ends: dict[str, list[int]] = {}
    for (topic, partition), end in sorted(state.ends.items()):
        parts = ends.setdefault(topic, [])
        parts += [0] * (partition + 1 - len(parts))
        parts[partition] = end
    return ends


def _within(wanted: Iterable[int], ends: Sequence[int]) -> list[int]:
    """Offsets to begin at, one for each partition, none behind its end."""
    given = [*wanted, *[0] * len(ends)]
    return [max(0, min(pair)) for pair in zip(given, ends, strict=False)]
