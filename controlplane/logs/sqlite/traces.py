"""The files that SQLite keeps beside a log (`-wal`, `-shm`): reading without them, or after them.

A reader needs them, too, and makes them where they are missing. In a directory that may not be
written it cannot: such a log is read as what it is then, a file that does not change. Elsewhere a
reader takes away what it made, if nobody else has come to use it.
"""

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path


def wal_of(path: Path) -> Path:
    """The write-ahead log of a log. SQLite resolves links before it names it."""
    real = path.resolve()
    return real.with_name(real.name + "-wal")


def is_frozen(path: Path) -> bool:
    """Whether nobody writes to a log, and no reader can make the files that it needs."""
    wal = wal_of(path)
    effective = os.access in os.supports_effective_ids
    return not wal.exists() and not os.access(wal.parent, os.W_OK, effective_ids=effective)


def leave_none(path: Path) -> None:
    """Take the companions of a log away, unless somebody uses them or has written something.

    Only the last connection that may write does so when it closes, under SQLite's own locks.
    """
    with suppress(OSError):
        if wal_of(path).stat().st_size:
            return
    # Whoever may not write, or comes in between, leaves them: they do no harm.
    with suppress(sqlite3.Error):
        address = f"{path.absolute().as_uri()}?mode=rw"
        with closing(sqlite3.connect(address, uri=True, timeout=0)) as connection:
            connection.execute("PRAGMA wal_autocheckpoint = 0")
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
