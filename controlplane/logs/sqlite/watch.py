"""Learning of commits: what this process commits is handed over, of others one learns by looking.

Who follows the log need not read what this process has just written: that would cost a fifth of
what a busy control plane can do (`benchmarks/commands.py`).
"""

import asyncio
import sqlite3
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from controlplane.core.entry import Entry
from controlplane.logs.changes import Changes

COMMITS_KEPT = 64
"""Commits that a slow tail may leave lying; of older ones the first go, and are read again."""

Inbox = deque[Sequence[Entry]]
"""Commits of this process that a tail has been handed, each as its entries in order."""


class Watch:
    """A connection that is asked whether the file has changed, as long as somebody waits for it.

    `PRAGMA data_version` takes a microsecond or two and reads shared memory only; it is asked in
    the event loop. It tells of commits of this process as of any other.
    """

    def __init__(self, connection: sqlite3.Connection, poll_interval_ms: int) -> None:
        self._connection = connection
        self._interval_s = poll_interval_ms / 1_000
        self._inboxes: list[Inbox] = []
        self._woken = Changes()
        self._seen = 0
        self._version: int | None = None
        self._waiting = 0
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self.look()

    @property
    def count(self) -> int:
        """How many changes of the file have been noticed so far, by a look at this very moment."""
        self.look()
        return self._seen

    @contextmanager
    def inbox(self) -> Iterator[Inbox]:
        """Where commits of this process are laid meanwhile."""
        inbox = Inbox(maxlen=COMMITS_KEPT)
        self._inboxes.append(inbox)
        try:
            yield inbox
        finally:
            # By identity: two that are empty are equal.
            self._inboxes = [one for one in self._inboxes if one is not inbox]

    async def beyond(self, seen: int, inbox: Inbox) -> bool:
        """Return as soon as something is handed over, or the file has changed: whether it has."""
        self._waiting += 1
        self._look_again()
        try:
            while self._seen == seen and not inbox:
                await self._woken.beyond(self._woken.count)
        finally:
            self._waiting -= 1
        return not inbox

    def committed(self, appended: Sequence[Entry]) -> None:
        """This process has committed what it appended; or something else, where that is nothing.

        The file is not looked at then: the next look would no longer tell of those by others.
        """
        if not appended:
            self.look()
            return
        for inbox in self._inboxes:
            inbox.append(appended)
        self._woken.tell()

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
            self._tell()

    def close(self) -> None:
        """Look no more, and wake those who wait."""
        if self._timer is not None:
            self._timer.cancel()
        self._closed = True
        self._connection.close()
        self._tell()

    def _tell(self) -> None:
        self._seen += 1
        self._woken.tell()

    def _look_again(self) -> None:
        """Set the timer, if it is not running and somebody waits."""
        if self._timer is None and self._waiting:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._interval_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.look()
        self._look_again()
