"""Simulation of Kafka's log cleaner."""

from collections import defaultdict
from collections.abc import Iterable

from controlplane.core.entry import Entry, batch_of
from controlplane.core.order import in_order
from controlplane.core.state import Topics
from controlplane.logs.compaction import CompactionFilter


def cleaned(entries: Iterable[Entry], topics: Topics, *, tombstones: bool) -> list[Entry]:
    """Return the entries that remain after the greatest possible compaction, in the one order.

    `tombstones` keeps tombstones; Kafka removes them `delete.retention.ms` (a day) later. The
    command topic belongs to the control plane and is not compacted.
    """
    parts: dict[tuple[str, int], list[Entry]] = defaultdict(list)
    for entry in entries:
        parts[entry.topic, entry.partition].append(entry)
    left: list[Entry] = []
    for (topic, _), part in parts.items():
        left += part if topic == topics.commands else _left(part, tombstones=tombstones)
    return in_order(left)


def _left(part: list[Entry], *, tombstones: bool) -> Iterable[Entry]:
    filter_ = CompactionFilter()
    filter_.sift([batch_of(part)])
    gone = {*filter_.superseded, *(() if tombstones else filter_.tombstones)}
    return (entry for entry in part if entry.offset not in gone)
