"""Compaction and retention, in slices: readers and the writer go on in between."""

import sqlite3
from collections.abc import Sequence

from controlplane.core.entry import Decoded
from controlplane.logs.compaction import Sieve
from controlplane.logs.sqlite.ledger import Ledger
from controlplane.logs.sqlite.reader import Stretch, check
from controlplane.logs.sqlite.rows import OFFSET_MASK
from controlplane.logs.sqlite.snapshots import forget

SIFT_ROWS = 8_192
"""Rows looked at in one read transaction: a few milliseconds."""

DELETE_ROWS = 4_096
"""Rows removed in one write transaction: appends wait some ten milliseconds at most."""

_DESCENDING = """SELECT id, ts, key, value, headers, aborted, checksum FROM log
                 WHERE id >= ? AND id < ? ORDER BY id DESC LIMIT ?"""

_DELETE_FIRST = """DELETE FROM log WHERE id IN (
                     SELECT id FROM log WHERE id >= ? AND id < ? ORDER BY id LIMIT ?
                   )"""


def sift(connection: sqlite3.Connection, stretch: Stretch, sieve: Sieve) -> Stretch | None:
    """Look at the newest rows of a stretch; what is left of it, None when all has been seen.

    Raises:
        DamagedRecord: one does not fit its checksum, so its key may be that of another one.
    """
    rows: list[tuple[int, bytes | None, bool, int]] = []
    for row in connection.execute(_DESCENDING, (stretch.low, stretch.high, SIFT_ROWS)):
        check(stretch, [row])
        rows.append((row[0], row[2], row[3] is None, row[5]))  # values may be large
    if not rows:
        return None
    rows.reverse()
    offsets = [row & OFFSET_MASK for row, *_ in rows]
    values = [None if tombstone else b"" for *_, tombstone, _ in rows]
    aborted = frozenset(index for index, row in enumerate(rows) if row[3])
    keys = [key for _, key, *_ in rows]
    sieve.sift(
        [Decoded(stretch.topic, stretch.partition, offsets, offsets, keys, values, {}, aborted)]
    )
    return stretch._replace(high=rows[0][0])


def remove(ledger: Ledger, topic: str, rows: Sequence[int]) -> int:
    """Remove rows of a topic; answers how many of them were there."""
    cursor = ledger.connection.executemany("DELETE FROM log WHERE id = ?", [(row,) for row in rows])
    if cursor.rowcount:
        forget(ledger, topic)
    return cursor.rowcount


def remove_first(ledger: Ledger, stretch: Stretch) -> int:
    """Remove the first rows of a stretch, as many as fit into one transaction."""
    cursor = ledger.connection.execute(_DELETE_FIRST, (stretch.low, stretch.high, DELETE_ROWS))
    if cursor.rowcount:
        forget(ledger, stretch.topic)
    return cursor.rowcount
