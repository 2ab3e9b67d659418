"""Checked copies of the records and offsets that a source hands over.

The traceback of a failed check has no line of the author, so its message names the origin.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from types import GeneratorType
from typing import Any, TypeVar

import msgspec

from controlplane.connect.errors import ConnectError, DataError
from controlplane.connect.records import OffsetPair, SourceRecord, checked_headers
from controlplane.connect.source import Idle, Mark, TransactionAbort, TransactionCommit
from controlplane.failure_text import message_of
from controlplane.worker.drivers.author_seconds import plain_seconds
from controlplane.worker.drivers.source_context import PolledItem, PolledRecord
from controlplane.worker.offsets.source_offsets import plain_fields

T = TypeVar("T")


def checked(origin: Callable[[], str], check: Callable[[Any], T], value: object) -> T:
    """Return the result of a check; its failure names the origin of the value.

    Raises:
        ConnectError, DataError: the check has failed.
        Exception: reading the value has run code of the author, which raised it.
    """
    try:
        return check(value)
    except ConnectError as failure:
        if type(failure) not in {ConnectError, DataError}:
            raise
        raise type(failure)(f"{origin()}: {message_of(failure)}") from failure


def method_of(author: object, method: str) -> str:
    """Return a method as messages name it: `Class.method`."""
    return f"{type(author).__name__}.{method}"


def suspended_at(generator: AsyncIterator[Any] | Iterator[Any] | None) -> str | None:
    """Return file and line of the `yield` at which a generator waits; None if it has no frame."""
    while isinstance(generator, GeneratorType) and isinstance(
        generator.gi_yieldfrom, GeneratorType
    ):
        generator = generator.gi_yieldfrom
    frame = getattr(generator, "ag_frame", None) or getattr(generator, "gi_frame", None)
    return None if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def checked_item(
    source: str, place: Callable[[], str], item: Any
) -> PolledItem | list[PolledRecord] | Idle:
    """Return an item of `read` with copies of its offsets: the generator may change the originals.

    `source`: name of the class. `place`: returns the file and line of the `yield`.

    Raises:
        ConnectError: `read` must not yield this.
    """
    match item:
        case SourceRecord():
            return PolledRecord(checked_record(item), place())
        case list() | tuple():
            origin = place()
            return [PolledRecord(checked_record(record), origin) for record in item]
        case Mark(offsets):
            return Mark(tuple(checked_offsets(offsets) or ()))
        case Idle(seconds):
            # Not the item itself: an author's subclass of `Idle` may override methods.
            return Idle(plain_seconds("task.idle()", seconds))
        case TransactionCommit() | TransactionAbort():
            return item
    raise ConnectError(
        f"{source}.read yielded {type(item).__name__}, not a record, a "
        "list of records, task.idle(), task.mark(), task.commit() or task.abort()"
    )


def checked_record(record: object) -> SourceRecord:
    """Return a copy of a record, with copies of its partition and offset.

    The author may change the originals.

    Raises:
        ConnectError: it is no record, or has no topic or invalid headers.
        DataError: its partition or offset is not made of primitive values.
    """
    if not isinstance(record, SourceRecord):
        raise ConnectError(f"The source returned {type(record).__name__} instead of a SourceRecord")
    if not isinstance(record.topic, str) or not record.topic:
        raise ConnectError(
            f"The source returned a record for the topic {record.topic!r}: a topic must be a text "
            "that is not empty"
        )
    partition, offset = record.source_partition, record.source_offset
    return msgspec.structs.replace(
        record,
        source_partition=None if partition is None else plain_fields(partition),
        source_offset=None if offset is None else plain_fields(offset),
        headers=checked_headers(record.headers),
    )


def checked_offsets(offsets: Any) -> list[OffsetPair] | None:
    """Copy the offsets that a task has returned; None stays None.

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
            f"Offsets must be pairs of a partition and an offset, not {offsets!r}"
        ) from None
    return [
        (plain_fields(partition), None if offset is None else plain_fields(offset))
        for partition, offset in checked
    ]
