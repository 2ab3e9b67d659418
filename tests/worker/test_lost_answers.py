"""Search of a log for a transaction whose answer was lost."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any

import pytest

from controlplane.logs.log import Record
from controlplane.logs.memory import MemoryLog
from controlplane.worker.data_topics import embedded_producer
from controlplane.worker.data_topics.embedded_producer import appended_since


def records_of(*values: str, time_ms: int = 1) -> list[Record]:
    """Records of one partition with these values."""
    return [Record("t", 0, time_ms, None, value.encode()) for value in values]


async def offsets_of_batch(present: Sequence[Record], batch: Sequence[Record]) -> list[int] | None:
    """Offsets of a batch in a log with these records; None: the log lacks the batch."""
    log = MemoryLog()
    await log.create_topic("t", 1)
    starts = await log.ends(["t"])
    await log.append(present)
    positions = await appended_since(log, starts, batch)
    return None if positions is None else [position.offset for position in positions]


async def test_a_batch_is_found_among_similar_records() -> None:
    """The records of a batch are contiguous; a part of it is no match."""
    batch = records_of("a", "b")
    assert await offsets_of_batch(records_of("a", "c", "a", "b", "a", "b"), batch) == [2, 3]
    assert await offsets_of_batch(records_of("b", "a"), batch) is None
    assert await offsets_of_batch(records_of("a", "b", time_ms=2), batch) is None
    assert await offsets_of_batch([], batch) is None


async def turns_of_others(work: Awaitable[Any]) -> int:
    """Number of turns that another task gets while this work is done."""
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    turning = asyncio.create_task(turn())
    await work
    turning.cancel()
    await asyncio.gather(turning, return_exceptions=True)
    return turns


async def test_a_search_among_many_records_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each record of another task is compared once, and other tasks run meanwhile."""
    compared = 0
    content_of = embedded_producer._content

    def counted(record: Any) -> Any:
        nonlocal compared
        compared += 1
        return content_of(record)

    monkeypatch.setattr(embedded_producer, "_content", counted)
    log = MemoryLog()
    await log.create_topic("t", 1)
    starts = await log.ends(["t"])
    await log.append(records_of(*map(str, range(20_000))))
    batch = records_of(*map(str, range(100)), time_ms=2)

    async def read() -> None:
        async for part in log.read(starts, starts):
            part.entries()

    while_reading = await turns_of_others(read())
    while_searching = await turns_of_others(appended_since(log, starts, batch))
    assert compared < 21_000
    assert while_searching > while_reading + 10
