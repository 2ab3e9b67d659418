"""Tails of a file: they receive commits of this process, and poll for those of other processes.

A tail receives the entries of this process from memory, as the batches that it would read from the
file. Reading them back would cost a busy control plane a fifth of its throughput
(`benchmarks/commands.py`).
"""

import asyncio
import sqlite3
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from controlplane.core.entry import (
    Batch,
    ColumnBatch,
    Entry,
    LastValues,
    LazyBatch,
    TopicPartition,
    batch_of,
)

COMMITS_KEPT = 64
"""Maximum commits queued for a slow tail. After one more, the tail reads them all from the file."""

Inbox = deque[Sequence[Entry]]
"""Queue of commits of this process for one tail, each as its entries in order."""

ReadOn = Callable[[dict[str, list[int]]], AsyncIterator[Batch]]
"""Reads the file from these offsets to its end, and moves the offsets there."""


class Watch:
    """Connection that polls the file for commits while a tail or `until_claimed` waits.

    `PRAGMA data_version` takes 1 to 2 µs and reads only shared memory, so it runs in the event
    loop. It reports commits of this process and of others alike.
    """

    def __init__(self, connection: sqlite3.Connection, poll_interval_ms: int) -> None:
        self._connection = connection
        self._interval_s = poll_interval_ms / 1_000
        self._inboxes: list[Inbox] = []
        self._woken = asyncio.Event()
        """Set and cleared at once: this wakes only the tails that wait now."""
        self._changes_seen = 0
        self._version: int | None = None
        self._waiting = 0
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self.look()

    async def tail(self, read_on: ReadOn, at: dict[str, list[int]]) -> AsyncIterator[Batch]:
        """Yield batches from `at` on without end, from the file and from the inbox.

        `at`: offsets by topic of the tail; it moves to the end of each batch.
        """
        with self._inbox() as inbox:
            while True:
                self.look()
                changes = self._changes_seen
                async for batch in read_on(at):
                    yield batch
                with suppress(CommitGap):
                    while not await self._wait_for_entries(changes, inbox):
                        for appended in batches_after(inbox.popleft(), at):
                            yield appended

    async def until_claimed(self, epoch: int) -> None:
        """Return as soon as an epoch newer than this one is claimed, or the file is closed.

        It reads the file only after a poll that found a commit: at most once per interval.
        """
        with self._polled():
            while not self._closed and self.newest_epoch(epoch) == epoch:
                changes = self._changes_seen
                while self._changes_seen == changes:
                    await self._woken.wait()

    def newest_epoch(self, known: int) -> int:
        """Return the newest epoch in the file; the `known` one if the file cannot be read now."""
        epoch = known
        with suppress(sqlite3.Error):
            [(epoch,)] = self._connection.execute("SELECT epoch FROM fence").fetchall()
        return epoch

    @contextmanager
    def _polled(self) -> Iterator[None]:
        """Poll the file within the block."""
        self._waiting += 1
        self._schedule_poll()
        try:
            yield
        finally:
            self._waiting -= 1

    @contextmanager
    def _inbox(self) -> Iterator[Inbox]:
        """Yield a queue that receives the commits of this process within the block."""
        inbox = Inbox()
        self._inboxes.append(inbox)
        try:
            yield inbox
        finally:
            # By identity: two empty queues are equal.
            self._inboxes = [other for other in self._inboxes if other is not inbox]

    async def _wait_for_entries(self, count: int, inbox: Inbox) -> bool:
        """Wait for an own commit or a change of the file; return True if only the file changed."""
        with self._polled():
            while self._changes_seen == count and not inbox:
                await self._woken.wait()
        return not inbox

    def committed(self, appended: Sequence[Entry], *, imported: bool = False) -> None:
        """Put the entries of a commit of this process into all inboxes.

        Without entries, poll the file. With entries, do not: the inboxes suffice, and a poll would
        make each tail read the file as well.

        `imported`: the commit also imported entries, which tails read from the file.
        """
        if not appended:
            self.look()
            return
        full_inboxes = [inbox for inbox in self._inboxes if len(inbox) == COMMITS_KEPT]
        for inbox in full_inboxes:
            inbox.clear()
        for inbox in self._inboxes:
            inbox.append(appended)
        if full_inboxes or imported:
            self._note_change()
        else:
            self._wake()

    def look(self) -> None:
        """Poll for a commit, and wake the waiting tails after one.

        A failed poll counts as a commit: the file may be busy (recovery by another process) or
        damaged. The next read of each tail then waits for the file, or reports the damage.
        """
        if self._closed:
            return
        version = None
        with suppress(sqlite3.DatabaseError):
            (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        if version is None or version != self._version:
            self._version = version
            self._note_change()

    def close(self) -> None:
        """Stop polling, and wake the waiting tails."""
        if self._timer is not None:
            self._timer.cancel()
        self._closed = True
        self._connection.close()
        self._note_change()

    def _note_change(self) -> None:
        self._changes_seen += 1
        self._wake()

    def _wake(self) -> None:
        """Wake every tail that waits now; each then checks for new entries itself."""
        self._woken.set()
        self._woken.clear()

    def _schedule_poll(self) -> None:
        """Start the timer for the next poll, if a caller waits and no timer runs."""
        if self._timer is None and self._waiting:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._interval_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.look()
        self._schedule_poll()


class AppendedBatch(LazyBatch):
    """Batch of consecutive entries of one partition, at least one, that this process appended."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        last = entries[-1]
        self.topic, self.partition, self.end = last.topic, last.partition, last.offset + 1
        self._entries = entries

    def __len__(self) -> int:
        return len(self._entries)

    def entries(self) -> Iterator[Entry]:
        """Iterate over the entries."""
        return iter(self._entries)

    def keep_last(self, last: LastValues, *, aborted: bool) -> None:
        """Set the last value of each key. No entry appended here is aborted."""
        del aborted
        last.update((entry.key, entry.value) for entry in self._entries)

    def decode(self) -> ColumnBatch:
        """Return all entries as columns."""
        return batch_of(self._entries)


class CommitGap(Exception):
    """A tail must read the file: the commit may lack entries after the position of the tail."""


def batches_after(commit: Sequence[Entry], at: dict[str, list[int]]) -> list[AppendedBatch]:
    """Return the batches of a commit of this process that a tail at `at` has not read.

    `at` moves to the ends of these batches.

    Raises:
        CommitGap: the commit may lack entries after `at`, so the tail must read the file. `at` is
            unchanged.
    """
    by_partition: dict[TopicPartition, list[Entry]] = {}
    for entry in commit:
        if entry.topic in at:
            by_partition.setdefault((entry.topic, entry.partition), []).append(entry)
    new = []
    for (topic, partition), entries in by_partition.items():
        parts = at[topic]
        end = parts[partition] if partition < len(parts) else -1
        if not entries[-1].offset < end:
            new.append(_batch_from(entries, end))
    for batch in new:
        at[batch.topic][batch.partition] = batch.end
    return new


def _batch_from(entries: list[Entry], end: int) -> AppendedBatch:
    """Return the entries from `end` on as a batch; raise `CommitGap` if one may be missing."""
    first, last = entries[0].offset, entries[-1].offset
    without_gap = last - first + 1 == len(entries)  # an import may leave a gap within a commit
    if not without_gap or not 0 <= first <= end:
        raise CommitGap
    return AppendedBatch(entries[end - first :])
