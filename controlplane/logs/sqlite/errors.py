"""Translation of SQLite's errors into errors of a log."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from controlplane.logs.log import LogCorrupt, LogError, LogUnavailable

_BUSY = "is locked by another process: try again, or end the process that holds it"
_DAMAGED = "is damaged ({error}): restore it from a backup"
_FULL = "cannot grow, because the disk is full: make room and try again"
_NO_ACCESS = (
    "cannot be opened or written ({error}): check the access rights of the file and its directory"
)

_KINDS: dict[int, tuple[type[LogError], str]] = {
    sqlite3.SQLITE_BUSY: (LogUnavailable, _BUSY),
    sqlite3.SQLITE_LOCKED: (LogUnavailable, _BUSY),
    sqlite3.SQLITE_FULL: (LogUnavailable, _FULL),
    sqlite3.SQLITE_READONLY: (LogUnavailable, _NO_ACCESS),
    sqlite3.SQLITE_CANTOPEN: (LogUnavailable, _NO_ACCESS),
    sqlite3.SQLITE_PERM: (LogUnavailable, _NO_ACCESS),
    sqlite3.SQLITE_AUTH: (LogUnavailable, _NO_ACCESS),
    sqlite3.SQLITE_IOERR: (LogUnavailable, "cannot be read or written ({error}): check the disk"),
    sqlite3.SQLITE_CORRUPT: (LogCorrupt, _DAMAGED),
    sqlite3.SQLITE_NOTADB: (LogCorrupt, _DAMAGED),
    sqlite3.SQLITE_ERROR: (LogCorrupt, _DAMAGED),
    sqlite3.SQLITE_CONSTRAINT: (LogCorrupt, _DAMAGED),
}
"""Error class and message by SQLite's primary result code. Our statements are correct, so ERROR (a
missing table) and CONSTRAINT (an offset stored twice) mean a damaged file."""

_OTHER = (LogUnavailable, "cannot be used ({error})")
_PRIMARY_CODE = 0xFF


def log_error(error: sqlite3.Error, path: Path) -> LogError:
    """Build the error for a failure of SQLite: what happened to the file, and what to do."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & _PRIMARY_CODE
    kind, text = _KINDS.get(code, _OTHER)
    return kind(f"The log {path} {text.format(error=error)}")


@contextmanager
def log_errors(path: Path) -> Iterator[None]:
    """Translate errors of SQLite within the block to `LogError`."""
    try:
        yield
    except sqlite3.Error as error:
        raise log_error(error, path) from error
