"""Polls of a source whose `read` waits after it has yielded records."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import pytest

from controlplane.connect import Source
from controlplane.connect.source import SourceRun
from controlplane.worker.drivers import source_drivers
from controlplane.worker.drivers.author_thread import AuthorThread
from controlplane.worker.drivers.source_context import TaskContext
from controlplane.worker.drivers.source_drivers import GeneratorDriver
from tests.patience import PATIENCE_S

LONGER_S = 5 * source_drivers.GATHER_S


class PulsingSource(Source):
    """Source that yields a record for each pulse; its `read` waits between them."""

    def __init__(self) -> None:
        self.pulses: asyncio.Queue[int] = asyncio.Queue()

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Yield records as pulses come."""
        while True:
            yield task.record(str(await self.pulses.get()), topic="t")


async def test_a_poll_waits_for_the_next_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a first record, a poll returns with the next one, and not at once without records."""
    monkeypatch.setattr(source_drivers, "IDLE_SLICE_S", PATIENCE_S)
    thread, source = AuthorThread("author"), PulsingSource()
    driver = GeneratorDriver(source, cast(TaskContext, None), thread)
    await driver.start()
    try:
        await thread.call(source.pulses.put, 1)
        assert values_of(await driver.poll()) == ["1"]
        poll = asyncio.ensure_future(driver.poll())
        await asyncio.wait([poll], timeout=LONGER_S)
        assert not poll.done()
        await thread.call(source.pulses.put, 2)
        assert values_of(await poll) == ["2"]
        await driver.stop()
    finally:
        thread.abandon()


def values_of(items: Sequence[Any]) -> list[str]:
    """Values of the records of a poll."""
    return [item.record.value for item in items]
