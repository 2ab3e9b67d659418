"""Wake-up of tails: a counter of changes, and a tail for logs without one of their own."""

import asyncio
from collections.abc import AsyncIterator, Iterable

from controlplane.core.entry import Batch
from controlplane.core.order import Ends
from controlplane.logs.log import ReadableLog
from controlplane.logs.read_progress import progress_to, read_offsets


class ChangeCounter:
    """Counts changes of a log and wakes the tasks that wait for the next one.

    Use it in one event loop. A reader takes the count *before* it reads: then a change during the
    read is not lost.
    """

    def __init__(self) -> None:
        self.count = 0
        self._next = asyncio.Event()

    def tell(self) -> None:
        """Report a change, or a possible change."""
        self.count += 1
        self._next.set()
        self._next = asyncio.Event()

    async def beyond(self, seen: int) -> None:
        """Wait until the count differs from `seen`."""
        while self.count == seen:
            await self._next.wait()


async def follow(
    log: ReadableLog, topics: Iterable[str], start: Ends, changes: ChangeCounter
) -> AsyncIterator[Batch]:
    """Read to the end, wait for a change, read on; never ends."""
    names, at = tuple(topics), start
    while True:
        seen = changes.count
        ends = await log.ends(names)
        read = read_offsets(at, ends)
        async for batch in log.read(names, at, ends):
            yield batch
            read[batch.topic][batch.partition] = batch.end
        for progress in progress_to(ends, read):
            yield progress
        at = further(at, ends)
        await changes.beyond(seen)


def further(start: Ends, ends: Ends) -> dict[str, list[int]]:
    """Return the next start of a tail by topic: the ends, or the start if it lies behind them."""
    return {topic: _further(start.get(topic, ()), upto) for topic, upto in ends.items()}


def _further(at: Iterable[int], ends: Iterable[int]) -> list[int]:
    """Return the next start per partition: the end, or the start if it lies behind it."""
    upto = list(ends)
    for partition, offset in enumerate(at):
        upto[partition] = max(offset, upto[partition])
    return upto
