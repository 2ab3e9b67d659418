"""Notification of commits: own commits are handed over, commits of other processes are polled.

A tail need not read back the entries that this process has just written: that would cost a busy
control plane a fifth of its throughput (`benchmarks/commands.py`).
"""

import asyncio
import sqlite3
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from controlplane.core.entry import Entry
from controlplane.logs.wakeup import ChangeCounter

COMMITS_KEPT = 64
"""Commits queued for a slow tail. Beyond it the oldest is dropped and read from the file."""

Inbox = deque[Sequence[Entry]]
"""Queue of commits of this process for one tail, each as its entries in order."""


class Watch:
    """Connection that polls the file for changes as long as a tail waits.

    `PRAGMA data_version` takes one or two microseconds and reads shared memory only, so it runs in
    the event loop. It reports commits of this process and of others alike.
    """

    def __init__(self, connection: sqlite3.Connection, poll_interval_ms: int) -> None:
        self._connection = connection
        self._interval_s = poll_interval_ms / 1_000
        self._inboxes: list[Inbox] = []
        self._woken = ChangeCounter()
        self._seen = 0
        self._version: int | None = None
        self._waiting = 0
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self.look()

    @property
    def count(self) -> int:
        """Number of changes noticed so far, including a poll right now."""
        self.look()
        return self._seen

    @contextmanager
    def inbox(self) -> Iterator[Inbox]:
        """Queue that receives commits of this process within the `with` block."""
        inbox = Inbox(maxlen=COMMITS_KEPT)
        self._inboxes.append(inbox)
        try:
            yield inbox
        finally:
            # By identity: two empty queues are equal.
            self._inboxes = [one for one in self._inboxes if one is not inbox]

    async def beyond(self, seen: int, inbox: Inbox) -> bool:
        """Wait for an own commit or a change of the file; return True if only the file changed."""
        self._waiting += 1
        self._look_again()
        try:
            while self._seen == seen and not inbox:
                await self._woken.beyond(self._woken.count)
        finally:
            self._waiting -= 1
        return not inbox

    def committed(self, appended: Sequence[Entry]) -> None:
        """Hand over the entries of a commit of this process; without entries, poll the file.

        With entries the file is not polled: a poll takes note of the new version, and so would
        hide a commit of another process from the next poll.
        """
        if not appended:
            self.look()
            return
        for inbox in self._inboxes:
            inbox.append(appended)
        self._woken.tell()

    def look(self) -> None:
        """Poll for a commit, and wake the waiting tails after one."""
        if self._closed:
            return
        # The file may be busy (recovery by another process) or damaged: the next read reports it.
        version = self._version
        with suppress(sqlite3.DatabaseError):
            (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        if version != self._version:
            self._version = version
            self._tell()

    def close(self) -> None:
        """Stop polling, and wake the waiting tails."""
        if self._timer is not None:
            self._timer.cancel()
        self._closed = True
        self._connection.close()
        self._tell()

    def _tell(self) -> None:
        self._seen += 1
        self._woken.tell()

    def _look_again(self) -> None:
        """Start the timer, if a tail waits and no timer runs."""
        if self._timer is None and self._waiting:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._interval_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.look()
        self._look_again()
