"""Reading in chunks: each is one short read transaction, in a worker thread."""

import sqlite3
from collections.abc import Iterable, Sequence
from itertools import compress, count
from typing import NamedTuple

from controlplane.core.entry import Batch
from controlplane.logs.log import Ends
from controlplane.logs.places import Place
from controlplane.logs.spans import Span, spans, topic_in
from controlplane.logs.sqlite.rows import OFFSET_MASK, decode_headers, row_id
from controlplane.logs.sqlite.settings import SqliteSettings

FETCH_ROWS = 256
"""Rows taken from SQLite at a time: they stay in the processor's cache while they are turned into
columns. Measured: 1.9 M rows/s, against 1.0 M with 16,384 and 1.7 M with 64."""

_SELECT = """SELECT id, ts, key, value, headers, aborted FROM log
             WHERE id >= ? AND id < ? ORDER BY id LIMIT ?"""


class Stretch(NamedTuple):
    """Rows `low` (included) to `high` (excluded) of the table `log`, all of one partition."""

    topic: str
    partition: int
    low: int
    high: int


def all_ends(connection: sqlite3.Connection) -> dict[str, list[int]]:
    """The end of every partition there is."""
    ends: dict[str, list[int]] = {}
    select = 'SELECT topic, "end" FROM partition ORDER BY topic, partition'
    for topic, end in connection.execute(select):
        ends.setdefault(topic, []).append(end)
    return ends


def starts(connection: sqlite3.Connection, topics: Iterable[str]) -> dict[str, list[int]]:
    """Offset of the first entry of each partition, its end where there is none."""
    ends = all_ends(connection)
    firsts = {name: list(topic_in(ends, name)) for name in topics}
    for stretch in stretches(connection, spans(firsts, ends)):
        select = "SELECT id FROM log WHERE id >= ? AND id < ? ORDER BY id LIMIT 1"
        for (first,) in connection.execute(select, (stretch.low, stretch.high)):
            firsts[stretch.topic][stretch.partition] = first & OFFSET_MASK
    return firsts


def plan(
    connection: sqlite3.Connection,
    topics: Iterable[str],
    start: Ends | None = None,
    stop: Ends | None = None,
) -> list[Stretch]:
    """What a read from `start` to `stop` covers, as of now."""
    return stretches(connection, spans(topics, all_ends(connection), start, stop))


def stretches(connection: sqlite3.Connection, wanted: Iterable[Span]) -> list[Stretch]:
    """Where spans lie in the table."""
    select = "SELECT topic, partition, number FROM partition"
    numbers: dict[Place, int] = {(topic, at): n for topic, at, n in connection.execute(select)}
    return [
        Stretch(topic, at, row_id(number, low), row_id(number, high))
        for topic, at, low, high in wanted
        for number in [numbers[topic, at]]
    ]


def read_chunk(
    connection: sqlite3.Connection, stretches: Sequence[Stretch], settings: SqliteSettings
) -> tuple[list[Batch], Sequence[Stretch]]:
    """The first batches of these stretches, and what is still to be read then.

    All batches come from one snapshot, so records appended together are seen together unless
    they lie further apart than a chunk.
    """
    batches: list[Batch] = []
    records, octets = settings.chunk_records, settings.chunk_bytes
    connection.execute("BEGIN")
    try:
        for index, stretch in enumerate(stretches):
            rows = Fetched()
            rows.fetch(connection, stretch, records, octets)
            if rows.ids:
                batches.append(rows.batch(stretch))
            records -= len(rows.ids)
            octets -= rows.octets
            if records <= 0 or octets <= 0:
                rest = stretch._replace(low=rows.ids[-1] + 1)
                return batches, [rest, *stretches[index + 1 :]]
    finally:
        connection.execute("ROLLBACK")
    return batches, ()


class Fetched:
    """Rows of one stretch, as columns."""

    def __init__(self) -> None:
        self.octets = 0
        self.ids: list[int] = []
        self._timestamps: list[int] = []
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._headers: list[bytes | None] = []
        self._aborted: list[int] = []

    def fetch(
        self, connection: sqlite3.Connection, stretch: Stretch, records: int, octets: int
    ) -> None:
        """Fetch from the beginning of a stretch up to so many records or bytes of values."""
        cursor = connection.execute(_SELECT, (stretch.low, stretch.high, records))
        while self.octets < octets and (rows := cursor.fetchmany(FETCH_ROWS)):
            ids, timestamps, keys, values, headers, aborted = zip(*rows, strict=True)
            self.ids.extend(ids)
            self._timestamps.extend(timestamps)
            self._keys.extend(keys)
            self._values.extend(values)
            self._headers.extend(headers)
            self._aborted.extend(aborted)
            self.octets += sum(map(len, filter(None, values)))
        cursor.close()

    def batch(self, stretch: Stretch) -> Batch:
        """The same, with their place."""
        return Batch(
            stretch.topic,
            stretch.partition,
            self._offsets(),
            self._timestamps,
            self._keys,
            self._values,
            self._sparse_headers(),
            frozenset(compress(count(), self._aborted)),
        )

    def _offsets(self) -> list[int]:
        first, last = self.ids[0] & OFFSET_MASK, self.ids[-1] & OFFSET_MASK
        if last - first + 1 == len(self.ids):
            return list(range(first, last + 1))
        return [row & OFFSET_MASK for row in self.ids]

    def _sparse_headers(self) -> dict[int, tuple[tuple[str, bytes | None], ...]]:
        if not any(self._headers):
            return {}
        return {i: decode_headers(each) for i, each in enumerate(self._headers) if each}
