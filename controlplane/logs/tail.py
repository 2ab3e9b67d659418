"""Tail of a log in this process: reads on after each change, and reports progress."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator

from controlplane.core.entry import Batch, ColumnBatch, Entry, LastValues, LazyBatch
from controlplane.core.order import Ends
from controlplane.logs.log import ReadableLog


class ChangeCounter:
    """Counts changes of a log and wakes the tasks that wait for the next one.

    Use it in one event loop. A reader takes the count *before* it reads, so that it does not miss a
    change during the read.
    """

    def __init__(self) -> None:
        self.count = 0
        self._next = asyncio.Event()

    def note_change(self) -> None:
        """Count a change, or a possible change, and wake the waiting tasks."""
        self.count += 1
        self._next.set()
        self._next = asyncio.Event()

    async def wait_for_change(self, count: int) -> None:
        """Wait until the count differs from the given one."""
        while self.count == count:
            await self._next.wait()


async def follow(
    log: ReadableLog, topics: Iterable[str], start: Ends, changes: ChangeCounter
) -> AsyncIterator[Batch]:
    """Yield batches from `start` to the end, then again after each change, without end."""
    names, at = tuple(topics), start
    while True:
        count = changes.count
        ends = await log.ends(names)
        received = start_offsets(at, ends)
        async for batch in log.read(names, at, ends):
            yield batch
            received[batch.topic][batch.partition] = batch.end
        for progress in progress_to(ends, received):
            yield progress
        at = next_starts(at, ends)
        await changes.wait_for_change(count)


class ReadProgress(LazyBatch):
    """Batch without records; it tells that everything before `end` has been read.

    Transaction markers and compacted records take offsets, but no reader sees them.
    """

    def __init__(self, topic: str, partition: int, end: int) -> None:
        self.topic, self.partition, self.end = topic, partition, end

    def __len__(self) -> int:
        return 0

    def entries(self) -> Iterator[Entry]:
        """Return an iterator without entries."""
        return iter(())

    def keep_last(self, last: LastValues, *, aborted: bool) -> None:
        """Do nothing: there are no values."""

    def decode(self) -> ColumnBatch:
        """Return a batch with empty columns."""
        return ColumnBatch(self.topic, self.partition, (), (), (), ())


def start_offsets(start: Ends, ends: Ends) -> dict[str, list[int]]:
    """Offsets at which a read begins, one for each partition; missing ones are 0."""
    return {
        topic: [*start.get(topic, ()), *[0] * (len(parts) - len(start.get(topic, ())))]
        for topic, parts in ends.items()
    }


def progress_to(ends: Ends, received: Ends) -> Iterator[ReadProgress]:
    """Yield progress for each partition in which no record lies just before the end.

    `received`: the offsets after the last records that the reader has received.
    """
    for topic, parts in ends.items():
        for partition, end in enumerate(parts):
            if end > received[topic][partition]:
                yield ReadProgress(topic, partition, end)


def next_starts(start: Ends, ends: Ends) -> dict[str, list[int]]:
    """Return the next start of a tail by topic: the ends, or the start if it lies past them."""
    return {
        topic: _next_starts(start.get(topic, ()), topic_ends) for topic, topic_ends in ends.items()
    }


def _next_starts(at: Iterable[int], ends: Iterable[int]) -> list[int]:
    """Return the next start per partition: the end, or the start if it lies past it."""
    topic_ends = list(ends)
    for partition, offset in enumerate(at):
        topic_ends[partition] = max(offset, topic_ends[partition])
    return topic_ends
