"""Where in a log a moment lies, looked for from its snapshots on.

Of each partition a snapshot tells how late it was at its end: the running maximum of the
timestamps, by which the one order goes. So what lies before a snapshot that is early enough is in,
what lies behind one that is late enough is out, and only what lies between them is looked at.
That holds for each partition by itself, so records that came late do not matter here, nor for which
release a snapshot was made.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from controlplane.core.moments import read_position, read_time_ms
from controlplane.core.order import (
    Begun,
    BegunParts,
    Rank,
    Ranked,
    ends_within,
    limit_at,
    ranked,
    time_limit,
)
from controlplane.core.state import Topics
from controlplane.logs.log import Ends, ReadableLog
from controlplane.logs.snapshots import shelf_of
from controlplane.snapshots.finding import abouts

Marks = Mapping[tuple[str, int], Sequence[Begun]]
"""By topic and partition the places of which a snapshot tells, in ascending order."""


class Place(NamedTuple):
    """Where a moment lies."""

    limit: Rank
    """Records up to this rank are in."""
    ends: Ends


async def place_of(log: ReadableLog, moment: str, topics: Topics, stop: Ends) -> Place:
    """Where a moment (see `order.ends_at`) that is no vector lies in these topics.

    Raises:
        UnknownMoment: not such a text, or there is no such record, or they begin later.
    """
    marks = await _marks(log, stop)
    limit = await _limit(log, moment, topics, stop, marks) if marks else None
    if limit is not None:
        return Place(limit, await _ends(log, limit, stop, marks))
    found = await _ranked(log, stop)
    limit = await asyncio.to_thread(limit_at, found, moment, topics)
    return Place(limit, ends_within(found, limit))


async def ends_up_to(log: ReadableLog, limit: Rank, stop: Ends) -> Ends:
    """The ends of these topics' records up to a rank."""
    return await _ends(log, limit, stop, await _marks(log, stop))


async def _marks(log: ReadableLog, stop: Ends) -> Marks:
    """What snapshots tell of these topics. Where times are unknown, nothing."""
    marks: dict[tuple[str, int], set[Begun]] = defaultdict(set)
    shelf = shelf_of(log)
    if shelf is None:
        return {}
    for topic, ends in stop.items():
        for _, about in await abouts(shelf, topic):
            places = zip(about.ends, about.latest, ends, strict=False)
            for partition, (end, latest_ms, last) in enumerate(places):
                if end <= last and latest_ms >= 0:
                    marks[topic, partition].add(Begun(end, latest_ms))
    return {place: sorted(some) for place, some in marks.items()}


async def _limit(
    log: ReadableLog, moment: str, topics: Topics, stop: Ends, marks: Marks
) -> Rank | None:
    """The rank up to which records are in; None if only the whole log can tell."""
    if "@" not in moment:
        limit = time_limit(read_time_ms(moment))
        return limit if _before(marks, limit) else None  # or it may lie before the first record
    topic, partition, offset = read_position(moment, topics)
    ends = stop.get(topic, ())
    if partition >= len(ends) or offset >= ends[partition]:
        return None
    alone = [0] * len(ends)
    alone[partition] = offset + 1
    place = topic, partition
    earlier = [one for one in marks.get(place, ()) if one.end <= offset]
    begun = {place: earlier[-1]} if earlier else {}
    for batch, ranks in await _ranked(log, {topic: alone}, begun):
        if offset in batch.offsets:
            return ranks[batch.offsets.index(offset)]
    return None


async def _ends(log: ReadableLog, limit: Rank, stop: Ends, marks: Marks) -> Ends:
    begun = _before(marks, limit)
    found = await _ranked(log, _not_behind(stop, marks, limit), begun)
    return ends_within(found, limit, begun)


def _before(marks: Marks, limit: Rank) -> BegunParts:
    """By partition the last place before which all is in."""
    return {
        place: one for place, some in marks.items() for one in some if _rank(place, one) <= limit
    }


def _not_behind(stop: Ends, marks: Marks, limit: Rank) -> Ends:
    """By partition the first place behind which nothing is in, or where reading stops anyway."""
    behind = {
        place: one.end
        for place, some in marks.items()
        for one in reversed(some)
        if _rank(place, one) > limit
    }
    return {
        topic: [behind.get((topic, partition), last) for partition, last in enumerate(parts)]
        for topic, parts in stop.items()
    }


def _rank(place: tuple[str, int], begun: Begun) -> Rank:
    """No record at the beginning of this partition has a greater rank, no later one a less one."""
    topic, partition = place
    return begun.latest_ms, partition, begun.end - 1, topic


async def _ranked(
    log: ReadableLog, stop: Ends, begun: BegunParts = MappingProxyType({})
) -> list[Ranked]:
    """The records behind what has begun."""
    nothing = Begun(0, 0)
    start = {
        topic: [begun.get((topic, partition), nothing).end for partition in range(len(parts))]
        for topic, parts in stop.items()
    }
    batches = [batch async for batch in log.read(list(stop), start, stop)]
    return await asyncio.to_thread(lambda: list(ranked(batches, begun)))
