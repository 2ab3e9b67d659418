"""Facts of a state that depend on the order in which a worker reads partitions.

The findings are those of `controlplane.core.views.hazards`, made from the rows that still count:
these include all tombstones of statuses, and the last row of each offset key in each partition.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from controlplane.core.codec.offsets import decode_partition
from controlplane.core.entry import Entry, Position
from controlplane.core.order import in_order
from controlplane.core.records import Invalid
from controlplane.core.releases.profiles import Profile
from controlplane.core.text.record_text import place
from controlplane.core.views.hazards import task_rivals
from replay.engine.read_plan import PartitionPlan, ReadPlan
from replay.kernels.batches import batch

ReducedParts = Sequence[tuple[PartitionPlan, pa.Table]]
"""Rows that count, by partition."""


class _OffsetRivals(NamedTuple):
    """Last records of one offset key, which lies in several partitions with different values."""

    key: bytes | None
    places: list[Position]


class OrderMarks:
    """Marks the connectors of a state whose facts depend on the order between partitions."""

    def __init__(self, plan: ReadPlan, reduced: ReducedParts) -> None:
        self._topics = plan.topics
        status = [rows for rows in reduced if rows[0].topic == plan.topics.status]
        self._statuses = in_order(_entries(status)) if len(status) > 1 else []
        self._rivals = [
            rivals
            for topic in plan.offsets_topics
            for rivals in _offset_rivals([rows for rows in reduced if rows[0].topic == topic])
        ]
        self._strays = any(plan.ends.get(plan.topics.config, ())[1:])

    def of(self, profile: Profile, connectors: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
        """Sentences by connector, for a worker of a release; connectors without any are absent."""
        marks: dict[str, list[str]] = defaultdict(list)
        for connector in connectors if self._strays else ():
            marks[connector].append("the config topic has more than one partition")
        for rivals in task_rivals(self._statuses, profile):
            tombstone = place(rivals.tombstone, self._topics)
            words = f"task {rivals.task} is shown only if read after the tombstone at {tombstone}"
            marks[rivals.connector].append(words)
        for offset in self._rivals:
            subject = decode_partition(offset.key, profile)
            if not isinstance(subject, Invalid):
                marks[subject.connector].append(self._offset_words(offset))
        return {connector: tuple(sentences) for connector, sentences in marks.items()}

    def _offset_words(self, rivals: _OffsetRivals) -> str:
        records = ", ".join(place(position, self._topics) for position in rivals.places)
        return f"a source offset lies in several partitions with different values: {records}"


def _entries(reduced: ReducedParts) -> Iterator[Entry]:
    for part, table in reduced:
        if table.num_rows:
            yield from batch(part.topic, part.partition, table).entries()


def _offset_rivals(reduced: ReducedParts) -> Iterator[_OffsetRivals]:
    """Keys of one topic that lie in several partitions with different values."""
    filled = [(part, table) for part, table in reduced if table.num_rows]
    if len(filled) < 2:
        return
    keys = pa.chunked_array([chunk for _, table in filled for chunk in _keys(table).chunks])
    counts = pc.value_counts(keys)
    several = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    last: dict[bytes | None, dict[Position, bytes | None]] = defaultdict(dict)
    for part, table in filled if len(several) else ():
        rows = table.filter(pc.is_in(_keys(table), value_set=several))
        for entry in _entries([(part, rows)]):
            last[entry.key][entry.position] = entry.value
    for key, values in last.items():
        if len({*values.values()}) > 1:
            yield _OffsetRivals(key, list(values))


def _keys(table: pa.Table) -> pa.ChunkedArray:
    return table.column("key").cast(pa.binary())
