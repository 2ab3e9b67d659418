"""Snapshots in the file of the log: written in slices, complete once they have a header."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial

from controlplane.logs.snapshots import StoredSnapshot
from controlplane.logs.sqlite.connection_pool import ConnectionPool
from controlplane.logs.sqlite.ledger import Ledger
from controlplane.logs.sqlite.writer import Writer

READ_PIECES = 256
"""Pieces read in one transaction: a few megabytes, unless configs are very large."""


class SqliteSnapshotStore:
    """Snapshots of an embedded log; see `SnapshotStore`."""

    def __init__(self, pool: ConnectionPool, writer: Callable[[], Writer]) -> None:
        self._pool = pool
        self._writer = writer

    async def stored(self, topic: str, kind: str | None = None) -> Sequence[StoredSnapshot]:
        """Complete snapshots of a topic, of one kind or of all kinds, newest first."""
        return await asyncio.to_thread(
            self._pool.ask, partial(_stored_snapshots, topic=topic, kind=kind)
        )

    async def pieces(self, number: int) -> AsyncIterator[bytes]:
        """Pieces of a snapshot in the order of `add`."""
        first = 0
        while pieces_read := await asyncio.to_thread(
            self._pool.ask, partial(_pieces, number=number, first=first)
        ):
            for piece in pieces_read:
                yield piece
            first += len(pieces_read)

    async def begin(self, topic: str, kind: str) -> int:
        """Begin a snapshot and return its number."""
        return await self._writer().submit(partial(_begin, topic=topic, kind=kind))

    async def add(self, number: int, pieces: Sequence[bytes]) -> bool:
        """Add pieces; return False if the snapshot was dropped."""
        return await self._writer().submit(partial(_add, number=number, pieces=pieces))

    async def finish(self, number: int, header: bytes, room: int) -> bool:
        """Mark the snapshot complete; return False if it was dropped."""
        return await self._writer().submit(
            partial(_finish, number=number, header=header, room=room)
        )


def forget(ledger: Ledger, topic: str) -> None:
    """Drop all snapshots of a topic, unfinished ones included."""
    dropped = ledger.connection.execute("DELETE FROM snapshot WHERE topic = ?", (topic,))
    if dropped.rowcount:
        _remove_orphaned_pieces(ledger)


def _remove_orphaned_pieces(ledger: Ledger) -> None:
    """Remove pieces without a snapshot."""
    ledger.connection.execute(
        "DELETE FROM piece WHERE snapshot NOT IN (SELECT number FROM snapshot)"
    )


def _stored_snapshots(
    connection: sqlite3.Connection, topic: str, kind: str | None
) -> list[StoredSnapshot]:
    # A file last written by an older release has no such table.
    table = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'snapshot'").fetchone()
    if table is None:
        return []
    rows = connection.execute(
        """SELECT number, kind, CAST(about AS BLOB) FROM snapshot
           WHERE topic = ?1 AND kind = coalesce(?2, kind) AND about IS NOT NULL
           ORDER BY number DESC""",
        (topic, kind),
    )
    return list(map(StoredSnapshot._make, rows))


def _pieces(connection: sqlite3.Connection, number: int, first: int) -> list[bytes]:
    rows = connection.execute(
        """SELECT CAST(bytes AS BLOB) FROM piece
           WHERE snapshot = ? AND place >= ? ORDER BY place LIMIT ?""",
        (number, first, READ_PIECES),
    )
    return [piece for (piece,) in rows]


def _begin(ledger: Ledger, topic: str, kind: str) -> int:
    ledger.connection.execute(
        "DELETE FROM snapshot WHERE topic = ? AND kind = ? AND about IS NULL", (topic, kind)
    )
    _remove_orphaned_pieces(ledger)
    cursor = ledger.connection.execute(
        "INSERT INTO snapshot (topic, kind) VALUES (?, ?)", (topic, kind)
    )
    assert cursor.lastrowid is not None  # an INSERT has a row id
    return cursor.lastrowid


def _add(ledger: Ledger, number: int, pieces: Sequence[bytes]) -> bool:
    exists, first = ledger.connection.execute(
        """SELECT EXISTS (SELECT 1 FROM snapshot WHERE number = ?1),
                  (SELECT coalesce(max(place) + 1, 0) FROM piece WHERE snapshot = ?1)""",
        (number,),
    ).fetchone()
    if not exists:
        return False
    ledger.connection.executemany(
        "INSERT INTO piece VALUES (?, ?, ?)",
        [(number, place, piece) for place, piece in enumerate(pieces, first)],
    )
    return True


def _finish(ledger: Ledger, number: int, header: bytes, room: int) -> bool:
    updated = ledger.connection.execute(
        "UPDATE snapshot SET about = ? WHERE number = ?", (header, number)
    )
    if not updated.rowcount:
        return False
    ledger.connection.execute(
        """DELETE FROM snapshot WHERE number IN (
             SELECT number FROM snapshot
             WHERE about IS NOT NULL AND topic = (SELECT topic FROM snapshot WHERE number = ?)
             ORDER BY number DESC LIMIT -1 OFFSET ?
           )""",
        (number, room),
    )
    _remove_orphaned_pieces(ledger)
    return True
