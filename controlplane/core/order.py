"""Total order of the records of all partitions (*the one order*), and points in time within it.

Kafka orders records within a partition only. Sometimes the order between partitions decides what a
worker sees (edge 20 of `tests/core/test_edges.py`). The project orders records by the running
maximum of the timestamp within the partition, then by partition, offset and topic. This order is
close to the order of writing, and the same on every reading. Clocks of several writers differ, so
timestamps can run backwards; their running maximum cannot.

A point in time is a cut through all partitions: a vector of end offsets.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import accumulate
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from controlplane.core.entry import Batch, Entry, entry_at
from controlplane.core.moments import (
    UnknownMoment,
    is_vector,
    quoted,
    read_position,
    read_time_ms,
    read_vector,
    too_early,
)
from controlplane.core.state import Topics

Ends = Mapping[str, Sequence[int]]
"""End offsets by topic and partition: the first offset that is excluded."""


def running_max(timestamps: Iterable[int], before_ms: int | None = None) -> list[int]:
    """Running maximum at each record of a partition; `before_ms` is that of earlier records."""
    if before_ms is None:
        return list(accumulate(timestamps, max))
    return list(accumulate(timestamps, max, initial=before_ms))[1:]


class RankedEntry(NamedTuple):
    """Entry with its rank. `time_ms` is the running maximum, not the entry's own timestamp."""

    time_ms: int
    partition: int
    offset: int
    topic: str
    entry: Entry


_RANK = itemgetter(0, 1, 2, 3)


def rank_entries(entries: Iterable[Entry]) -> list[RankedEntry]:
    """Entries in the one order, with their ranks. Within a partition, offsets must ascend.

    The entries may be only the end of a log: those after some record in this order. The *true time*
    of an entry is the running maximum over all earlier records of its partition, missing or not. If
    a missing record set this maximum, the computed time is too low. The order is still right, with
    one exception. Entries of different topics may change places if they have the same partition
    number and the same true time. No fold depends on that.
    """
    # Proof. The true order is the order by true times. There, every missing record precedes every
    # present entry. Let L be the last missing record.
    # 1. Let e be an entry whose computed time is too low. A missing record m of the same topic and
    #    partition set the maximum of e. So m and e have the same true time.
    # 2. In the true order, m is not after L, and e is after L. The order sorts by time, then by
    #    partition number. So L has the same true time and partition number as m and e.
    # 3. Let f be a present entry whose true time or partition number is not that of L. Then e comes
    #    before f in both orders:
    #    - True order: f is after L, so f is after every entry that has L's time and partition
    #      number. One of these entries is e, by step 2.
    #    - Computed order: the computed time of f is its true time. If it were too low, f would
    #      have L's time and partition number, by step 2. So the computed time of f is at least the
    #      time of L. The computed time of e is lower than the time of L.
    # 4. A present entry with the true time and the partition number of L may change places with e
    #    if its topic differs.
    return sorted(map(EntrySorter().rank, entries), key=_RANK)


class EntrySorter:
    """Sorts the entries of a log into the one order.

    The work is spread over many calls, and none of them takes long. Partitions come in any order,
    the entries of each by offset. Rank every entry, even one that is not kept: its timestamp
    affects later ranks.
    """

    def __init__(self) -> None:
        self._latest_ms: dict[tuple[str, int], int] = {}
        self._kept: dict[tuple[str, int], list[RankedEntry]] = {}

    def rank(self, entry: Entry) -> RankedEntry:
        """Rank the next entry of its partition by the running maximum of the timestamps there."""
        topic_partition = entry.topic, entry.partition
        time_ms = max(entry.timestamp, self._latest_ms.get(topic_partition, entry.timestamp))
        self._latest_ms[topic_partition] = time_ms
        return RankedEntry(time_ms, entry.partition, entry.offset, entry.topic, entry)

    def keep(self, ranked: RankedEntry) -> None:
        """Keep a ranked entry until `entries` merges the partitions."""
        self._kept.setdefault((ranked.topic, ranked.partition), []).append(ranked)

    def keep_from(self, batch: Batch, indexes: Iterable[int]) -> None:
        """Rank the next batch of its partition, and keep its entries at these indexes."""
        topic_partition = batch.topic, batch.partition
        times = running_max(batch.timestamps, self._latest_ms.get(topic_partition))
        self._latest_ms[topic_partition] = times[-1]
        for index in indexes:
            entry = entry_at(batch, index)
            self.keep(RankedEntry(times[index], entry.partition, entry.offset, entry.topic, entry))

    def entries(self) -> Iterator[Entry]:
        """The kept entries in the one order."""
        return (ranked.entry for ranked in merge(*self._kept.values(), key=_RANK))


class OrderedEntries(list[Entry]):
    """Entries in the one order, not to be changed: `in_order` returns them as they are.

    Nothing checks the order: the caller of the constructor knows it.
    """

    __slots__ = ()


def in_order(entries: Iterable[Entry]) -> OrderedEntries:
    """Entries of any partitions, sorted into the one order (`rank_entries`)."""
    if isinstance(entries, OrderedEntries):
        return entries
    entries = list(entries)
    if len({(entry.topic, entry.partition) for entry in entries}) <= 1:
        return OrderedEntries(entries)
    return OrderedEntries(ranked.entry for ranked in rank_entries(entries))


def entries_of(batches: Iterable[Batch]) -> Iterator[Entry]:
    """Iterate over the entries of all batches."""
    for batch in batches:
        yield from batch.entries()


def before(entries: Iterable[Entry], ends: Ends) -> Iterator[Entry]:
    """Entries before a cut. A topic or partition without an end is excluded."""
    for entry in entries:
        topic_ends = ends.get(entry.topic, ())
        if entry.partition < len(topic_ends) and entry.offset < topic_ends[entry.partition]:
            yield entry


def has_lost(ends: Ends, earlier: Ends) -> bool:
    """Return True if a topic of `ends` has lost partitions, or records, since `earlier` ends."""
    pairs = ((parts, earlier.get(topic, ())) for topic, parts in ends.items())
    return any(
        len(parts) < len(before_parts) or any(map(int.__lt__, parts, before_parts))
        for parts, before_parts in pairs
    )


def ends_at(batches: Iterable[Batch], moment: str, topics: Topics) -> dict[str, list[int]]:
    """The cut through all partitions at a point in time, as a vector of end offsets.

    `moment` has one of three forms. A record (`config@57`, or `status@2:41` in partition 2) is
    itself included. A time (ISO 8601, UTC by default, or ms since 1970) includes records of that
    instant. The vector may also be given as JSON (`{"connect-configs":[57]}`); it excludes
    partitions that it does not name.

    Raises:
        UnknownMoment: the text has another form, the log has no such record, or begins later.
    """
    if is_vector(moment):
        return read_vector(moment)
    ranked = list(rank_batches(batches))
    return ends_within(ranked, limit_at(ranked, moment, topics))


Rank = tuple[Any, ...]
"""(running maximum in ms, partition, offset, topic). A limit may have only the first items."""

RankedBatch = tuple[Batch, list[Rank]]
"""A batch, and the ranks of its records."""

_END = float("inf")
"""Greater than every partition number."""


class SkippedPrefix(NamedTuple):
    """The prefix of a partition whose records are not read."""

    end: int
    """Offset after its last record."""
    latest_ms: int
    """Running maximum of its timestamps."""


SkippedPrefixes = Mapping[tuple[str, int], SkippedPrefix]
"""Skipped prefixes by topic and partition."""


def rank_batches(
    batches: Iterable[Batch], skipped: SkippedPrefixes = MappingProxyType({})
) -> Iterator[RankedBatch]:
    """Yield each batch with the ranks of its records; `skipped`: prefixes that are not read."""
    latest = {topic_partition: prefix.latest_ms for topic_partition, prefix in skipped.items()}
    for batch in batches:
        topic_partition = batch.topic, batch.partition
        times = running_max(batch.timestamps, latest.get(topic_partition, -1))
        latest[topic_partition] = times[-1] if times else latest.get(topic_partition, -1)
        yield (
            batch,
            [
                (time_ms, batch.partition, offset, batch.topic)
                for time_ms, offset in zip(times, batch.offsets, strict=True)
            ],
        )


def limit_at(ranked: Sequence[RankedBatch], moment: str, topics: Topics) -> Rank:
    """Rank of the last record included at a moment.

    `moment`: text that names a record or a time (see `ends_at`).

    Raises:
        UnknownMoment: the text has another form, the log has no such record, or begins later.
    """
    if "@" in moment:
        return _rank_of_record(ranked, moment, topics)
    return _rank_at_time(ranked, moment)


def time_limit(time_ms: int) -> Rank:
    """Rank after every record up to a time."""
    return time_ms, _END


def ends_within(
    ranked: Iterable[RankedBatch], limit: Rank, skipped: SkippedPrefixes = MappingProxyType({})
) -> dict[str, list[int]]:
    """The cut after the records up to a rank; skipped prefixes are included."""
    ends: dict[str, list[int]] = {}
    for (topic, partition), prefix in skipped.items():
        _ends_to(ends, topic, partition)[partition] = prefix.end
    for batch, ranks in ranked:
        topic_ends = _ends_to(ends, batch.topic, batch.partition)
        # Ranks ascend within a partition, so the included records are a prefix of it.
        inside = bisect_right(ranks, limit)
        if inside:
            topic_ends[batch.partition] = batch.offsets[inside - 1] + 1
    return ends


def _ends_to(ends: dict[str, list[int]], topic: str, partition: int) -> list[int]:
    """The ends of a topic, extended by zeros to include a partition."""
    topic_ends = ends.setdefault(topic, [])
    topic_ends.extend([0] * (partition + 1 - len(topic_ends)))
    return topic_ends


def _rank_of_record(ranked: Sequence[RankedBatch], moment: str, topics: Topics) -> Rank:
    """Rank of a record; raises `UnknownMoment` if the log does not have it."""
    topic, partition, offset = read_position(moment, topics)
    offsets: list[int] = []
    for batch, ranks in ranked:
        if (batch.topic, batch.partition) == (topic, partition):
            if offset in batch.offsets:
                return ranks[batch.offsets.index(offset)]
            offsets += batch.offsets
    known_topics = {batch.topic for batch, _ in ranked} | {*msgspec.structs.astuple(topics)}
    reason = _offset_range(offsets, moment, offset, topic, partition)
    if topic not in known_topics:
        names = ", ".join(topics.__struct_fields__)
        reason = f"unknown topic {quoted(topic)}, use {names} or a topic's full name"
    raise UnknownMoment(f"the log has no record at {moment}: {reason}")


def _offset_range(
    offsets: Sequence[int], moment: str, missing: int, topic: str, partition: int
) -> str:
    """Range of the existing offsets, as text for the error about a missing one."""
    if not offsets:
        return f"{topic} has no records in partition {partition}"
    stem = moment[: moment.rindex(":" if ":" in moment else "@") + 1]
    first, last = min(offsets), max(offsets)
    gap = ", and this offset was compacted away or has no record" if first < missing < last else ""
    return f"{topic} reaches from {stem}{first} to {stem}{last}{gap}"


def _rank_at_time(ranked: Sequence[RankedBatch], moment: str) -> Rank:
    """Rank after every record up to a time. An empty log accepts any time.

    Raises:
        UnknownMoment: the text is no time, is before the first record, or no record has a time.
    """
    time_ms = read_time_ms(moment)
    times = [time_ms for _, ranks in ranked for time_ms, *_ in ranks]
    first_ms = min((time_ms for time_ms in times if time_ms >= 0), default=None)
    if times and first_ms is None:
        raise UnknownMoment("the times of these records are unknown: give a record, as config@57")
    if first_ms is not None and time_ms < first_ms:
        raise too_early(moment, time_ms, first_ms)
    return time_limit(time_ms)
