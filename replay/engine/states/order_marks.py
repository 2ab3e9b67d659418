"""Facts of a state that depend on the order in which a worker reads partitions.

A mark names such a fact. Marks are the hazards of `controlplane.core.views.hazards`, made from the
rows that still count. These include all tombstones of statuses, and the last row of each offset key
in each partition.
"""

from collections import Counter, defaultdict
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
from controlplane.core.text.safe_text import count
from controlplane.core.views.hazards import task_rivals
from replay.engine.plans.read_plan import ReadPlan
from replay.kernels.batches import batch

LISTED_OFFSETS = 20
"""Marked source offsets of a connector with a sentence; the others are counted.

If a topic gets more partitions, half of its keys may lie in two of them. These can be millions.
"""


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

    def connector(self, profile: Profile) -> str | None:
        """Connector that owns the key; None if a worker cannot read the key."""
        subject = decode_partition(self.key, profile)
        return None if isinstance(subject, Invalid) else subject.connector

    def mark(self, topics: Topics) -> "OffsetMark":
        """Mark of the source offset, which names the records."""
        records = ", ".join(place(position, topics) for position in self.places)
        words = f"a source offset lies in several partitions with different values: {records}"
        return OffsetMark(self.places[0], words)


class OffsetMark(NamedTuple):
    """Source offset that depends on the order."""

    first: Position
    """First of the records; marks are sorted by it."""
    sentence: str


class OffsetMarks(NamedTuple):
    """Source offsets of a connector that depend on the order, or a part of them."""

    listed: tuple[OffsetMark, ...] = ()
    """The first `LISTED_OFFSETS` marks."""
    total: int = 0
    """Number of all these source offsets."""

    def plus(self, other: "OffsetMarks") -> "OffsetMarks":
        """Marks of two parts of a topic without a common key."""
        listed = sorted([*self.listed, *other.listed])[:LISTED_OFFSETS]
        return OffsetMarks(tuple(listed), self.total + other.total)

    @property
    def sentences(self) -> list[str]:
        """Sentences for people, the last of which has the number of unlisted source offsets."""
        rest = self.total - len(self.listed)
        ending = (
            f"{count(rest, 'more source offset')} in several partitions with different values "
            "(`replay lint --hazards -o json` has all)"
        )
        return [*(mark.sentence for mark in self.listed), *([ending] if rest else [])]


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
        for connector, of_offsets in offset_marks(self._rivals, profile, self._topics).items():
            marks[connector].extend(of_offsets.sentences)
        return {connector: tuple(sentences) for connector, sentences in marks.items()}


def _entries(reduced: ReducedParts) -> Iterator[Entry]:
    for part, table in reduced:
        if table.num_rows:
            yield from batch(part.topic, part.partition, table).entries()


def offset_marks(
    rivals: Iterable[OffsetRivals], profile: Profile, topics: Topics
) -> dict[str, OffsetMarks]:
    """Marks by connector for a worker of a release; `rivals` are sorted by their first records."""
    listed: dict[str, list[OffsetMark]] = defaultdict(list)
    totals: Counter[str] = Counter()
    for of_key in rivals:
        connector = of_key.connector(profile)
        if connector is None:
            continue
        totals[connector] += 1
        if totals[connector] <= LISTED_OFFSETS:
            listed[connector].append(of_key.mark(topics))
    return {name: OffsetMarks(tuple(listed[name]), total) for name, total in totals.items()}


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
