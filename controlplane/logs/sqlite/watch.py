"""Learning of commits: of this process at once, of others by looking every few milliseconds."""

import asyncio
import sqlite3
from contextlib import suppress

from controlplane.logs.changes import Changes


class Watch:
    """A connection that is asked whether the file has changed, as long as somebody waits for it.

    `PRAGMA data_version` takes a microsecond or two and reads shared memory only; it is asked in
    the event loop.
    """

    def __init__(self, connection: sqlite3.Connection, poll_interval_ms: int) -> None:
        self._connection = connection
        self._interval_s = poll_interval_ms / 1_000
        self._changes = Changes()
        self._version: int | None = None
        self._waiting = 0
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self.look()

    @property
    def count(self) -> int:
        """How many changes there have been so far, this very moment included."""
        self.look()
        return self._changes.count

    async def beyond(self, seen: int) -> None:
        """Return as soon as the count is not `seen` any more."""
        self._waiting += 1
        self._look_again()
        try:
            await self._changes.beyond(seen)
        finally:
            self._waiting -= 1

    def look(self) -> None:
        """Look for a commit, and wake those who wait if there has been one."""
        if self._closed:
            return
        # Busy while another process recovers the file, or damaged: whoever reads it is told.
        version = self._version
        with suppress(sqlite3.DatabaseError):
            (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        if version != self._version:
            self._version = version
            self._changes.tell()

    def close(self) -> None:
        """Look no more, and wake those who wait."""
        if self._timer is not None:
            self._timer.cancel()
        self._closed = True
        self._connection.close()
        self._changes.tell()

    def _look_again(self) -> None:
        """Set the timer, if it is not running and somebody waits."""
        if self._timer is None and self._waiting:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._interval_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.look()
        self._look_again()
