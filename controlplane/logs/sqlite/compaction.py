"""Compaction and retention in slices; readers and the writer proceed between two slices."""

import sqlite3
from collections.abc import Sequence

from controlplane.core.entry import ColumnBatch
from controlplane.logs.compaction import CompactionFilter
from controlplane.logs.sqlite.ledger import Ledger
from controlplane.logs.sqlite.reader import RowRange, check
from controlplane.logs.sqlite.rows import OFFSET_MASK
from controlplane.logs.sqlite.snapshots import forget

SIFT_ROWS = 8_192
"""Rows read in one transaction: a few milliseconds."""

DELETE_ROWS = 4_096
"""Rows removed in one write transaction: appends wait for at most some 10 ms."""

_DESCENDING = """SELECT id, ts, key, value, headers, aborted, checksum FROM log
                 WHERE id >= ? AND id < ? ORDER BY id DESC LIMIT ?"""

_DELETE_FIRST = """DELETE FROM log WHERE id IN (
                     SELECT id FROM log WHERE id >= ? AND id < ? ORDER BY id LIMIT ?
                   )"""


def sift(
    connection: sqlite3.Connection, row_range: RowRange, filter_: CompactionFilter
) -> RowRange | None:
    """Classify the newest rows of a range; return the range of the older rows.

    None: the range had no rows.

    Raises:
        DamagedRecord: a row does not match its checksum, so its key may be wrong.
    """
    rows: list[tuple[int, bytes | None, bool, int]] = []
    for row in connection.execute(_DESCENDING, (row_range.low, row_range.high, SIFT_ROWS)):
        check(row_range, [row])
        # Keeps only whether the value is null: values may be large.
        rows.append((row[0], row[2], row[3] is None, row[5]))
    if not rows:
        return None
    rows.reverse()
    offsets = [row & OFFSET_MASK for row, *_ in rows]
    values = [None if tombstone else b"" for *_, tombstone, _ in rows]
    aborted = frozenset(index for index, row in enumerate(rows) if row[3])
    keys = [key for _, key, *_ in rows]
    # The filter reads no timestamps: the offsets stand in for them.
    filter_.sift(
        [
            ColumnBatch(
                row_range.topic, row_range.partition, offsets, offsets, keys, values, {}, aborted
            )
        ]
    )
    return row_range._replace(high=rows[0][0])


def remove(ledger: Ledger, topic: str, rows: Sequence[int]) -> int:
    """Remove rows of a topic and its snapshots; return the number of rows that existed."""
    cursor = ledger.connection.executemany("DELETE FROM log WHERE id = ?", [(row,) for row in rows])
    if cursor.rowcount:
        forget(ledger, topic)
    return cursor.rowcount


def remove_first(ledger: Ledger, row_range: RowRange) -> int:
    """Remove the first rows of a range, at most `DELETE_ROWS`, and the topic's snapshots.

    Returns the number of removed rows.
    """
    cursor = ledger.connection.execute(_DELETE_FIRST, (row_range.low, row_range.high, DELETE_ROWS))
    if cursor.rowcount:
        forget(ledger, row_range.topic)
    return cursor.rowcount
