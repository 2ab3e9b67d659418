"""Pool of read connections, each used by one worker thread at a time."""

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from controlplane.logs.log import LogCorrupt, LogError, LogUnavailable
from controlplane.logs.sqlite.checksums import DamagedRecord
from controlplane.logs.sqlite.errors import log_errors
from controlplane.logs.sqlite.files import FileIdentity, connect, is_frozen, wal_of

T = TypeVar("T")

_NOT_AT_REST = "because its directory is read-only, but a process writes to it now: open it again"


class ConnectionPool:
    """Pool of read connections; it grows to the greatest number that threads used at once.

    A thread takes a connection for one query and gives it back itself. So a cancelled caller never
    leaks a connection.
    """

    def __init__(self, path: Path, wait_ms: int) -> None:
        self._path = path
        """The path as the user gave it, for messages."""
        self._file = path.absolute()
        """Absolute path: it stays valid if a connector changes the working directory."""
        self._wait_ms = wait_ms
        self._identity = FileIdentity(path)
        self._frozen = is_frozen(self._file)
        self._lock = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._closed = False

    def ask(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """Run a query on one of the connections; translate errors of SQLite to `LogError`."""
        with log_errors(self._path):
            connection = self._take()
            try:
                return question(connection)
            except DamagedRecord as damage:
                raise LogCorrupt(
                    f"The log {self._path} is damaged ({damage}): restore it from a backup"
                ) from None
            except sqlite3.Error:
                self._identity.check()  # `LogReplaced` is the better reason, if it applies
                raise
            finally:
                self._give_back(connection)

    def close(self) -> None:
        """Close idle connections now, and the others when they are given back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _take(self) -> sqlite3.Connection:
        with self._lock:
            if self._closed:
                raise LogUnavailable(f"The log {self._path} is closed: open it again")
            if self._frozen and wal_of(self._file).exists():
                raise LogUnavailable(f"{self._path} was opened as immutable, {_NOT_AT_REST}")
            if self._idle:
                return self._idle.pop()
        return self._open_another()

    def _open_another(self) -> sqlite3.Connection:
        """Open one more connection, to the same file as the others."""
        # Checked before and after, because the file may be replaced while the connection opens.
        self._identity.check()
        connection = connect(self._file, "ro", self._wait_ms)
        try:
            self._identity.check()
        except LogError:
            connection.close()
            raise
        return connection

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()
