"""Waiting for new records: a counter that wakes, and the tail that every log of ours shares."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Protocol

from controlplane.core.entry import Batch
from controlplane.logs.log import Ends, ReadableLog


class Changes:
    """Counts changes of a log; whoever waits for the next one is woken by it.

    All in one event loop. The count is taken *before* one reads, so a change meanwhile is not lost.
    """

    def __init__(self) -> None:
        self.count = 0
        self._next = asyncio.Event()

    def tell(self) -> None:
        """Something has changed, or may have."""
        self.count += 1
        self._next.set()
        self._next = asyncio.Event()

    async def beyond(self, seen: int) -> None:
        """Return as soon as the count is not `seen` any more."""
        while self.count == seen:
            await self._next.wait()


class Watched(Protocol):
    """What can be waited for: `Changes`, or something that also looks for those of others."""

    @property
    def count(self) -> int:
        """How many changes there have been so far."""

    async def beyond(self, seen: int) -> None:
        """Return as soon as the count is not `seen` any more."""


async def follow(
    log: ReadableLog, topics: Iterable[str], start: Ends, changes: Watched
) -> AsyncIterator[Batch]:
    """Read to the end, wait for a change, read on: without end."""
    names, at = tuple(topics), start
    while True:
        seen = changes.count
        ends = await log.ends(names)
        async for batch in log.read(names, at, ends):
            yield batch
        at = further(at, ends)
        await changes.beyond(seen)


def further(start: Ends, ends: Ends) -> dict[str, list[int]]:
    """Where to go on: the ends that were read to, unless the start lay behind them."""
    return {topic: _further(start.get(topic, ()), upto) for topic, upto in ends.items()}


def _further(at: Iterable[int], ends: Iterable[int]) -> list[int]:
    """Where to go on: the end that was read to, unless the start lies behind it."""
    upto = list(ends)
    for partition, offset in enumerate(at):
        upto[partition] = max(offset, upto[partition])
    return upto
