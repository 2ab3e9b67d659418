"""The one order between partitions, and points in time within it.

Kafka orders records within a partition only, yet in places the order between partitions decides
what is seen (edge 20). Everywhere here it is the order by (running maximum of the timestamp within
the partition, partition, offset): close to the order of writing, and the same on every reading.
The running maximum is there because clocks of several writers make timestamps run backwards.

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

from controlplane.core.entry import Batch, Entry
from controlplane.core.moments import (
    UnknownMoment,
    is_vector,
    read_position,
    read_time_ms,
    read_vector,
    shown,
    too_early,
)
from controlplane.core.state import Topics

Ends = Mapping[str, Sequence[int]]
"""Per topic, by partition, the offset of the first record that is no longer in."""


def running_max(timestamps: Iterable[int], before_ms: int | None = None) -> list[int]:
    """The running maximum at each record of a partition; `before_ms` is that of those before."""
    if before_ms is None:
        return list(accumulate(timestamps, max))
    return list(accumulate(timestamps, max, initial=before_ms))[1:]


class Placed(NamedTuple):
    """An entry and its rank in the order."""

    time_ms: int
    partition: int
    offset: int
    topic: str
    entry: Entry


_RANK = itemgetter(0, 1, 2, 3)


def placed(entries: Iterable[Entry]) -> list[Placed]:
    """Entries in the one order, each with its rank. Within a partition offsets must ascend.

    What is left of the log behind a prefix of the order comes in the same order by itself: what a
    running maximum of the prefix could change can only be in the partition that reaches furthest,
    and comes first either way.
    """
    return sorted(map(Ordering().rank, entries), key=_RANK)


class Ordering:
    """Puts the entries of a log into the one order, in steps of which none takes long.

    Partitions come in any order, the entries of each by their offsets. Every entry is ranked, also
    one that is not kept: its timestamp counts for those behind it.
    """

    def __init__(self) -> None:
        self._latest_ms: dict[tuple[str, int], int] = {}
        self._kept: dict[tuple[str, int], list[Placed]] = {}

    def rank(self, entry: Entry) -> Placed:
        """The next entry with its rank."""
        place = entry.topic, entry.partition
        time_ms = max(entry.timestamp, self._latest_ms.get(place, entry.timestamp))
        self._latest_ms[place] = time_ms
        return Placed(time_ms, entry.partition, entry.offset, entry.topic, entry)

    def keep(self, placed: Placed) -> None:
        """Keep an entry that was ranked."""
        self._kept.setdefault((placed.topic, placed.partition), []).append(placed)

    def entries(self) -> Iterator[Entry]:
        """The entries that were kept, in the one order."""
        return (one.entry for one in merge(*self._kept.values(), key=_RANK))


def in_order(entries: Iterable[Entry]) -> list[Entry]:
    """Entries in the one order."""
    entries = list(entries)
    if len({(entry.topic, entry.partition) for entry in entries}) <= 1:
        return entries
    return [one.entry for one in placed(entries)]


def entries_of(batches: Iterable[Batch]) -> Iterator[Entry]:
    """The entries of batches, one by one."""
    for batch in batches:
        yield from batch.entries()


def before(entries: Iterable[Entry], ends: Ends) -> Iterator[Entry]:
    """The entries before a cut. A topic or partition that it does not name is wholly out."""
    for entry in entries:
        parts = ends.get(entry.topic, ())
        if entry.partition < len(parts) and entry.offset < parts[entry.partition]:
            yield entry


def ends_at(batches: Iterable[Batch], moment: str, topics: Topics) -> dict[str, list[int]]:
    """The cut through all partitions at a point in time, as a vector of end offsets.

    `moment` is a record (`config@57`, or `status@2:41` in partition 2: that record is the last one
    in), a time (ISO 8601, UTC unless it says otherwise, or ms since 1970; what was written at that
    instant is in), or the vector itself as JSON (`{"connect-configs":[57]}`). A partition that the
    vector does not name is wholly out.

    Raises:
        UnknownMoment: not such a text, the log has no such record, or begins later.
    """
    if is_vector(moment):
        return read_vector(moment)
    found = list(ranked(batches))
    return ends_within(found, limit_at(found, moment, topics))


Rank = tuple[Any, ...]
"""(running maximum, partition, offset, topic)."""

Ranked = tuple[Batch, list[Rank]]
"""A batch, and the ranks of its records."""

_END = float("inf")


class Begun(NamedTuple):
    """The beginning of a partition, of which no record is looked at."""

    end: int
    """The offset behind its last record."""
    latest_ms: int
    """The running maximum of its timestamps."""


BegunParts = Mapping[tuple[str, int], Begun]
"""By topic and partition."""


def ranked(batches: Iterable[Batch], begun: BegunParts = MappingProxyType({})) -> Iterator[Ranked]:
    """Each batch with the ranks of its records, which lie behind what has begun."""
    latest = {place: one.latest_ms for place, one in begun.items()}
    for batch in batches:
        place = batch.topic, batch.partition
        times = running_max(batch.timestamps, latest.get(place, -1))
        latest[place] = times[-1] if times else latest.get(place, -1)
        yield (
            batch,
            [
                (time_ms, batch.partition, offset, batch.topic)
                for time_ms, offset in zip(times, batch.offsets, strict=True)
            ],
        )


def limit_at(found: Sequence[Ranked], moment: str, topics: Topics) -> Rank:
    """The rank up to which records are in at a moment (see `ends_at`) that is no vector.

    Raises:
        UnknownMoment: not such a text, the log has no such record, or begins later.
    """
    return _last_rank(found, moment, topics) if "@" in moment else _last_time(found, moment)


def time_limit(time_ms: int) -> Rank:
    """The rank behind everything that was written up to a time."""
    return time_ms, _END


def ends_within(
    found: Iterable[Ranked], limit: Rank, begun: BegunParts = MappingProxyType({})
) -> dict[str, list[int]]:
    """The cut behind the records up to a rank; what has begun is in."""
    ends: dict[str, list[int]] = {}
    for (topic, partition), beginning in begun.items():
        _parts_to(ends, topic, partition)[partition] = beginning.end
    for batch, ranks in found:
        parts = _parts_to(ends, batch.topic, batch.partition)
        # Ranks ascend within a partition, so what is in is always a prefix of it.
        inside = bisect_right(ranks, limit)
        if inside:
            parts[batch.partition] = batch.offsets[inside - 1] + 1
    return ends


def _parts_to(ends: dict[str, list[int]], topic: str, partition: int) -> list[int]:
    """The ends of a topic, with room for a partition."""
    parts = ends.setdefault(topic, [])
    parts.extend([0] * (partition + 1 - len(parts)))
    return parts


def _last_rank(found: Sequence[Ranked], moment: str, topics: Topics) -> Rank:
    """The rank of the record that is the last one in."""
    topic, partition, offset = read_position(moment, topics)
    there: list[int] = []
    for batch, ranks in found:
        if (batch.topic, batch.partition) == (topic, partition):
            if offset in batch.offsets:
                return ranks[batch.offsets.index(offset)]
            there += batch.offsets
    known = {batch.topic for batch, _ in found} | {*msgspec.structs.astuple(topics)}
    why = _span(there, moment, offset, topic, partition)
    if topic not in known:
        names = ", ".join(topics.__struct_fields__)
        why = f"unknown topic {shown(topic)}, name {names} or a topic in full"
    raise UnknownMoment(f"the log has no record at {moment}: {why}")


def _span(there: Sequence[int], moment: str, missing: int, topic: str, partition: int) -> str:
    """Which records there are, for somebody who asked for one that is not."""
    if not there:
        return f"{topic} has no records in partition {partition}"
    stem = moment[: moment.rindex(":" if ":" in moment else "@") + 1]
    first, last = min(there), max(there)
    within = ", and this one was compacted away or is none" if first < missing < last else ""
    return f"{topic} reaches from {stem}{first} to {stem}{last}{within}"


def _last_time(found: Sequence[Ranked], moment: str) -> Rank:
    """The rank behind everything that was written up to a time. Of an empty log, any will do."""
    time_ms = read_time_ms(moment)
    times = [time_ms for _, ranks in found for time_ms, *_ in ranks]
    first_ms = min((one for one in times if one >= 0), default=None)
    if times and first_ms is None:
        raise UnknownMoment("the times of these records are unknown: give a record, as config@57")
    if first_ms is not None and time_ms < first_ms:
        raise too_early(moment, time_ms, first_ms)
    return time_limit(time_ms)
