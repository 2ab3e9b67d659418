"""Checked copies of the records and offsets that a source hands over."""

from collections.abc import Mapping
from typing import Any

import msgspec

from controlplane.connect.errors import ConnectError
from controlplane.connect.records import OffsetPair, SourceRecord
from controlplane.worker.offsets.source_offsets import plain_fields


def checked_record(record: object) -> SourceRecord:
    """Return a record whose partition and offset no longer belong to the author.

    Raises:
        ConnectError: it is no record.
        DataError: its partition or offset is not made of primitive values.
    """
    if not isinstance(record, SourceRecord):
        raise ConnectError(f"The source returned {type(record).__name__} instead of a SourceRecord")
    if not isinstance(record.topic, str) or not record.topic:
        raise ConnectError(f"The source returned a record for the topic {record.topic!r}")
    partition, offset = record.source_partition, record.source_offset
    return msgspec.structs.replace(
        record,
        source_partition=None if partition is None else plain_fields(partition),
        source_offset=None if offset is None else plain_fields(offset),
        headers=tuple(record.headers),
    )


def checked_offsets(offsets: Any) -> list[OffsetPair] | None:
    """Return copies of offsets that a task has returned; None for none.

    Raises:
        ConnectError: they are no pairs.
        DataError: a partition or offset is not made of primitive values.
    """
    if offsets is None:
        return None
    try:
        pairs = [*offsets.items()] if isinstance(offsets, Mapping) else [*offsets]
        checked = [(partition, offset) for partition, offset in pairs]
    except (TypeError, ValueError):
        raise ConnectError(
            f"Offsets must be pairs of a partition and an offset, not {offsets!r:.200}"
        ) from None
    return [
        (plain_fields(partition), None if offset is None else plain_fields(offset))
        for partition, offset in checked
    ]
