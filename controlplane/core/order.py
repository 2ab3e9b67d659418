"""The one order between partitions, and points in time within it.

Kafka orders records within a partition only, yet in places the order between partitions decides
what is seen (edge 20). Everywhere here it is the order by (running maximum of the timestamp within
the partition, partition, offset): close to the order of writing, and the same on every reading.
The running maximum is there because clocks of several writers make timestamps run backwards.

A point in time is a cut through all partitions: a vector of end offsets.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import NamedTuple

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


def cut(entries: Iterable[Entry], moment: str, topics: Topics) -> list[Entry]:
    """The entries up to a point in time, in the one order.

    `moment` is a record (`config@57`, or `status@2:41` for partition 2: that record is the last one
    in), a time (ISO 8601, or ms since 1970; what was written at that instant is in) or a vector of
    end offsets, decoded from JSON by the caller (see `before`).

    Raises:
        UnknownMoment: not such a text, or the log has no such record.
    """
    ranked = placed(entries)
    if "@" in moment:
        last = _record(ranked, moment, topics)
        return [one.entry for one in ranked if one[:4] <= last[:4]]
    end_ms = _time_ms(moment)
    return [one.entry for one in ranked if one.time_ms <= end_ms]


def _record(ranked: Sequence[Placed], moment: str, topics: Topics) -> Placed:
    match = re.fullmatch(r"(.+)@(?:(\d+):)?(\d+)", moment, re.ASCII)
    if match is None:
        raise UnknownMoment(f"{moment!r} is no position: write it like config@57 or status@2:41")
    name, partition, offset = match[1], int(match[2] or 0), int(match[3])
    topic = getattr(topics, name) if name in topics.__struct_fields__ else name
    for one in ranked:
        if (one.topic, one.partition, one.offset) == (topic, partition, offset):
            return one
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
        time = time.replace(tzinfo=timezone.utc)
    return int(time.timestamp() * 1000)
