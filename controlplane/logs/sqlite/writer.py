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
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard, TypeVar

import msgspec

from controlplane.core.entry import Entry, Position
from controlplane.logs.log import LogError, LogUnavailable, Record
from controlplane.logs.sqlite.errors import log_error
from controlplane.logs.sqlite.files import FileIdentity
from controlplane.logs.sqlite.ledger import Ledger
from controlplane.logs.sqlite.settings import SqliteSettings
from controlplane.logs.sqlite.watch import Watch
from controlplane.logs.tail import ChangeCounter

T = TypeVar("T")

RETRY_MS = (0.5, 2.0)
"""Range of the random pause between two attempts to take the write lock. SQLite's busy handler
sleeps longer each time, which starves one of several writers. A writer that commits without pause
leaves the lock free for only 5 % of the time."""


class WriteRequest(msgspec.Struct, frozen=True):
    """Change to perform in a transaction, and the future of its caller."""

    perform: Callable[[Ledger], Any]
    future: "asyncio.Future[Any]"
    records: int


WriteResult = tuple[WriteRequest, Any, BaseException | None]


class GroupResult(NamedTuple):
    """Results of the requests in a transaction, and the entries that it appended."""

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
        self._requests: queue.SimpleQueue[WriteRequest | None] = queue.SimpleQueue()
        self._room = asyncio.Semaphore(settings.queued_appends)
        self._closed = False
        self._queued = 0
        """Number of requests that were ever put into the queue, which keeps their order."""
        self._answered = 0
        """Number of requests that were committed or refused: the first ones of the queue."""
        self._abandoned = 0
        """Sequence number of the last request whose caller has gone; 0: none."""
        self._answers = ChangeCounter()
        # A daemon thread: a program that does not close the log must still be able to exit.
        self._thread = threading.Thread(target=self._run, name=f"log {path.name}", daemon=True)
        self._thread.start()

    async def submit(self, perform: Callable[[Ledger], T], records: int = 1) -> T:
        """Perform a change in a transaction; return its result after the commit.

        A call that is cancelled while it waits for room has no effect. After that, a cancelled call
        is still performed; `decided` waits for it.

        Raises:
            LogError: the change was refused, or the file cannot be written.
        """
        await self._room.acquire()
        if self._closed:
            self._room.release()
            raise LogUnavailable(f"The log {self._path} is closed: open it again")
        future: asyncio.Future[T] = self._loop.create_future()
        self._requests.put(WriteRequest(perform, future, records))
        self._queued += 1
        number = self._queued
        try:
            return await future
        except asyncio.CancelledError:
            self._abandoned = max(self._abandoned, number)
            raise

    async def decided(self) -> None:
        """Wait until every request whose caller has gone is committed or refused.

        The thread refuses a request that has waited `write_wait_ms` for the lock.
        """
        last = self._abandoned
        while self._answered < last:
            await self._answers.wait_for_change(self._answers.count)

    def append(
        self, records: Sequence[Record], epoch: int | None = None
    ) -> Coroutine[Any, Any, Sequence[Position]]:
        """Append all of the records, in order, or none; durable when this returns."""
        return self.submit(partial(Ledger.append, records=records, epoch=epoch), len(records))

    async def close(self) -> None:
        """Finish all pending requests, then end the thread and close the connection."""
        if not self._closed:
            self._closed = True
            self._requests.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        ended = False
        while not ended:
            group, ended = self._next_group()
            for group_result in self._commit_or_split(group) if group else ():
                self._answer(group_result)
        self._ledger.connection.close()

    def _next_group(self) -> tuple[list[WriteRequest], bool]:
        """Wait for a request, take those queued behind it; the flag is True for the last group."""
        group: list[WriteRequest] = []
        records = 0
        request = self._requests.get()
        while request is not None:
            group.append(request)
            records += request.records
            if records >= self._settings.group_records:
                return group, False
            try:
                request = self._requests.get_nowait()
            except queue.Empty:
                return group, False
        return group, True

    def _commit_or_split(self, group: list[WriteRequest]) -> Iterator[GroupResult]:
        """Commit a group; if one request makes it fail, commit the requests one by one."""
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
                for request in group:
                    yield from self._commit_or_split([request])

    def _commit(self, group: Iterable[WriteRequest]) -> GroupResult:
        ledger = self._ledger
        ledger.begin()
        outcomes = [_perform(ledger, request) for request in group]
        ledger.flush()
        ledger.connection.execute("COMMIT")
        return GroupResult(outcomes, ledger.appended, ledger.imported)

    def _begin(self) -> None:
        """Begin a transaction; wait up to `write_wait_ms` while another process holds the lock."""
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
            self._loop.call_soon_threadsafe(self._resolve_futures, group_result)

    def _resolve_futures(self, group_result: GroupResult) -> None:
        """Pass the new entries to the tails, then resolve the futures; runs in the event loop.

        Tails come first: when `append` returns, the records are already in the queues of the tails.
        """
        self._watch.committed(group_result.appended, imported=group_result.imported)
        self._answered += len(group_result.outcomes)
        if self._abandoned:  # else nobody waits in `decided`
            self._answers.note_change()
        for request, result, error in group_result.outcomes:
            self._room.release()
            if request.future.done():
                continue
            if error is not None:
                request.future.set_exception(error)
            else:
                request.future.set_result(result)


def _concerns_all(error: Exception) -> TypeGuard[sqlite3.Error]:
    """Return True if the error comes from the file, not from one of the requests.

    Errors of a request: a value that Python cannot bind (no SQLite error code), or TOOBIG (1 GB).
    """
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_TOOBIG)
    return isinstance(error, sqlite3.Error) and code != sqlite3.SQLITE_TOOBIG


def _failed(group: Iterable[WriteRequest], error: BaseException) -> GroupResult:
    """Give the same error to all requests of a group."""
    return GroupResult([(request, None, error) for request in group])


def _perform(ledger: Ledger, request: WriteRequest) -> WriteResult:
    """Perform one request. A refused request has changed nothing, so the others proceed."""
    try:
        return request, request.perform(ledger), None
    except LogError as refused:
        return request, None, refused
