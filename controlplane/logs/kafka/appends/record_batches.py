"""Record batches: the records of appends, encoded per partition for a producer."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from controlplane.core.entry import Position, TopicPartition
from controlplane.logs.log import Record

BuilderFactory = Callable[[], Any]
"""Returns an empty batch builder of aiokafka."""


class RecordBatch(NamedTuple):
    """Records of one partition that a broker appends together."""

    place: TopicPartition
    builder: Any
    indexes: list[int]
    """Index of each record in the sequence given to `record_batches`."""


def record_batches(
    records: Sequence[Record], new_builder: BuilderFactory, headers_in: frozenset[str] | None
) -> list[RecordBatch]:
    """Encode records into batches, in order per partition; a full batch is followed by another.

    Records of topics outside of `headers_in` lose their headers; None: all keep them.
    """
    finished: list[RecordBatch] = []
    filling: dict[TopicPartition, RecordBatch] = {}
    for index, record in enumerate(records):
        topic_partition = (record.topic, record.partition)
        batch = filling.get(topic_partition)
        if batch is None:
            batch = filling[topic_partition] = RecordBatch(topic_partition, new_builder(), [])
        keeps = headers_in is None or record.topic in headers_in
        if not _add(batch, index, record, keeps_headers=keeps):
            finished.append(batch)
            batch = filling[topic_partition] = RecordBatch(topic_partition, new_builder(), [])
            _add(batch, index, record, keeps_headers=keeps)
    return [*finished, *filling.values()]


def _add(batch: RecordBatch, index: int, record: Record, *, keeps_headers: bool) -> bool:
    """Add a record; False if the batch is full. The first record always fits."""
    metadata = batch.builder.append(
        timestamp=record.timestamp,
        key=record.key,
        value=record.value,
        headers=[*record.headers] if keeps_headers else [],
    )
    if metadata is None:
        return False
    batch.indexes.append(index)
    return True


def positions(batches: Iterable[RecordBatch], offsets: Iterable[int], count: int) -> list[Position]:
    """Return the positions of `count` records; `offsets` has the first offset of each batch."""
    record_positions: list[Any] = [None] * count
    for batch, first in zip(batches, offsets, strict=True):
        for number, index in enumerate(batch.indexes):
            record_positions[index] = Position(*batch.place, first + number)
    return record_positions
