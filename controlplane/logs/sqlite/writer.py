"""Writer thread: takes write requests from a queue and commits them in groups.

A commit costs one `fdatasync`, whatever its size. So all requests that arrive during a commit go
into the next one (group commit). Callers wait in the event loop, not in threads.
"""

import asyncio
import queue
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard, TypeVar

import msgspec

from controlplane.core.entry import Entry
from controlplane.logs.log import LogError, LogUnavailable
from controlplane.logs.sqlite.errors import log_error
from controlplane.logs.sqlite.files import FileIdentity
from controlplane.logs.sqlite.ledger import Ledger
from controlplane.logs.sqlite.settings import SqliteSettings
from controlplane.logs.sqlite.watch import Watch

T = TypeVar("T")

RETRY_MS = (0.5, 2.0)
"""Range of the random pause between two attempts to get the lock of another process. The busy
handler of SQLite sleeps longer each time. Its pauses starve one of several writers: a writer that
commits without pause leaves the lock free for only 5 % of the time."""


class WriteRequest(msgspec.Struct, frozen=True):
    """Change to perform in a transaction, and the future of its caller."""

    perform: Callable[[Ledger], Any]
    future: "asyncio.Future[Any]"
    records: int


WriteResult = tuple[WriteRequest, Any, BaseException | None]


class GroupResult(NamedTuple):
    """Results of the requests in a transaction, and the entries it appended."""

    outcomes: Sequence[WriteResult]
    appended: Sequence[Entry] = ()
    imported: bool = False
    """True if the transaction also imported entries."""


class Writer:
    """Thread with the only connection that writes and checkpoints.

    After every commit it passes the appended entries to `watch`, in the event loop.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        settings: SqliteSettings,
        watch: Watch,
    ) -> None:
        self._path = path
        self._settings = settings
        self._identity = FileIdentity(path)
        self._watch = watch
        self._loop = asyncio.get_running_loop()
        self._ledger = Ledger(connection)
        self._waiting: queue.SimpleQueue[WriteRequest | None] = queue.SimpleQueue()
        self._room = asyncio.Semaphore(settings.queued_appends)
        self._closed = False
        # A daemon thread: a program that does not close the log must still be able to exit.
        self._thread = threading.Thread(target=self._run, name=f"log {path.name}", daemon=True)
        self._thread.start()

    async def submit(self, perform: Callable[[Ledger], T], records: int = 1) -> T:
        """Perform a change in a transaction; return its result after the commit.

        A call cancelled while it waits for room has no effect; cancelled later, the change happens.
        """
        await self._room.acquire()
        if self._closed:
            self._room.release()
            raise LogUnavailable(f"The log {self._path} is closed: open it again")
        future: asyncio.Future[T] = self._loop.create_future()
        self._waiting.put(WriteRequest(perform, future, records))
        return await future

    async def close(self) -> None:
        """Finish all pending requests, then end the thread and close the connection."""
        if not self._closed:
            self._closed = True
            self._waiting.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        ended = False
        while not ended:
            group, ended = self._next_group()
            for group_result in self._commit_or_split(group) if group else ():
                self._answer(group_result)
        self._ledger.connection.close()

    def _next_group(self) -> tuple[list[WriteRequest], bool]:
        """Wait for a request, take those queued after it; the flag marks the last group."""
        group: list[WriteRequest] = []
        records = 0
        work = self._waiting.get()
        while work is not None:
            group.append(work)
            records += work.records
            if records >= self._settings.group_records:
                return group, False
            try:
                work = self._waiting.get_nowait()
            except queue.Empty:
                return group, False
        return group, True

    def _commit_or_split(self, group: list[WriteRequest]) -> Iterator[GroupResult]:
        """Commit a group; if that fails because of one request, commit the requests one by one."""
        try:
            self._begin()
        except LogError as error:
            yield _failed(group, error)
            return
        try:
            yield self._commit(group)
        except Exception as error:  # noqa: BLE001  every failure must reach the callers
            self._roll_back()
            if _concerns_all(error):
                yield _failed(group, log_error(error, self._path))
            elif len(group) == 1:
                yield _failed(group, error)
            else:
                for work in group:
                    yield from self._commit_or_split([work])

    def _commit(self, group: Iterable[WriteRequest]) -> GroupResult:
        ledger = self._ledger
        ledger.begin()
        outcomes = [_perform(ledger, work) for work in group]
        ledger.flush()
        ledger.connection.execute("COMMIT")
        return GroupResult(outcomes, ledger.appended, ledger.imported)

    def _begin(self) -> None:
        """Begin a transaction; wait for the lock of other processes up to `write_wait_ms`."""
        self._identity.check()
        deadline = time.monotonic() + self._settings.write_wait_ms / 1_000
        while True:
            try:
                self._ledger.connection.execute("BEGIN IMMEDIATE")
            except sqlite3.Error as error:
                failure = log_error(error, self._path)
                busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
                if not busy or time.monotonic() > deadline:
                    raise failure from error
                time.sleep(random.uniform(*RETRY_MS) / 1_000)  # noqa: S311  no secret
            else:
                return

    def _roll_back(self) -> None:
        self._ledger.forget()
        # After some errors SQLite has rolled back by itself; then ROLLBACK fails.
        with suppress(sqlite3.Error):
            self._ledger.connection.execute("ROLLBACK")

    def _answer(self, group_result: GroupResult) -> None:
        # A program that exits without `close` has closed the loop; then no caller waits.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._answered, group_result)

    def _answered(self, group_result: GroupResult) -> None:
        """Run in the event loop: hand the new entries to tails, then resolve the futures.

        Tails come first, so a caller that has appended finds its records in the tail's queue.
        """
        self._watch.committed(group_result.appended, imported=group_result.imported)
        for work, result, error in group_result.outcomes:
            self._room.release()
            if work.future.done():
                continue
            if error is not None:
                work.future.set_exception(error)
            else:
                work.future.set_result(result)


def _concerns_all(error: Exception) -> TypeGuard[sqlite3.Error]:
    """Return True if the error comes from the file, and not from one of the requests.

    A value that Python cannot bind has no error code of SQLite; a value of 1 GB is TOOBIG.
    """
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_TOOBIG)
    return isinstance(error, sqlite3.Error) and code != sqlite3.SQLITE_TOOBIG


def _failed(group: Iterable[WriteRequest], error: BaseException) -> GroupResult:
    """Give the same error to all requests of a group."""
    return GroupResult([(work, None, error) for work in group])


def _perform(ledger: Ledger, work: WriteRequest) -> WriteResult:
    """Perform one request. A refused request has changed nothing, so the others proceed."""
    try:
        return work, work.perform(ledger), None
    except LogError as refused:
        return work, None, refused
