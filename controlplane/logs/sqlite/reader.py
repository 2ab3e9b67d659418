"""Queries of the file. A log is read in chunks, each in a short read transaction."""

import sqlite3
from collections.abc import Iterable, Sequence
from itertools import compress, count
from operator import itemgetter
from typing import NamedTuple

from controlplane.core.entry import (
    Batch,
    ColumnBatch,
    Headers,
    LastValues,
    LazyBatch,
    TopicPartition,
)
from controlplane.core.order import Ends
from controlplane.logs.spans import OffsetSpan, spans, topic_in
from controlplane.logs.sqlite.checksums import DamagedRecord, LogRow, damaged, damaged_in
from controlplane.logs.sqlite.rows import OFFSET_MASK, decode_headers, row_id
from controlplane.logs.sqlite.schema import CHECKED_VERSION, schema_version
from controlplane.logs.sqlite.settings import SqliteSettings

FETCH_ROWS = 256
"""Rows per fetch from SQLite: few enough to stay in the processor's cache until they are decoded.
Measured: 1.9 M rows/s; with 16,384 rows 1.0 M, with 64 rows 1.7 M."""

FIRST_ROWS = 16
"""Rows of the first fetch from a range; their mean size limits the number of the next ones."""

_SELECT = """SELECT id, ts, key, value, headers, aborted, checksum FROM log
             WHERE id >= ? AND id < ? ORDER BY id LIMIT ?"""

_SELECT_UNCHECKED = _SELECT.replace("checksum", "NULL")
"""The query for a file of an older schema, without checksums."""

_PAIR, _VALUE, _ABORTED = itemgetter(2, 3), itemgetter(3), itemgetter(5)
"""Getters of a `LogRow`: key with value, value, aborted mark."""


class RowRange(NamedTuple):
    """Rows `low` (included) to `high` (excluded) of the table `log`, all of one partition."""

    topic: str
    partition: int
    low: int
    high: int


def all_ends(connection: sqlite3.Connection) -> dict[str, list[int]]:
    """Return the ends of all partitions by topic."""
    ends: dict[str, list[int]] = {}
    select = 'SELECT topic, "end" FROM partition ORDER BY topic, partition'
    for topic, end in connection.execute(select):
        ends.setdefault(topic, []).append(end)
    return ends


def starts(connection: sqlite3.Connection, topics: Iterable[str]) -> dict[str, list[int]]:
    """Return the offset of the first entry of each partition, the end of an empty one."""
    ends = all_ends(connection)
    firsts = {name: list(topic_in(ends, name)) for name in topics}
    for row_range in row_ranges(connection, spans(firsts, ends)):
        select = "SELECT id FROM log WHERE id >= ? AND id < ? ORDER BY id LIMIT 1"
        for (first,) in connection.execute(select, (row_range.low, row_range.high)):
            firsts[row_range.topic][row_range.partition] = first & OFFSET_MASK
    return firsts


def plan(
    connection: sqlite3.Connection,
    topics: Iterable[str],
    start: Ends | None = None,
    stop: Ends | None = None,
) -> list[RowRange]:
    """Return the ranges that a read from `start` to `stop` covers now."""
    return row_ranges(connection, spans(topics, all_ends(connection), start, stop))


def row_ranges(
    connection: sqlite3.Connection, offset_spans: Iterable[OffsetSpan]
) -> list[RowRange]:
    """Convert spans of offsets to ranges of rows."""
    select = "SELECT topic, partition, number FROM partition"
    numbers: dict[TopicPartition, int] = {
        (topic, at): n for topic, at, n in connection.execute(select)
    }
    return [
        RowRange(topic, at, row_id(number, low), row_id(number, high))
        for topic, at, low, high in offset_spans
        for number in [numbers[topic, at]]
    ]


def read_chunk(
    connection: sqlite3.Connection, ranges: Sequence[RowRange], settings: SqliteSettings
) -> tuple[list[Batch], Sequence[RowRange]]:
    """Read the first batches of these ranges; return them with the rest of the ranges.

    All batches come from one read transaction. So records of one append appear together, unless
    the chunk ends between them.
    """
    batches: list[Batch] = []
    records, octets = settings.chunk_records, settings.chunk_bytes
    connection.execute("BEGIN")
    try:
        checked = schema_version(connection) >= CHECKED_VERSION
        for index, row_range in enumerate(ranges):
            rows = RowBatch(row_range)
            rows.fetch(connection, row_range, records, octets, checked=checked)
            if len(rows):
                batches.append(rows)
            records -= len(rows)
            octets -= rows.octets
            if records <= 0 or octets <= 0:
                rest = row_range._replace(low=rows.last + 1)
                return batches, [rest, *ranges[index + 1 :]]
    finally:
        # Nothing was written. The transaction must end: while it is open, SQLite cannot reset the
        # WAL. After an input error, SQLite has ended it by itself.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    return batches, ()


class TailChunk(NamedTuple):
    """First batches after a position, the ranges still to read, and the present ends."""

    batches: Sequence[Batch]
    rest: Sequence[RowRange]
    ends: Ends


def news(
    connection: sqlite3.Connection, topics: Sequence[str], start: Ends, settings: SqliteSettings
) -> TailChunk:
    """Read the ends and the first chunk after `start`; a tail calls this after every commit."""
    log_ends = all_ends(connection)
    ends = {topic: topic_in(log_ends, topic) for topic in topics}
    ranges = row_ranges(connection, spans(topics, log_ends, start, ends))
    batches, rest = read_chunk(connection, ranges, settings)
    return TailChunk(batches, rest, ends)


def check(row_range: RowRange, rows: Sequence[LogRow]) -> None:
    """Raise `DamagedRecord` if a row does not match its checksum."""
    row = damaged_in(rows)
    if row is not None:
        raise DamagedRecord(damaged(row_range.topic, row_range.partition, row & OFFSET_MASK))


def check_all(connection: sqlite3.Connection) -> None:
    """Check every record of a log; a log of an older schema has no checksums to check.

    Raises:
        DamagedRecord: a record does not match its checksum.
    """
    if schema_version(connection) < CHECKED_VERSION:
        return
    ends = all_ends(connection)
    everything = [
        OffsetSpan(topic, partition, 0, end)
        for topic, partitions in ends.items()
        for partition, end in enumerate(partitions)
    ]
    for row_range in row_ranges(connection, everything):
        cursor = connection.execute(_SELECT, (row_range.low, row_range.high, -1))
        while rows := cursor.fetchmany(FETCH_ROWS):
            check(row_range, rows)


class RowBatch(LazyBatch):
    """Batch of the rows of one range, decoded on access."""

    def __init__(self, row_range: RowRange) -> None:
        self.topic, self.partition = row_range.topic, row_range.partition
        self.octets = 0
        self._chunks: list[list[LogRow]] = []

    def __len__(self) -> int:
        return sum(map(len, self._chunks))

    @property
    def last(self) -> int:
        """Id of the last row."""
        return self._chunks[-1][-1][0]

    @property
    def end(self) -> int:
        """Offset after the last record."""
        return (self.last & OFFSET_MASK) + 1

    def fetch(
        self,
        connection: sqlite3.Connection,
        row_range: RowRange,
        records: int,
        octets: int,
        *,
        checked: bool,
    ) -> None:
        """Fetch rows from the start of the range, up to a number of records or bytes of values.

        Raises:
            DamagedRecord: a row does not match its checksum.
        """
        select = _SELECT if checked else _SELECT_UNCHECKED
        cursor = connection.execute(select, (row_range.low, row_range.high, records))
        count = FIRST_ROWS
        while self.octets < octets and (rows := cursor.fetchmany(count)):
            if checked:
                check(row_range, rows)
            self._chunks.append(rows)
            size = sum(map(len, filter(None, map(_VALUE, rows))))
            self.octets += size
            count = min(FETCH_ROWS, 1 + (octets - self.octets) * len(rows) // (size or 1))
        cursor.close()

    def keep_last(self, last: LastValues, *, aborted: bool) -> None:
        """Set the last value of each key from the rows, without decoding columns."""
        for rows in self._chunks:
            if aborted or not any(map(_ABORTED, rows)):
                last.update(map(_PAIR, rows))
            else:
                last.update(_PAIR(row) for row in rows if not _ABORTED(row))

    def decode(self) -> ColumnBatch:
        """Decode all rows to columns."""
        ids, timestamps, keys, values, headers, aborted, _ = (
            [cell for part in column for cell in part]
            for column in zip(*(zip(*rows, strict=True) for rows in self._chunks), strict=True)
        )
        return ColumnBatch(
            self.topic,
            self.partition,
            [row & OFFSET_MASK for row in ids],
            timestamps,
            keys,
            values,
            _decoded_headers(headers),
            frozenset(compress(count(), aborted)),
        )


def _decoded_headers(stored: Sequence[bytes | None]) -> dict[int, Headers]:
    """Return the non-empty headers by index.

    Equal stored bytes are decoded once: all records of a command have the same headers.
    """
    decoded = {encoded: decode_headers(encoded) for encoded in {*stored} if encoded}
    return {index: decoded[encoded] for index, encoded in enumerate(stored) if encoded}
