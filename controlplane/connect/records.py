"""Records between connectors and the runtime (`SourceRecord`, `SinkRecord`)."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from controlplane.connect.data import Schema
from controlplane.connect.errors import ConnectError

Primitive = str | int | float | bool | bytes | None
"""Value in a source partition or offset; Connect allows no other types there."""

PartitionFields = Mapping[str, Primitive]
"""Fields that name a part of the source, such as a file or table; each has its own offset."""

OffsetFields = Mapping[str, Primitive]
"""Position within a source partition, in the author's own fields."""

OffsetPair = tuple[PartitionFields, OffsetFields | None]
"""A source partition and its offset; None removes the offset."""


class RecordHeader(NamedTuple):
    """Header of a record. A name may repeat."""

    name: str
    value: Any
    schema: Schema | None = None


def checked_headers(headers: object) -> tuple[RecordHeader, ...]:
    """Return the headers of a record as a tuple.

    Raises:
        ConnectError: `headers` is no list of `RecordHeader`.
    """
    if isinstance(headers, Iterable):
        checked = tuple(headers)
        if all(isinstance(header, RecordHeader) for header in checked):
            return checked
    raise ConnectError(
        f'Invalid headers: {headers!r}. Headers must be a list of RecordHeader("name", "value").'
    )


class SourceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Record that a source has read. `key` and `value` are plain data, or fit their schema.

    Once Kafka has the record, the runtime may commit `source_offset` for `source_partition`.
    """

    topic: str
    value: Any = None
    value_schema: Schema | None = None
    key: Any = None
    key_schema: Schema | None = None
    source_partition: PartitionFields | None = None
    source_offset: OffsetFields | None = None
    kafka_partition: int | None = None
    """Partition of the topic; None: chosen by the key."""
    timestamp: int | None = None
    """Milliseconds since 1970; None: the time of sending."""
    headers: tuple[RecordHeader, ...] = ()


class SinkRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Record that a sink gets, after conversion and transformations."""

    topic: str
    kafka_partition: int
    kafka_offset: int
    value: Any = None
    value_schema: Schema | None = None
    key: Any = None
    key_schema: Schema | None = None
    timestamp: int | None = None
    timestamp_type: Literal["CreateTime", "LogAppendTime", "NoTimestampType"] = "CreateTime"
    headers: tuple[RecordHeader, ...] = ()
    original_topic: str | None = None
    """Topic before any transformation (KIP-793); None: `topic`."""
    original_kafka_partition: int | None = None
    """Partition before any transformation; None: `kafka_partition`."""
    original_kafka_offset: int | None = None
    """Offset before any transformation; None: `kafka_offset`."""


class RecordMetadata(NamedTuple):
    """Position of a record that Kafka, or the store in its place, has acknowledged."""

    topic: str
    partition: int
    offset: int
    timestamp: int
