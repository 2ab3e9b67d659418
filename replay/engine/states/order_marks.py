"""Facts of a state that depend on the order in which a worker reads partitions.

A mark names such a fact. Marks are the hazards of `controlplane.core.views.hazards`, made from the
rows that still count. These include all tombstones of statuses, and the last row of each offset key
in each partition.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from controlplane.core.codec.offsets import decode_partition
from controlplane.core.entry import Entry, Position
from controlplane.core.order import in_order
from controlplane.core.records import Invalid
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Topics
from controlplane.core.text.record_text import place
from controlplane.core.views.hazards import task_rivals
from replay.engine.plans.read_plan import ReadPlan
from replay.kernels.batches import batch


class TopicPart(Protocol):
    """Partition of a topic, or a part of it."""

    @property
    def topic(self) -> str:
        """Name of the topic."""
        ...

    @property
    def partition(self) -> int:
        """Number of the partition."""
        ...


ReducedParts = Sequence[tuple[TopicPart, pa.Table]]
"""Rows that count, by partition, in the order of their offsets."""


class OffsetRivals(NamedTuple):
    """Last records of one offset key, which lies in several partitions with different values."""

    key: bytes | None
    places: tuple[Position, ...]

    def mark(self, profile: Profile, topics: Topics) -> "OffsetMark | None":
        """Mark of the connector that owns the key; None if a worker cannot read the key."""
        subject = decode_partition(self.key, profile)
        if isinstance(subject, Invalid):
            return None
        records = ", ".join(place(position, topics) for position in self.places)
        words = f"a source offset lies in several partitions with different values: {records}"
        return OffsetMark(subject.connector, self.places[0], words)


class OffsetMark(NamedTuple):
    """Source offset of a connector that depends on the order."""

    connector: str
    first: Position
    """First of the records; marks are sorted by it."""
    sentence: str


class OrderMarks:
    """Marks the connectors of a state whose facts depend on the order between partitions."""

    def __init__(self, plan: ReadPlan, reduced: ReducedParts) -> None:
        self._topics = plan.topics
        status = [rows for rows in reduced if rows[0].topic == plan.topics.status]
        # Two partitions contradict each other only if one has a tombstone of a status.
        has_rivals = len(status) > 1 and any(table["value"].null_count for _, table in status)
        self._statuses = in_order(_entries(status)) if has_rivals else []
        offsets_topics = plan.offsets_topics
        self._rivals = offset_rivals([rows for rows in reduced if rows[0].topic in offsets_topics])
        # Records in partitions other than 0: Connect itself writes partition 0 only.
        self._has_stray_configs = any(plan.ends.get(plan.topics.config, ())[1:])

    def of(self, profile: Profile, connectors: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
        """Sentences by connector, for a worker of a release; connectors without any are absent."""
        marks: dict[str, list[str]] = defaultdict(list)
        for connector in connectors if self._has_stray_configs else ():
            marks[connector].append("the config topic has more than one partition")
        for rivals in task_rivals(self._statuses, profile):
            tombstone = place(rivals.tombstone, self._topics)
            words = (
                f"task {rivals.task} is shown only if a worker reads its status after the "
                f"tombstone at {tombstone}"
            )
            marks[rivals.connector].append(words)
        for rivals_of_key in self._rivals:
            mark = rivals_of_key.mark(profile, self._topics)
            if mark is not None:
                marks[mark.connector].append(mark.sentence)
        return {connector: tuple(sentences) for connector, sentences in marks.items()}


def _entries(reduced: ReducedParts) -> Iterator[Entry]:
    for part, table in reduced:
        if table.num_rows:
            yield from batch(part.topic, part.partition, table).entries()


def offset_rivals(reduced: ReducedParts) -> list[OffsetRivals]:
    """Find keys that lie in several partitions of a topic with different values.

    The result is sorted by the first records. Slices of one partition must be in the order of their
    offsets.
    """
    by_topic: dict[str, list[tuple[TopicPart, pa.Table]]] = defaultdict(list)
    for part, table in reduced:
        if table.num_rows:
            by_topic[part.topic].append((part, table))
    rivals = (of_key for parts in by_topic.values() for of_key in _rivals_in(parts))
    return sorted(rivals, key=lambda of_key: of_key.places)


def _rivals_in(parts: ReducedParts) -> Iterator[OffsetRivals]:
    if len({part.partition for part, _ in parts}) < 2:
        return
    keys = pa.chunked_array([chunk for _, table in parts for chunk in _keys(table).chunks])
    counts = pc.value_counts(keys)
    several = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    last: dict[bytes | None, dict[int, Entry]] = defaultdict(dict)
    for part, table in parts if len(several) else ():
        rows = table.filter(pc.is_in(_keys(table), value_set=several))
        for entry in _entries([(part, rows)]):
            last[entry.key][part.partition] = entry
    for key, entries in last.items():
        if len({entry.value for entry in entries.values()}) > 1:
            yield OffsetRivals(key, tuple(entry.position for entry in entries.values()))


def _keys(table: pa.Table) -> pa.ChunkedArray:
    return table.column("key").cast(pa.binary())
