"""The embedded log as others see it."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from controlplane.core.entry import Batch, Entry, Position
from controlplane.logs.changes import further
from controlplane.logs.compaction import Sieve
from controlplane.logs.log import Ends, LogNotUsable, Record
from controlplane.logs.spans import below_ends, topic_in, trim_limits
from controlplane.logs.sqlite import compaction, files, imports, reader, traces
from controlplane.logs.sqlite.appended import Gap, going_on
from controlplane.logs.sqlite.backup import back_up
from controlplane.logs.sqlite.errors import log_errors
from controlplane.logs.sqlite.ledger import Ledger
from controlplane.logs.sqlite.pool import Pool
from controlplane.logs.sqlite.probe import WriteProbe
from controlplane.logs.sqlite.rows import OFFSET_MASK
from controlplane.logs.sqlite.schema import cluster_id
from controlplane.logs.sqlite.settings import SqliteSettings
from controlplane.logs.sqlite.snapshots import SqliteShelf
from controlplane.logs.sqlite.watch import Watch
from controlplane.logs.sqlite.writer import Writer
from controlplane.logs.sqlite.writer_lock import writer_lock

T = TypeVar("T")

SAFE_SQLITE = (3, 51, 3)
"""Before this release, SQLite can damage a WAL file when two connections write or checkpoint in
the same instant (sqlite.org/wal.html, "the WAL-reset bug")."""

DEFAULTS = SqliteSettings()


class SqliteLog:
    """A log in one SQLite file. Several processes may read and write it at the same time.

    Made by `open`. Belongs to the event loop in which it was opened. `notices` are sentences that
    the operator should see once.
    """

    def __init__(self, path: Path, settings: SqliteSettings, connections: "_Connections") -> None:
        self.path = path
        self.cluster_id = connections.cluster_id
        """What the log calls itself, as a Kafka cluster does; None: no writer has upgraded it yet
        to a schema in which it has a name."""
        self.notices: tuple[str, ...] = _notices() if connections.writing else ()
        self._settings = settings
        self._leaves_none = connections.leaves_none
        self._pool = Pool(path, settings.read_wait_ms)
        self._watch = Watch(connections.watching, settings.tail_poll_interval_ms)
        self._writer: Writer | None = None
        if connections.writing:
            self._writer = Writer(connections.writing, path, settings, self._watch.committed)
        self._shelf = SqliteShelf(self._pool, self._need_writer)
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
        """Open a log, or make one where there is no file yet (unless `create` is false).

        A file of an older schema is upgraded. With `read_only`, everything that would write raises
        `LogNotUsable`. Raises `LogNotUsable` for what is not a log of this release or an older
        one, `LogCorrupt` for a damaged one, `LogUnavailable` for one that is locked or may not be
        accessed; nothing is changed then.
        """
        file = Path(path)
        with log_errors(file):
            connections = await asyncio.to_thread(
                _open, file, create=create and not read_only, read_only=read_only, limits=settings
            )
            return cls(file, settings, connections)

    @property
    def snapshots(self) -> SqliteShelf:
        """What was folded of this log, and is kept beside it."""
        return self._shelf

    async def topics(self) -> Mapping[str, int]:
        """Every topic there is, with its number of partitions."""
        ends = await self._read(reader.all_ends)
        return {topic: len(partitions) for topic, partitions in ends.items()}

    async def starts(self, topics: Iterable[str]) -> Ends:
        """Offset of the first record that is still there, per partition."""
        return await self._read(partial(reader.starts, topics=tuple(topics)))

    async def ends(self, topics: Iterable[str]) -> Ends:
        """Offset behind the last record, per partition."""
        ends = await self._read(reader.all_ends)
        return {topic: topic_in(ends, topic) for topic in topics}

    async def read(
        self, topics: Iterable[str], start: Ends | None = None, stop: Ends | None = None
    ) -> AsyncIterator[Batch]:
        """All batches from `start` to `stop`, partition after partition.

        Every chunk is read in a worker thread. In between others may write, and compact.
        """
        names = tuple(topics)
        stretches = await self._read(partial(reader.plan, topics=names, start=start, stop=stop))
        async for batch in self._chunks(stretches):
            yield batch

    async def _chunks(self, rest: Sequence[reader.Stretch]) -> AsyncIterator[Batch]:
        while rest:
            chunk = partial(reader.read_chunk, stretches=rest, settings=self._settings)
            batches, rest = await self._read(chunk)
            for batch in batches:
                yield batch

    async def tail(self, topics: Iterable[str], start: Ends) -> AsyncIterator[Batch]:
        """Batches from `start` on, without end, also those that other processes append."""
        names = tuple(dict.fromkeys(topics))
        with self._watch.inbox() as inbox:
            while True:
                seen = self._watch.count
                found = await self._read(
                    partial(reader.news, topics=names, start=start, settings=self._settings)
                )
                for batch in found.batches:
                    yield batch
                async for batch in self._chunks(found.rest):
                    yield batch
                start = at = further(start, found.ends)
                with suppress(Gap):
                    while not await self._watch.beyond(seen, inbox):
                        for appended in going_on(inbox.popleft(), at):
                            yield appended

    async def check_writable(self, epoch: int | None = None) -> None:
        """Raise `LogError` unless a writer of this epoch could append now. Appends nothing."""
        await self._probe.check(epoch)

    def writer_lock(self) -> AbstractContextManager[None]:
        """Be the only control plane of this log. Raises `LogNotUsable` if there is another one."""
        return writer_lock(self.path)

    async def close(self) -> None:
        """Finish what has been asked for, then close the file. Closing twice is allowed."""
        await self._probe.close()
        self._watch.close()
        await asyncio.to_thread(self._pool.close)
        if self._writer is not None:
            await self._writer.close()
        if self._leaves_none:
            await asyncio.to_thread(traces.leave_none, self.path)

    async def create_topic(self, topic: str, partitions: int) -> None:
        """Make a topic, unless it is there with as many partitions."""
        await self._write(lambda ledger: ledger.create_topic(topic, partitions))

    async def add_partitions(self, topic: str, partitions: int) -> None:
        """Let a topic have this many partitions; nothing happens if it has as many or more."""
        await self._write(lambda ledger: ledger.add_partitions(topic, partitions))

    async def claim(self) -> int:
        """Become the one writer: a new epoch."""
        return await self._write(Ledger.claim)

    async def append(
        self, records: Sequence[Record], epoch: int | None = None
    ) -> Sequence[Position]:
        """Append all of the records, in order, or none; durable when this returns."""
        return await self._write(lambda ledger: ledger.append(records, epoch), len(records))

    async def put(self, entries: Sequence[Entry]) -> int:
        """Take over entries of another log as they are; answers how many were not there yet."""
        return await self._write(lambda ledger: imports.put(ledger, entries), len(entries))

    async def assumed_partitions(self) -> frozenset[str]:
        """Topics that may have more partitions in the cluster that they were imported from."""
        return await self._read(imports.assumed)

    async def set_assumed_partitions(self, topics: Iterable[str]) -> None:
        """Store which topics these are; the log itself does not depend on it."""
        await self._write(lambda ledger: imports.set_assumed(ledger, topics))

    async def compact(
        self, topic: str, below: Sequence[int] = (), *, tombstones: bool = False
    ) -> int:
        """Remove what Kafka's log cleaner may remove; answers how many entries that were.

        The last entry of each key stays, and so do all ends. `below` gives by partition the offset
        from which on nothing is looked at (in Kafka the active segment; the end unless given).
        With `tombstones`, those that are the last of their key go too, as they do in Kafka after
        `delete.retention.ms`. Works in slices; cancelled in between, it has done a part of it.
        """
        self._need_writer()
        ends = await self.ends([topic])
        stop = {topic: below_ends(topic, ends[topic], below)}
        removed = 0
        for stretch in await self._read(partial(reader.plan, topics=[topic], stop=stop)):
            removed += await self._compact(stretch, tombstones=tombstones)
        return removed

    async def trim(self, topic: str, below: Sequence[int]) -> int:
        """Remove every entry before these offsets, by partition; answers how many that were.

        Partitions that are left out are left alone; all ends stay. Works in slices; cancelled in
        between, it has done a part of it.
        """
        self._need_writer()
        limits = trim_limits(topic, (await self.ends([topic]))[topic], below)
        removed = 0
        for stretch in await self._read(partial(reader.plan, topics=[topic], stop={topic: limits})):
            while some := await self._write(partial(compaction.remove_first, stretch=stretch)):
                removed += some
        return removed

    async def backup(self, path: Path | str) -> None:
        """Copy the log as of now to a new file, while it is in use; the copy is checked."""
        await self._read(partial(back_up, source=self.path, path=Path(path)))

    async def _compact(self, stretch: reader.Stretch, *, tombstones: bool) -> int:
        sieve = Sieve()
        rest: reader.Stretch | None = stretch
        while rest:
            rest = await self._read(partial(compaction.sift, stretch=rest, sieve=sieve))
        # Tombstones last: without one, an older value that is still there would live again.
        base = stretch.low & ~OFFSET_MASK
        gone = [*sieve.superseded, *(sieve.tombstones if tombstones else ())]
        removed = 0
        for first in range(0, len(gone), compaction.DELETE_ROWS):
            rows = [base | offset for offset in gone[first : first + compaction.DELETE_ROWS]]
            remove = partial(compaction.remove, topic=stretch.topic, rows=rows)
            removed += await self._write(remove)
        return removed

    async def _read(self, ask: Callable[[sqlite3.Connection], T]) -> T:
        """Ask something in a worker thread."""
        return await asyncio.to_thread(self._pool.ask, ask)

    async def _write(self, perform: Callable[[Ledger], T], records: int = 1) -> T:
        """Do something in a transaction, in the writer's thread."""
        return await self._need_writer().submit(perform, records)

    def _need_writer(self) -> Writer:
        if self._writer is None:
            message = f"The log {self.path} is open for reading only: open it for writing"
            raise LogNotUsable(message)
        return self._writer


def _notices() -> tuple[str, ...]:
    """What an operator should know about the SQLite library that Python brings."""
    if sqlite3.sqlite_version_info >= SAFE_SQLITE:
        return ()
    fixed = ".".join(map(str, SAFE_SQLITE))
    text = f"SQLite {sqlite3.sqlite_version} can damage a log that two processes write at the"
    return (f"{text} same time: keep to one writing process, or update SQLite to {fixed}.",)


class _Connections(NamedTuple):
    watching: sqlite3.Connection
    cluster_id: str | None
    writing: sqlite3.Connection | None = None
    leaves_none: bool = False
    """SQLite's companions of the file were not there before, and are not to be there after."""


def _open(path: Path, *, create: bool, read_only: bool, limits: SqliteSettings) -> _Connections:
    """Check or make the file, and open it."""
    if create:
        files.create(path)
    files.examine(path)
    if read_only:
        alone = not traces.wal_of(path).exists()
        files.check_readable(path, limits)
        watching = files.connect(path, "ro")
        return _Connections(watching, cluster_id(watching), leaves_none=alone)
    writing = files.connect_writer(path, limits)
    return _Connections(files.connect(path, "ro"), cluster_id(writing), writing)
