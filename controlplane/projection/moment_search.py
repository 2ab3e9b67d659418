"""Search for a moment's position in a log, with the help of snapshots.

A moment includes all records up to a rank: a position in the one order of all partitions' records
(`core.order`). A snapshot replaces the records of each partition before an end offset. The
snapshot's header has this offset, and the latest timestamp before it. Offset and timestamp give the
rank of the last replaced record in the partition. If the moment includes this rank, it includes all
records before the end offset. Otherwise it excludes all records from the end offset on.

Each snapshot of a topic tells in this way whether the moment lies before or after its end offset.
So the search reads only the records between the nearest end offsets before and after the moment.

Within a partition, ranks ascend with the offsets even if timestamps do not. So a late record, with
the timestamp of a slow clock, does no harm here. The search uses only the headers of snapshots,
whose offsets and timestamps do not depend on a release. So snapshots of any release are usable.
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
    """Records up to this rank are included."""
    ends: Ends
    """End offsets of the included records."""


async def moment_position(
    log: ReadableLog, moment: str, topics: Topics, stop: Ends
) -> MomentPosition:
    """Return the position of a moment in the topics of `stop`.

    `moment`: text that names a record or a time; a vector of offsets is not accepted.

    Raises:
        UnknownMoment: the text is no moment, the record is missing, or the topics begin later.
    """
    marks = await _marks(log, stop)
    limit = await _limit(log, moment, topics, stop, marks) if marks else None
    if limit is not None:
        return MomentPosition(limit, await _ends(log, limit, stop, marks))
    batches = await _rank_records(log, stop)
    limit = await asyncio.to_thread(limit_at, batches, moment, topics)
    return MomentPosition(limit, ends_within(batches, limit))


async def ends_up_to(log: ReadableLog, limit: Rank, stop: Ends) -> Ends:
    """Return the end offsets of these topics' records up to a rank."""
    return await _ends(log, limit, stop, await _marks(log, stop))


async def _marks(log: ReadableLog, stop: Ends) -> Marks:
    """Return the snapshot positions of these topics, without those of unknown time."""
    marks: dict[tuple[str, int], set[SkippedPrefix]] = defaultdict(set)
    store = snapshot_store_of(log)
    if store is None:
        return {}
    for topic, ends in stop.items():
        for _, header in await snapshot_headers(store, topic):
            partition_marks = zip(header.ends, header.latest, ends, strict=False)
            for partition, (end, latest_ms, last) in enumerate(partition_marks):
                if end <= last and latest_ms >= 0:
                    marks[topic, partition].add(SkippedPrefix(end, latest_ms))
    return {topic_partition: sorted(prefixes) for topic_partition, prefixes in marks.items()}


async def _limit(
    log: ReadableLog, moment: str, topics: Topics, stop: Ends, marks: Marks
) -> Rank | None:
    """Return the rank of the last included records; None if the whole log must be read for it."""
    if "@" not in moment:
        limit = time_limit(read_time_ms(moment))
        # Without a snapshot before the time, the time may precede the first record. Then the whole
        # log must be read: `limit_at` raises `UnknownMoment` for such a time.
        return limit if _included_before(marks, limit) else None
    topic, partition, offset = read_position(moment, topics)
    ends = stop.get(topic, ())
    if partition >= len(ends) or offset >= ends[partition]:
        return None
    stop_after = [0] * len(ends)
    stop_after[partition] = offset + 1
    topic_partition = topic, partition
    earlier = [prefix for prefix in marks.get(topic_partition, ()) if prefix.end <= offset]
    skipped = {topic_partition: earlier[-1]} if earlier else {}
    for batch, ranks in await _rank_records(log, {topic: stop_after}, skipped):
        if offset in batch.offsets:
            return ranks[batch.offsets.index(offset)]
    return None


async def _ends(log: ReadableLog, limit: Rank, stop: Ends, marks: Marks) -> Ends:
    skipped = _included_before(marks, limit)
    batches = await _rank_records(log, _excluded_after(stop, marks, limit), skipped)
    return ends_within(batches, limit, skipped)


def _included_before(marks: Marks, limit: Rank) -> SkippedPrefixes:
    """Return, per partition, the last snapshot position before which all records are included."""
    return {
        topic_partition: prefix
        for topic_partition, prefixes in marks.items()
        for prefix in prefixes
        if _rank(topic_partition, prefix) <= limit
    }


def _excluded_after(stop: Ends, marks: Marks, limit: Rank) -> Ends:
    """Return, per partition, the first position after which no record is included, or `stop`."""
    excluding = {
        topic_partition: prefix.end
        for topic_partition, prefixes in marks.items()
        for prefix in reversed(prefixes)
        if _rank(topic_partition, prefix) > limit
    }
    return {
        topic: [excluding.get((topic, partition), last) for partition, last in enumerate(parts)]
        for topic, parts in stop.items()
    }


def _rank(topic_partition: tuple[str, int], prefix: SkippedPrefix) -> Rank:
    """Return the rank at a snapshot position.

    No record before it in its partition has a greater rank, none after it a smaller one.
    """
    topic, partition = topic_partition
    return prefix.latest_ms, partition, prefix.end - 1, topic


async def _rank_records(
    log: ReadableLog, stop: Ends, skipped: SkippedPrefixes = MappingProxyType({})
) -> list[RankedBatch]:
    """Read and rank the records between the `skipped` prefixes and `stop`."""
    nothing = SkippedPrefix(0, 0)
    start = {
        topic: [skipped.get((topic, partition), nothing).end for partition in range(len(parts))]
        for topic, parts in stop.items()
    }
    batches = [batch async for batch in log.read(list(stop), start, stop)]
    return await asyncio.to_thread(lambda: list(rank_batches(batches, skipped)))
