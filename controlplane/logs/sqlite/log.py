"""Embedded log: the interface to the parts of this package."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from controlplane.core.entry import Batch, Entry, Position
from controlplane.core.order import Ends
from controlplane.event_loop import in_joined_thread, run_to_end
from controlplane.logs.compaction import CompactionFilter
from controlplane.logs.log import LogNotUsable, Record
from controlplane.logs.offset_rules import check_epoch
from controlplane.logs.spans import below_ends, topic_in, trim_limits
from controlplane.logs.sqlite import compaction, files, imports, reader
from controlplane.logs.sqlite.backup import back_up
from controlplane.logs.sqlite.connection_pool import ConnectionPool
from controlplane.logs.sqlite.errors import log_errors
from controlplane.logs.sqlite.ledger import Ledger
from controlplane.logs.sqlite.probe import WriteProbe
from controlplane.logs.sqlite.rows import OFFSET_MASK
from controlplane.logs.sqlite.schema import cluster_id
from controlplane.logs.sqlite.settings import SqliteSettings
from controlplane.logs.sqlite.snapshots import SqliteSnapshotStore
from controlplane.logs.sqlite.watch import Watch
from controlplane.logs.sqlite.writer import Writer
from controlplane.logs.sqlite.writer_lock import writer_lock
from controlplane.logs.tail import next_starts, progress_to, start_offsets

T = TypeVar("T")

SAFE_SQLITE = (3, 51, 3)
"""Before this release, two connections that write or checkpoint in the same instant can damage a
WAL file (sqlite.org/wal.html, "the WAL-reset bug")."""

DEFAULTS = SqliteSettings()


class AppendRecords(Protocol):
    """Appends a batch, as `Log.append` describes."""

    def __call__(
        self, records: Sequence[Record], epoch: int | None = None
    ) -> Coroutine[Any, Any, Sequence[Position]]:
        """Append the records; return their positions."""
        ...


class SqliteLog:
    """Log in one SQLite file. Several processes may read and write it at the same time.

    Create it with `open`. It belongs to the event loop in which it was opened. `notices`: sentences
    that the operator should see once.
    """

    append: AppendRecords
    """Appends all of the records, in order, or none; durable when it returns."""

    def __init__(self, path: Path, settings: SqliteSettings, connections: "_Connections") -> None:
        self.path, self._file = path, path.absolute()
        self.cluster_id = connections.cluster_id
        """Id in the format of a Kafka cluster id; None: the schema of the file is too old."""
        self.notices: tuple[str, ...] = _notices() if connections.writing else ()
        self._settings = settings
        self._removes_companions = connections.removes_companions
        self._pool = ConnectionPool(path, settings.read_wait_ms)
        self._watch = Watch(connections.watching, settings.tail_poll_interval_ms)
        self._writer: Writer | None = None
        if connections.writing:
            self._writer = Writer(connections.writing, path, settings, self._watch)
        self.append = self._refuse if self._writer is None else self._writer.append
        self._snapshots = SqliteSnapshotStore(self._pool, self._need_writer)
        self._probe = WriteProbe(path, self._write)

    @classmethod
    async def open(
        cls,
        path: Path | str,
        *,
        create: bool = True,
        read_only: bool = False,
        settings: SqliteSettings = DEFAULTS,
    ) -> "SqliteLog":
        """Open a log, or create one if the file does not exist (unless `create` is false).

        A file of an older schema is upgraded. With `read_only` it is not upgraded, and every method
        that writes raises `LogNotUsable`.

        A cancelled call may leave the new log, empty and complete. Another process may have opened
        it meanwhile, so its removal could lose records.

        Raises:
            LogNotUsable: the file is no log, a log of a newer release, or (with `read_only`) of a
                schema that is too old; it is unchanged.
            LogCorrupt: the log is damaged; the file is unchanged.
            LogUnavailable: the log is locked, or access is denied.
        """
        file, creating = Path(path), create and not read_only
        opening = partial(_open, file, create=creating, read_only=read_only, limits=settings)
        opened: list[SqliteLog] = []

        async def open_file() -> None:
            opened.append(cls(file, settings, await asyncio.to_thread(opening)))

        with log_errors(file):
            try:
                await run_to_end(open_file())
            except asyncio.CancelledError:  # the caller gets nothing that it could close
                for log in opened:
                    await run_to_end(log.close())
                raise
        return opened[0]

    @property
    def snapshots(self) -> SqliteSnapshotStore:
        """Storage for snapshots of this log, in the same file."""
        return self._snapshots

    async def topics(self) -> Mapping[str, int]:
        """All topics, each with its number of partitions."""
        ends = await self._read(reader.all_ends)
        return {topic: len(partitions) for topic, partitions in ends.items()}

    async def starts(self, topics: Iterable[str]) -> Ends:
        """Offset of the first record that the log still holds, per partition."""
        return await self._read(partial(reader.starts, topics=tuple(topics)))

    async def ends(self, topics: Iterable[str]) -> Ends:
        """Offset after the last record, per partition, once all cancelled writes are decided."""
        if self._writer is not None:
            await self._writer.decided()
        ends = await self._read(reader.all_ends)
        return {topic: topic_in(ends, topic) for topic in topics}

    async def read(
        self, topics: Iterable[str], start: Ends | None = None, stop: Ends | None = None
    ) -> AsyncIterator[Batch]:
        """Yield all batches from `start` to `stop`, partition after partition.

        A thread of the default pool reads each chunk. Writes and compaction may happen between two
        chunks.
        """
        names = tuple(topics)
        ranges = await self._read(partial(reader.plan, topics=names, start=start, stop=stop))
        async for batch in self._chunks(ranges):
            yield batch

    async def _chunks(self, rest: Sequence[reader.RowRange]) -> AsyncIterator[Batch]:
        while rest:
            chunk = partial(reader.read_chunk, ranges=rest, settings=self._settings)
            batches, rest = await self._read(chunk)
            for batch in batches:
                yield batch

    def tail(self, topics: Iterable[str], start: Ends) -> AsyncIterator[Batch]:
        """Yield batches from `start` on without end, including appends of other processes."""
        return self._watch.tail(
            self._read_news, {topic: [*start.get(topic, ())] for topic in topics}
        )

    async def _read_news(self, at: dict[str, list[int]]) -> AsyncIterator[Batch]:
        """Yield the batches from `at` to the end of the log, and move `at` there."""
        news = partial(reader.news, topics=tuple(at), start=at, settings=self._settings)
        chunk = await self._read(news)
        received = start_offsets(at, chunk.ends)
        for batch in chunk.batches:
            yield batch
            received[batch.topic][batch.partition] = batch.end
        async for batch in self._chunks(chunk.rest):
            yield batch
            received[batch.topic][batch.partition] = batch.end
        for progress in progress_to(chunk.ends, received):
            yield progress
        at.update(next_starts(at, chunk.ends))

    async def check_writable(self, epoch: int | None = None) -> None:
        """Raise `LogError` unless a writer of this epoch could append now. Appends nothing."""
        await self._probe.check(epoch)
        if epoch is not None:  # the result of the probe may be older than a claim
            check_epoch(epoch, self._watch.newest_epoch(epoch))

    async def until_claimed(self, epoch: int) -> None:
        """Return as soon as an epoch newer than this one is claimed, or the log is closed."""
        await self._watch.until_claimed(epoch)

    def writer_lock(self) -> AbstractContextManager[None]:
        """Hold the lock of the control plane.

        Raises:
            LogNotUsable: another process holds it, or this user may write the log, but not lock it.
        """
        return writer_lock(self.path, read_only=self._writer is None)

    async def close(self) -> None:
        """Finish pending requests, then close the file. A second call does nothing.

        A cancelled call does the same: nobody else could close the file.
        """
        await run_to_end(self._close())

    async def _close(self) -> None:
        await self._probe.close()
        self._watch.close()
        await asyncio.to_thread(self._pool.close)
        if self._writer is not None:
            await self._writer.close()
        # Last: SQLite removes the companions only if no connection to the file is open.
        if self._removes_companions:
            await asyncio.to_thread(files.remove_companions, self._file)

    async def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic, unless it exists with as many partitions."""
        await self._write(lambda ledger: ledger.create_topic(topic, partitions))

    async def add_partitions(self, topic: str, partitions: int) -> None:
        """Raise the number of partitions of a topic; no effect if it has as many or more."""
        await self._write(lambda ledger: ledger.add_partitions(topic, partitions))

    async def claim(self) -> int:
        """Become the only writer: start a new epoch and return it."""
        return await self._write(Ledger.claim)

    async def put(self, entries: Sequence[Entry]) -> int:
        """Import entries of another log unchanged; return the number of new entries."""
        put = partial(imports.put, entries=entries, path=self.path)
        return await self._write(put, len(entries))

    async def assumed_partitions(self) -> frozenset[str]:
        """Return the imported topics that may have more partitions in their original cluster."""
        return await self._read(imports.assumed)

    async def set_assumed_partitions(self, topics: Iterable[str]) -> None:
        """Store these topics. The log itself does not use them."""
        await self._write(lambda ledger: imports.set_assumed(ledger, topics))

    async def compact(
        self, topic: str, below: Sequence[int] = (), *, tombstones: bool = False
    ) -> int:
        """Remove the entries that Kafka's log cleaner may remove; return their number.

        The last entry of each key stays, and so do all ends. `below`: one offset per partition
        (default: the end). Entries at or after that offset are ignored, like Kafka's active
        segment. `tombstones` also removes tombstones that are the last of their key, as Kafka does
        after `delete.retention.ms`. Works in slices; a cancelled call has done a part of the work.
        """
        self._need_writer()
        ends = await self.ends([topic])
        stop = {topic: below_ends(topic, ends[topic], below)}
        removed = 0
        for row_range in await self._read(partial(reader.plan, topics=[topic], stop=stop)):
            removed += await self._compact(row_range, tombstones=tombstones)
        return removed

    async def trim(self, topic: str, below: Sequence[int]) -> int:
        """Remove all entries before these offsets, by partition; return their number.

        Partitions that are left out keep their entries; all ends stay. Works in slices; a cancelled
        call has done a part of the work.
        """
        self._need_writer()
        limits = trim_limits(topic, (await self.ends([topic]))[topic], below)
        removed = 0
        for row_range in await self._read(
            partial(reader.plan, topics=[topic], stop={topic: limits})
        ):
            while removed_rows := await self._write(
                partial(compaction.remove_first, row_range=row_range)
            ):
                removed += removed_rows
        return removed

    async def backup(self, path: Path | str) -> Ends:
        """Copy the current log to a new file while it is in use, and check the copy.

        The file appears after the checks, unless the call is cancelled. Return the end offsets of
        the copy.
        """
        return await in_joined_thread(partial(self._back_up, Path(path)))

    def _back_up(self, path: Path, stopped: Callable[[], bool]) -> Ends:
        copy = partial(back_up, source=self.path, path=path, stopped=stopped)
        return self._pool.ask(copy)

    async def _compact(self, row_range: reader.RowRange, *, tombstones: bool) -> int:
        filter_ = CompactionFilter()
        rest: reader.RowRange | None = row_range
        while rest:
            rest = await self._read(partial(compaction.sift, row_range=rest, filter_=filter_))
        # Tombstones last: without its tombstone, an older value of a key would be visible again.
        base = row_range.low & ~OFFSET_MASK
        removable = [*filter_.superseded, *(filter_.tombstones if tombstones else ())]
        removed = 0
        for first in range(0, len(removable), compaction.DELETE_ROWS):
            rows = [base | offset for offset in removable[first : first + compaction.DELETE_ROWS]]
            remove = partial(compaction.remove, topic=row_range.topic, rows=rows)
            removed += await self._write(remove)
        return removed

    async def _read(self, ask: Callable[[sqlite3.Connection], T]) -> T:
        """Run a query in a thread of the default pool."""
        return await asyncio.to_thread(self._pool.ask, ask)

    def _write(self, perform: Callable[[Ledger], T], records: int = 1) -> Coroutine[Any, Any, T]:
        """Run a change in a transaction of the writer thread."""
        return self._refuse() if self._writer is None else self._writer.submit(perform, records)

    async def _refuse(self, *_: object, **__: object) -> Any:
        """Raise `LogNotUsable` when awaited, like every other failure of a write."""
        self._need_writer()

    def _need_writer(self) -> Writer:
        if self._writer is None:
            message = f"The log {self.path} is open for reading only: open it for writing"
            raise LogNotUsable(message)
        return self._writer


def _notices() -> tuple[str, ...]:
    """Return a warning for the operator if the SQLite library has the WAL-reset bug."""
    if sqlite3.sqlite_version_info >= SAFE_SQLITE:
        return ()
    fixed = ".".join(map(str, SAFE_SQLITE))
    text = f"SQLite {sqlite3.sqlite_version} can damage a log that two processes write at the"
    return (f"{text} same time: keep to one writing process, or update SQLite to {fixed}.",)


class _Connections(NamedTuple):
    """Connections to a file: one that watches it, and one that writes (None: read-only)."""

    watching: sqlite3.Connection
    cluster_id: str | None
    writing: sqlite3.Connection | None = None
    removes_companions: bool = False
    """True: the `-wal` and `-shm` files did not exist before, so `close` removes them."""


def _open(path: Path, *, create: bool, read_only: bool, limits: SqliteSettings) -> _Connections:
    """Check or create the file, and open its connections; see `SqliteLog.open` for errors."""
    if create:
        files.create(path)
    files.examine(path)
    if read_only:
        had_no_wal = not files.wal_of(path).exists()
        files.check_readable(path, limits)
        watching = files.connect(path, "ro")
        return _Connections(watching, cluster_id(watching), removes_companions=had_no_wal)
    writing = files.connect_writer(path, limits)
    return _Connections(files.connect(path, "ro"), cluster_id(writing), writing)
