"""Search for a moment's position in a log, with the help of snapshots.

For each partition, a snapshot stores the running maximum of the timestamps at its end; the one
order uses it. A snapshot that is early enough proves that all records before it are in. One that is
late enough proves that all records after it are out. Only the records between are read.

This holds for each partition by itself. So late records do not matter, and a snapshot of any
release serves.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from controlplane.core.moments import read_position, read_time_ms
from controlplane.core.order import (
    Ends,
    Rank,
    RankedBatch,
    SkippedPrefix,
    SkippedPrefixes,
    ends_within,
    limit_at,
    rank_batches,
    time_limit,
)
from controlplane.core.state import Topics
from controlplane.logs.log import ReadableLog
from controlplane.logs.snapshots import snapshot_store_of
from controlplane.projection.snapshot_lookup import snapshot_headers

Marks = Mapping[tuple[str, int], Sequence[SkippedPrefix]]
"""Snapshot positions by topic and partition, in ascending order."""


class MomentPosition(NamedTuple):
    """Position of a moment in a log."""

    limit: Rank
    """Records up to this rank are in."""
    ends: Ends


async def moment_position(
    log: ReadableLog, moment: str, topics: Topics, stop: Ends
) -> MomentPosition:
    """Return the position of a moment (see `order.ends_at`) that is no vector in these topics.

    Raises:
        UnknownMoment: the text is no moment, the record is missing, or the topics begin later.
    """
    marks = await _marks(log, stop)
    limit = await _limit(log, moment, topics, stop, marks) if marks else None
    if limit is not None:
        return MomentPosition(limit, await _ends(log, limit, stop, marks))
    batches = await _ranked(log, stop)
    limit = await asyncio.to_thread(limit_at, batches, moment, topics)
    return MomentPosition(limit, ends_within(batches, limit))


async def ends_up_to(log: ReadableLog, limit: Rank, stop: Ends) -> Ends:
    """Return the end offsets of these topics' records up to a rank."""
    return await _ends(log, limit, stop, await _marks(log, stop))


async def _marks(log: ReadableLog, stop: Ends) -> Marks:
    """Return the snapshot positions of these topics; none where times are unknown."""
    marks: dict[tuple[str, int], set[SkippedPrefix]] = defaultdict(set)
    shelf = snapshot_store_of(log)
    if shelf is None:
        return {}
    for topic, ends in stop.items():
        for _, about in await snapshot_headers(shelf, topic):
            places = zip(about.ends, about.latest, ends, strict=False)
            for partition, (end, latest_ms, last) in enumerate(places):
                if end <= last and latest_ms >= 0:
                    marks[topic, partition].add(SkippedPrefix(end, latest_ms))
    return {place: sorted(prefixes) for place, prefixes in marks.items()}


async def _limit(
    log: ReadableLog, moment: str, topics: Topics, stop: Ends, marks: Marks
) -> Rank | None:
    """Return the rank up to which records are in; None if only the whole log can tell."""
    if "@" not in moment:
        limit = time_limit(read_time_ms(moment))
        return limit if _before(marks, limit) else None  # otherwise it may precede the first record
    topic, partition, offset = read_position(moment, topics)
    ends = stop.get(topic, ())
    if partition >= len(ends) or offset >= ends[partition]:
        return None
    alone = [0] * len(ends)
    alone[partition] = offset + 1
    place = topic, partition
    earlier = [prefix for prefix in marks.get(place, ()) if prefix.end <= offset]
    begun = {place: earlier[-1]} if earlier else {}
    for batch, ranks in await _ranked(log, {topic: alone}, begun):
        if offset in batch.offsets:
            return ranks[batch.offsets.index(offset)]
    return None


async def _ends(log: ReadableLog, limit: Rank, stop: Ends, marks: Marks) -> Ends:
    begun = _before(marks, limit)
    batches = await _ranked(log, _not_behind(stop, marks, limit), begun)
    return ends_within(batches, limit, begun)


def _before(marks: Marks, limit: Rank) -> SkippedPrefixes:
    """Return the last snapshot position of each partition before which all records are in."""
    return {
        place: prefix
        for place, prefixes in marks.items()
        for prefix in prefixes
        if _rank(place, prefix) <= limit
    }


def _not_behind(stop: Ends, marks: Marks, limit: Rank) -> Ends:
    """Return for each partition the first position after which no record is in; `stop` at most."""
    behind = {
        place: prefix.end
        for place, prefixes in marks.items()
        for prefix in reversed(prefixes)
        if _rank(place, prefix) > limit
    }
    return {
        topic: [behind.get((topic, partition), last) for partition, last in enumerate(parts)]
        for topic, parts in stop.items()
    }


def _rank(place: tuple[str, int], begun: SkippedPrefix) -> Rank:
    """Return the rank at a mark: the greatest before it in this partition, the least after it."""
    topic, partition = place
    return begun.latest_ms, partition, begun.end - 1, topic


async def _ranked(
    log: ReadableLog, stop: Ends, begun: SkippedPrefixes = MappingProxyType({})
) -> list[RankedBatch]:
    """Return the ranked records after these positions."""
    nothing = SkippedPrefix(0, 0)
    start = {
        topic: [begun.get((topic, partition), nothing).end for partition in range(len(parts))]
        for topic, parts in stop.items()
    }
    batches = [batch async for batch in log.read(list(stop), start, stop)]
    return await asyncio.to_thread(lambda: list(rank_batches(batches, begun)))
