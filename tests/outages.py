"""Logs with outages, and a logger that keeps the notices about them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any

from controlplane.core.entry import Batch
from controlplane.core.order import Ends
from controlplane.logs.log import LogError, LogUnavailable, ReadableLog
from tests.patience import PATIENCE_S


class Cable:
    """A log behind a cable that can be cut, and connected to another log."""

    def __init__(self, log: ReadableLog) -> None:
        self.log = log
        self.cut = asyncio.Event()

    def _check(self) -> None:
        if self.cut.is_set():
            raise LogUnavailable("the cable is cut: mend it")

    async def topics(self) -> Mapping[str, int]:
        self._check()
        return await self.log.topics()

    async def starts(self, topics: Iterable[str]) -> Ends:
        self._check()
        return await self.log.starts(topics)

    async def ends(self, topics: Iterable[str]) -> Ends:
        self._check()
        return await self.log.ends(topics)

    async def read(
        self, topics: Iterable[str], start: Ends | None = None, stop: Ends | None = None
    ) -> AsyncIterator[Batch]:
        self._check()
        async for batch in self.log.read(topics, start, stop):
            yield batch

    async def tail(self, topics: Iterable[str], start: Ends) -> AsyncIterator[Batch]:
        self._check()
        async for batch in self.log.tail(topics, start):
            self._check()
            yield batch

    async def close(self) -> None:
        await self.log.close()


class GatedLog(Cable):
    """A log whose reads wait until `may_be_read` is set; a log that replaces it does not wait."""

    def __init__(self, log: ReadableLog) -> None:
        super().__init__(log)
        self._gated = log
        self.may_be_read = asyncio.Event()
        self.may_be_read.set()
        self.begun = 0

    async def read(
        self, topics: Iterable[str], start: Ends | None = None, stop: Ends | None = None
    ) -> AsyncIterator[Batch]:
        self.begun += 1
        log = self.log
        if log is self._gated:
            await self.may_be_read.wait()
        self._check()
        async for batch in log.read(topics, start, stop):
            yield batch


class FarAway(Cable):
    """A log whose tails wait out an outage by themselves, like those of a cluster."""

    interruption: LogError | None = None


class FollowerNotices:
    """Logger that keeps a follower's notices."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.failed, self.back = asyncio.Event(), asyncio.Event()

    def info(self, event: str, **facts: Any) -> None:
        self.events.append(" ".join([event, *facts]))
        self.back.set()

    def warning(self, event: str, **facts: Any) -> None:
        self.events.append(f"{event}: {facts['reason']}")
        self.failed.set()


async def until(happened: Callable[[], bool]) -> None:
    """Wait for a condition without a notification."""
    async with asyncio.timeout(PATIENCE_S):
        while not happened():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
