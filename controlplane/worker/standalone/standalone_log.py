"""Log of a standalone worker: configs and statuses in memory, offsets in a file, records elsewhere.

Kafka: `MemoryConfigBackingStore`, `MemoryStatusBackingStore`, `FileOffsetBackingStore`.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, TypeVar

import msgspec

from controlplane.core.entry import Batch, Entry, Position
from controlplane.core.order import Ends
from controlplane.core.state import Topics
from controlplane.core.text.file_errors import unwritable
from controlplane.event_loop import close, sliced
from controlplane.logs.log import (
    EmbeddedLog,
    HasClusterId,
    HasWriterLock,
    LogNotUsable,
    LogUnavailable,
    ProbedLog,
    Record,
)
from controlplane.logs.memory import MemoryLog
from controlplane.logs.offset_rules import check_epoch
from controlplane.worker.standalone.offset_file import LoadedOffsets, OffsetFile

T = TypeVar("T")


class _Epochs(NamedTuple):
    """The epoch of a claim in each of the two logs."""

    control: int
    records: int


class StandaloneLog:
    """Connect's topics in memory, and all other topics in the log of records (`EmbeddedLog`).

    The offsets topic equals the offsets file. It begins with the file's offsets, and an append to
    it returns once the file has the new ones. Other offsets of the file stay as they are.
    """

    def __init__(
        self,
        topics: Topics,
        records: EmbeddedLog,
        file: OffsetFile,
        offsets: LoadedOffsets,
        cluster_id: str | None = None,
    ) -> None:
        """Use `open`, which reads the offsets into the log."""
        self._cluster_id = cluster_id
        self._topics = topics
        self._control_topics = frozenset(msgspec.structs.astuple(topics))
        self._control = MemoryLog()
        self._records = records
        self._file = file
        self._offsets = offsets
        self._saving = asyncio.Lock()
        self._appends: set[asyncio.Task[Any]] = set()
        self._epochs = _Epochs(0, 0)

    @classmethod
    async def open(
        cls,
        topics: Topics,
        records: EmbeddedLog,
        file: OffsetFile,
        offsets: LoadedOffsets,
        cluster_id: str | None = None,
    ) -> "StandaloneLog":
        """Open the log with the offsets that were in the file. The caller closes `records`.

        `cluster_id`: that of the brokers, if they have the data topics; `records` is empty then.
        """
        log = cls(topics, records, file, offsets, cluster_id)
        for topic in msgspec.structs.astuple(topics):
            await log._control.create_topic(topic, 1)
        time_ms = file.changed_ms
        await log._control.append(
            [Record(topics.offsets, 0, time_ms, key, value) for key, value in offsets.items()]
        )
        return log

    @property
    def cluster_id(self) -> str | None:
        """Id of the cluster with the data topics, or of the log of records."""
        if self._cluster_id is not None:
            return self._cluster_id
        return self._records.cluster_id if isinstance(self._records, HasClusterId) else None

    def writer_lock(self) -> AbstractContextManager[None]:
        """Hold the lock of the log of records.

        Raises:
            LogNotUsable: another process holds it.
        """
        if isinstance(self._records, HasWriterLock):
            return self._records.writer_lock()
        return nullcontext()

    async def check_writable(self, epoch: int | None = None) -> None:
        """Raise `LogError` unless the log of records could be written now."""
        if isinstance(self._records, ProbedLog):
            await self._records.check_writable(None if epoch is None else self._epochs.records)

    # --- reading ----------------------------------------------------------------------------------

    async def topics(self) -> Mapping[str, int]:
        """All topics, each with its number of partitions."""
        return {**await self._records.topics(), **await self._control.topics()}

    async def starts(self, topics: Iterable[str]) -> Ends:
        """Offset of the first record that the log still holds, per partition."""
        control, records = self._parted(topics)
        return {**await self._control.starts(control), **await self._records.starts(records)}

    async def ends(self, topics: Iterable[str]) -> Ends:
        """Offset after the last record, per partition."""
        control, records = self._parted(topics)
        return {**await self._control.ends(control), **await self._records.ends(records)}

    async def read(
        self, topics: Iterable[str], start: Ends | None = None, stop: Ends | None = None
    ) -> AsyncIterator[Batch]:
        """Yield all batches from `start` to `stop`, Connect's topics first."""
        control, records = self._parted(topics)
        if control:
            async for batch in self._control.read(control, start, stop):
                yield batch
        if records:
            async for batch in self._records.read(records, start, stop):
                yield batch

    def tail(self, topics: Iterable[str], start: Ends) -> AsyncIterator[Batch]:
        """Yield batches from `start` on, without end."""
        control, records = self._parted(topics)
        if not records:
            return self._control.tail(control, start)
        if not control:
            return self._records.tail(records, start)
        tails = (self._control.tail(control, start), self._records.tail(records, start))
        return _interleaved(tails)

    # --- writing ----------------------------------------------------------------------------------

    async def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic, unless it exists with as many partitions."""
        await self._log_of(topic).create_topic(topic, partitions)

    async def add_partitions(self, topic: str, partitions: int) -> None:
        """Raise the number of partitions of a topic; no effect if it has as many or more."""
        await self._log_of(topic).add_partitions(topic, partitions)

    async def claim(self) -> int:
        """Become the only writer of both logs: start a new epoch and return it.

        Appends that write the file, or wait for it, end first. Later ones of older epochs are
        fenced.
        """
        records = await self._records.claim()
        async with self._saving:
            self._epochs = _Epochs(await self._control.claim(), records)
            return self._epochs.control

    async def append(
        self, records: Sequence[Record], epoch: int | None = None
    ) -> Sequence[Position]:
        """Append all records in order, or none; offsets are in their file when this returns.

        Raises:
            LogNotUsable: some records are Connect's and some are not; no batch can hold both.
            LogUnavailable: the file cannot be written; nothing was appended.
        """
        check_epoch(epoch, self._epochs.control)
        control, others = self._parted(record.topic for record in records)
        if control and others:
            raise LogNotUsable(
                f"records of {control[0]} and {others[0]} cannot be one transaction here: a "
                "standalone worker has no exactly-once support"
            )
        if not control:
            return await self._records.append(
                records, None if epoch is None else self._epochs.records
            )
        if self._topics.offsets not in control:
            return await self._control.append(records, epoch)
        return await self._completed(self._append_offsets(records, epoch))

    async def put(self, entries: Sequence[Entry]) -> int:
        """Import entries of another log unchanged, into data topics only.

        Raises:
            LogNotUsable: an entry is of one of Connect's topics; nothing was imported.
        """
        control, _ = self._parted(entry.topic for entry in entries)
        if control:
            raise LogNotUsable(f"{control[0]} of a standalone worker takes no imported records")
        return await self._records.put(entries)

    async def compact(
        self, topic: str, below: Sequence[int] = (), *, tombstones: bool = False
    ) -> int:
        """Remove the entries that Kafka's log cleaner may remove; return their number."""
        return await self._log_of(topic).compact(topic, below, tombstones=tombstones)

    async def trim(self, topic: str, below: Sequence[int]) -> int:
        """Remove all entries before these offsets, by partition; return their number."""
        return await self._log_of(topic).trim(topic, below)

    async def close(self) -> None:
        """Complete appends that have begun; the log of records stays open."""
        if self._appends:
            await asyncio.wait(self._appends)
        await self._control.close()

    async def _append_offsets(
        self, records: Sequence[Record], epoch: int | None
    ) -> Sequence[Position]:
        """Write the file, then append: what readers of the log see is durable."""
        async with self._saving:
            check_epoch(epoch, self._epochs.control)  # a claim may have overtaken this append
            offsets = dict(self._offsets)
            async for record in sliced(records):
                if record.topic != self._topics.offsets:
                    continue
                if record.value is None:
                    offsets.pop(record.key, None)
                else:
                    offsets[record.key] = record.value
            try:
                await asyncio.to_thread(self._file.save, offsets)
            except OSError as failure:
                raise LogUnavailable(unwritable(self._file.path, failure)) from failure
            self._offsets = offsets
            return await self._control.append(records, epoch)

    async def _completed(self, append: Coroutine[Any, Any, T]) -> T:
        """Run an append to its end even if the caller is cancelled: file and log stay equal."""
        task = asyncio.create_task(append, name="offsets file")
        self._appends.add(task)
        task.add_done_callback(self._appends.discard)
        return await asyncio.shield(task)

    def _parted(self, topics: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return Connect's topics and the others."""
        names = dict.fromkeys(topics)
        return (
            [name for name in names if name in self._control_topics],
            [name for name in names if name not in self._control_topics],
        )

    def _log_of(self, topic: str) -> EmbeddedLog:
        return self._control if topic in self._control_topics else self._records


async def _interleaved(tails: Iterable[AsyncIterator[Batch]]) -> AsyncGenerator[Batch, None]:
    """Yield the batches of several tails as they come."""
    pending = {_next(tail): tail for tail in tails}
    try:
        while True:
            done, _ = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for future in done:
                tail = pending.pop(future)
                batch = future.result()
                pending[_next(tail)] = tail  # before `yield`, so that `finally` closes it
                yield batch
    finally:
        for future in pending:
            future.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        for tail in pending.values():
            await close(tail)


def _next(tail: AsyncIterator[Batch]) -> "asyncio.Task[Batch]":
    async def batch() -> Batch:
        return await anext(tail)

    return asyncio.create_task(batch(), name="tail")
