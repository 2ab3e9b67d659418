"""The one order between partitions, and points in time within it.

Kafka orders records within a partition only, yet in places the order between partitions decides
what is seen (edge 20). Everywhere here it is the order by (running maximum of the timestamp within
the partition, partition, offset): close to the order of writing, and the same on every reading.
The running maximum is there because clocks of several writers make timestamps run backwards.

A point in time is a cut through all partitions: a vector of end offsets.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any, NamedTuple

import msgspec

from controlplane.core.entry import Batch, Entry
from controlplane.core.state import Topics

Ends = Mapping[str, Sequence[int]]
"""Per topic, by partition, the offset of the first record that is no longer in."""


class UnknownMoment(ValueError):
    """Not a point in time that this log has. The message says what one looks like."""


class Placed(NamedTuple):
    """An entry and its rank in the order."""

    time_ms: int
    partition: int
    offset: int
    topic: str
    entry: Entry


def placed(entries: Iterable[Entry]) -> list[Placed]:
    """Entries in the one order, each with its rank. Within a partition offsets must ascend."""
    latest: dict[tuple[str, int], int] = {}
    ranked = []
    for entry in entries:
        place = entry.topic, entry.partition
        latest[place] = time_ms = max(entry.timestamp, latest.get(place, entry.timestamp))
        ranked.append(Placed(time_ms, entry.partition, entry.offset, entry.topic, entry))
    return sorted(ranked, key=lambda one: one[:4])


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
        UnknownMoment: not such a text, or the log has no such record.
    """
    if moment.lstrip().startswith("{"):
        return _vector(moment)
    batches = list(batches)
    limit = _last_rank(batches, moment, topics) if "@" in moment else (_time_ms(moment), _END)
    ends: dict[str, list[int]] = {}
    for batch, ranks in _ranked(batches):
        parts = ends.setdefault(batch.topic, [])
        parts.extend([0] * (batch.partition + 1 - len(parts)))
        # Ranks ascend within a partition, so what is in is always a prefix of it.
        inside = bisect_right(ranks, limit)
        if inside:
            parts[batch.partition] = batch.offsets[inside - 1] + 1
    return ends


Rank = tuple[Any, ...]
_END = float("inf")


def _ranked(batches: Iterable[Batch]) -> Iterator[tuple[Batch, list[Rank]]]:
    """Each batch with the ranks of its records: (running maximum, partition, offset, topic)."""
    latest: dict[tuple[str, int], int] = {}
    for batch in batches:
        place = batch.topic, batch.partition
        times = list(accumulate(batch.timestamps, max, initial=latest.get(place, -1)))[1:]
        latest[place] = times[-1] if times else latest.get(place, -1)
        yield (
            batch,
            [
                (time_ms, batch.partition, offset, batch.topic)
                for time_ms, offset in zip(times, batch.offsets, strict=True)
            ],
        )


def _vector(text: str) -> dict[str, list[int]]:
    try:
        return msgspec.json.decode(text, type=dict[str, list[int]])
    except msgspec.MsgspecError as error:
        raise UnknownMoment(f"not a vector of end offsets: {error}") from None


def _last_rank(batches: Sequence[Batch], moment: str, topics: Topics) -> Rank:
    """The rank of the record that is the last one in."""
    match = re.fullmatch(r"(.+)@(?:(\d+):)?(\d+)", moment, re.ASCII)
    if match is None:
        raise UnknownMoment(f"{moment!r} is no position: write it like config@57 or status@2:41")
    name, partition, offset = match[1], int(match[2] or 0), int(match[3])
    topic = getattr(topics, name) if name in topics.__struct_fields__ else name
    for batch, ranks in _ranked(batches):
        if (batch.topic, batch.partition) == (topic, partition) and offset in batch.offsets:
            return ranks[batch.offsets.index(offset)]
    raise UnknownMoment(f"the log has no record at {moment}: it is compacted away or never was")


def _time_ms(moment: str) -> int:
    if re.fullmatch(r"\d+", moment, re.ASCII):
        return int(moment)
    try:
        time = datetime.fromisoformat(moment)
    except ValueError:
        forms = "2026-11-20T12:00:00Z, 1795214808118 (ms), config@57 or a vector of end offsets"
        raise UnknownMoment(f"{moment!r} is no point in time: write it like {forms}") from None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return int(time.timestamp() * 1000)
