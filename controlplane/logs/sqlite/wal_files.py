"""Files that SQLite keeps beside a log (`-wal`, `-shm`), and reading of a log without them.

A reader needs these files, too, and SQLite creates missing ones. In a read-only directory it
cannot: there a log without them is opened as immutable. Elsewhere a reader removes the files that
it created, unless another process uses them.
"""

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path


def wal_of(path: Path) -> Path:
    """Return the path of the write-ahead log. SQLite resolves links before it forms the name."""
    real = path.resolve()
    return real.with_name(real.name + "-wal")


def is_frozen(path: Path) -> bool:
    """Return True if no process writes to the log and no reader can create the files it needs."""
    wal = wal_of(path)
    effective = os.access in os.supports_effective_ids
    return not wal.exists() and not os.access(wal.parent, os.W_OK, effective_ids=effective)


def leave_none(path: Path) -> None:
    """Remove the companions of a log, unless another process uses them or has written to the log.

    SQLite removes them itself, under its own locks, when the last writable connection closes. So
    this function opens such a connection and closes it.
    """
    with suppress(OSError):
        if wal_of(path).stat().st_size:
            return
    # Without write access, or while another process holds a lock, the files stay: no harm.
    with suppress(sqlite3.Error):
        address = f"{path.absolute().as_uri()}?mode=rw"
        with closing(sqlite3.connect(address, uri=True, timeout=0)) as connection:
            connection.execute("PRAGMA wal_autocheckpoint = 0")
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
