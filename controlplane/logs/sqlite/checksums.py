"""Checksums of records: SQLite has none, and a disk may flip a bit."""

import struct
from collections.abc import Iterable
from zlib import crc32

from controlplane.core.entry import Position
from controlplane.core.moments import position_text

LogRow = tuple[int, int, bytes | None, bytes | None, bytes | None, int, int | None]
"""Columns of `log`: id, ts, key, value, headers, aborted, checksum."""


_FRAME = struct.Struct("<qqBqq").pack
"""Id, timestamp, aborted, lengths of key and value (-1 for null)."""


class DamagedRecord(Exception):
    """A record does not match its checksum. The message names the record."""


def damaged(topic: str, partition: int, offset: int) -> str:
    """Return a clause for messages that names the damaged record."""
    position = position_text(Position(topic, partition, offset))
    return f"record {position} does not fit its checksum"


def checksum(  # noqa: PLR0913, PLR0917 - one argument per column
    id_: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
    headers: bytes | None,
    aborted: int,
) -> int:
    """CRC-32 of a row and its id; the id reveals a record at a wrong position."""
    key_bytes = -1 if key is None else len(key)
    value_bytes = -1 if value is None else len(value)
    crc = crc32(_FRAME(id_, timestamp, aborted, key_bytes, value_bytes))
    if key:
        crc = crc32(key, crc)
    if value:
        crc = crc32(value, crc)
    return crc if headers is None else crc32(headers, crc)


def damaged_in(rows: Iterable[LogRow]) -> int | None:
    """Return the id of the first row that does not match its checksum; None if all match."""
    row = None
    try:
        for row, timestamp, key, value, headers, aborted, stored in rows:
            if checksum(row, timestamp, key, value, headers, aborted) != stored:
                return row
    except (TypeError, struct.error):  # a damaged cell has another type or is out of range
        return row
    return None
