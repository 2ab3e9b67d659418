"""The one thread that writes: takes what is asked for, and commits it in groups.

A commit costs one `fdatasync`, whatever is in it; so all that has been asked for while the last
commit ran goes into the next one. Who asks waits in the event loop, not in a thread.
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
from controlplane.logs.sqlite.ledger import Ledger
from controlplane.logs.sqlite.place import Place
from controlplane.logs.sqlite.settings import SqliteSettings

T = TypeVar("T")

RETRY_MS = (0.5, 2.0)
"""Pause before asking again for the lock of another process, at random in between. SQLite's own
waiting sleeps longer each time, which lets one of several writers starve: one that commits without
a pause leaves the lock free for some 5 % of the time."""


class Work(msgspec.Struct, frozen=True):
    """Something to do in a transaction, and who waits for its result."""

    perform: Callable[[Ledger], Any]
    future: "asyncio.Future[Any]"
    records: int


Outcome = tuple[Work, Any, BaseException | None]


class Done(NamedTuple):
    """What came of a transaction, and what it has appended."""

    outcomes: Sequence[Outcome]
    appended: Sequence[Entry] = ()


class Writer:
    """A thread with the only connection that writes and checkpoints.

    `committed` is called in the event loop after every commit, with what it appended.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        settings: SqliteSettings,
        committed: Callable[[Sequence[Entry]], None],
    ) -> None:
        self._path = path
        self._settings = settings
        self._place = Place(path)
        self._committed = committed
        self._loop = asyncio.get_running_loop()
        self._ledger = Ledger(connection)
        self._waiting: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._room = asyncio.Semaphore(settings.queued_appends)
        self._closed = False
        # A daemon, because a program that forgets to close the log shall end all the same.
        self._thread = threading.Thread(target=self._run, name=f"log {path.name}", daemon=True)
        self._thread.start()

    async def submit(self, perform: Callable[[Ledger], T], records: int = 1) -> T:
        """Do this in a transaction and return its result once it is committed.

        Whoever cancels this while it waits for room has asked for nothing; later, it happens.
        """
        await self._room.acquire()
        if self._closed:
            self._room.release()
            raise LogUnavailable(f"The log {self._path} is closed: open it again")
        future: asyncio.Future[T] = self._loop.create_future()
        self._waiting.put(Work(perform, future, records))
        return await future

    async def close(self) -> None:
        """Finish all that has been asked for, then end the thread and close the connection."""
        if not self._closed:
            self._closed = True
            self._waiting.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        ended = False
        while not ended:
            group, ended = self._next_group()
            for done in self._commit_or_split(group) if group else ():
                self._answer(done)
        self._ledger.connection.close()

    def _next_group(self) -> tuple[list[Work], bool]:
        """Wait for the first, take those that wait behind it; tells whether it was the last."""
        group: list[Work] = []
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

    def _commit_or_split(self, group: list[Work]) -> Iterator[Done]:
        """Commit a group, or one by one what cannot be committed together."""
        try:
            self._begin()
        except LogError as error:
            yield _failed(group, error)
            return
        try:
            yield self._commit(group)
        except Exception as error:  # noqa: BLE001  whatever it is, who asked must hear of it
            self._roll_back()
            if _concerns_all(error):
                yield _failed(group, log_error(error, self._path))
            elif len(group) == 1:
                yield _failed(group, error)
            else:
                for work in group:
                    yield from self._commit_or_split([work])

    def _commit(self, group: Iterable[Work]) -> Done:
        ledger = self._ledger
        ledger.begin()
        outcomes = [_perform(ledger, work) for work in group]
        ledger.flush()
        ledger.connection.execute("COMMIT")
        return Done(outcomes, ledger.appended)

    def _begin(self) -> None:
        """Begin a transaction, waiting for those of other processes for a bounded time."""
        self._place.check()
        deadline = time.monotonic() + self._settings.write_wait_ms / 1_000
        while True:
            try:
                self._ledger.connection.execute("BEGIN IMMEDIATE")
            except sqlite3.Error as error:
                told = log_error(error, self._path)
                busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
                if not busy or time.monotonic() > deadline:
                    raise told from error
                time.sleep(random.uniform(*RETRY_MS) / 1_000)  # noqa: S311  no secret
            else:
                return

    def _roll_back(self) -> None:
        self._ledger.forget()
        # SQLite has rolled back by itself after some errors, and says so with an error.
        with suppress(sqlite3.Error):
            self._ledger.connection.execute("ROLLBACK")

    def _answer(self, done: Done) -> None:
        # The loop is closed when a program ends without closing the log; nobody waits then.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._answered, done)

    def _answered(self, done: Done) -> None:
        """In the event loop: wake those who wait, first of all who reads what is new."""
        self._committed(done.appended)
        for work, result, error in done.outcomes:
            self._room.release()
            if work.future.done():
                continue
            if error is not None:
                work.future.set_exception(error)
            else:
                work.future.set_result(result)


def _concerns_all(error: Exception) -> TypeGuard[sqlite3.Error]:
    """Whether the file is at fault, and not what one of the records holds.

    What Python refuses to bind has no code of SQLite's; a value of a gigabyte is too big.
    """
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_TOOBIG)
    return isinstance(error, sqlite3.Error) and code != sqlite3.SQLITE_TOOBIG


def _failed(group: Iterable[Work], error: BaseException) -> Done:
    """Nothing has been done, for one and the same reason."""
    return Done([(work, None, error) for work in group])


def _perform(ledger: Ledger, work: Work) -> Outcome:
    """One piece of work. If it is refused nothing has changed, and the others go on."""
    try:
        return work, work.perform(ledger), None
    except LogError as refused:
        return work, None, refused
