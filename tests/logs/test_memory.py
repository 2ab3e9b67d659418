"""The memory log keeps the contract."""

import asyncio

import pytest

from controlplane.event_loop import SLICE_ITEMS
from controlplane.logs import memory
from controlplane.logs.memory import MemoryLog
from tests.logs.contract import make_topics, record
from tests.logs.embedded_contract import EmbeddedContract
from tests.logs.reading_contract import everything


class TestMemoryLog(EmbeddedContract):
    """The contract of embedded logs, on a memory log."""

    @pytest.fixture
    def log(self) -> MemoryLog:
        """An empty log in memory."""
        return MemoryLog()


async def test_a_long_partition_comes_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long partition comes in several batches, so that a reader lets others run."""
    monkeypatch.setattr(memory, "BATCH_ENTRIES", 3)
    log = MemoryLog()
    await make_topics(log)
    await log.append([record("config", 0, str(n)) for n in range(8)])
    assert [len(batch) async for batch in log.read(["config"])] == [3, 3, 2]
    assert len(await everything(log)) == 8


async def test_a_large_append_lets_other_tasks_run() -> None:
    """Other tasks get turns during an append of many records, and see none or all of them."""
    log, count = MemoryLog(), 3 * SLICE_ITEMS
    await make_topics(log)
    appending = asyncio.create_task(log.append([record("config", 0, str(n)) for n in range(count)]))
    ends = []
    while not appending.done():
        await asyncio.sleep(0)
        ends.append((await log.ends(["config"]))["config"][0])
    assert ends[:2] == [0, 0]
    assert {*ends} == {0, count}


async def test_a_marker_takes_an_offset() -> None:
    """A transaction marker takes an offset that has no entry."""
    log = MemoryLog()
    await make_topics(log)
    await log.append([record("config", 0, "a")])
    assert await log.add_marker("config", 0) == 1
    assert (await log.append([record("config", 0, "b")]))[0].offset == 2
    assert [entry.offset for entry in await everything(log)] == [0, 2]
    assert (await log.ends(["config"]))["config"] == [3]
