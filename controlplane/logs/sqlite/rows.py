"""Conversion between entries and rows of the table `log`."""

import struct
from collections.abc import Sequence

import msgspec

from controlplane.core.entry import Entry, Headers
from controlplane.logs.log import LogCorrupt, Record
from controlplane.logs.sqlite.checksums import LogRow, checksum
from controlplane.logs.sqlite.schema import OFFSET_BITS

OFFSET_MASK = (1 << OFFSET_BITS) - 1

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[tuple[bytes, bytes | None]]).decode


def row_id(number: int, offset: int) -> int:
    """Return the row id of an offset in the partition with this number."""
    return number << OFFSET_BITS | offset


def row_of(id_: int, record: Record | Entry, aborted: int = 0) -> LogRow:
    """Convert a record to a row.

    Raises:
        OverflowError: a number in the record has more than 64 bits.
    """
    headers = encode_headers(record.headers) if record.headers else None
    timestamp, key, value = record.timestamp, record.key, record.value
    try:
        crc = checksum(id_, timestamp, key, value, headers, aborted)
    except struct.error as error:
        raise OverflowError(f"The record at {timestamp} cannot be stored ({error})") from None
    return id_, timestamp, key, value, headers, aborted, crc


def entry_of(offset: int, record: Record) -> Entry:
    """Convert an appended record to the entry that a reader gets."""
    return Entry(
        record.topic,
        record.partition,
        offset,
        record.timestamp,
        record.key,
        record.value,
        record.headers,
    )


def encode_headers(headers: Headers) -> bytes:
    """Encode headers as MessagePack. Names are stored as bytes, so every `str` survives."""
    return _encode([(name.encode("utf-8", "surrogatepass"), value) for name, value in headers])


def decode_headers(stored: bytes) -> Headers:
    """Decode headers from MessagePack. Raises `LogCorrupt` for invalid bytes."""
    try:
        pairs: Sequence[tuple[bytes, bytes | None]] = _decode(stored)
        return tuple((name.decode("utf-8", "surrogatepass"), value) for name, value in pairs)
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError) as error:
        message = f"The headers of a record are damaged ({error}): restore the log from a backup."
        raise LogCorrupt(message) from error
