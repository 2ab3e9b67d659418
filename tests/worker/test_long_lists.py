"""A list of very many records: the event loop serves other tasks meanwhile."""

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from controlplane import event_loop
from controlplane.connect import Source, key
from controlplane.connect.source import SourceRun
from controlplane.core.commands import CreateConnector
from controlplane.core.context import DecisionSettings
from controlplane.core.plan import Draft
from controlplane.logs.log import Log
from controlplane.plane import Settings
from controlplane.worker.data_topics.clients import ProducerFailure
from controlplane.worker.data_topics.embedded_producer import LogProducer
from controlplane.worker.offsets import source_offsets
from controlplane.worker.offsets.submitted_records import SubmittedRecord, SubmittedRecords
from controlplane.worker.settings import ProducerLimits
from controlplane.worker.tasks import at_least_once
from controlplane.worker.tasks.exactly_once import ExactlyOnce
from controlplane.worker.worker import ConnectWorker
from tests.worker.worker_fixture import QUICK, config_of, offsets, running, until

pytestmark = pytest.mark.slow

COUNTS = [10_000, pytest.param(1_000_000, marks=pytest.mark.prove)]

STEPS: list[tuple[Any, str]] = [
    (SubmittedRecords, "submit"),
    (SubmittedRecord, "ack"),
    (ExactlyOnce, "_add"),
    (LogProducer, "_placed"),
    (LogProducer, "_placed_offset"),
    (source_offsets, "plain_fields"),
]
"""Functions that are called for each record or offset, in the event loop of the worker."""


class LongList(Source):
    """Yields one list with a record for each of many source partitions."""

    config = (key("count", "INT"),)

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Yield the list, then nothing."""
        yield [
            task.record(str(number), {"p": number}, {"at": 1}, topic="long")
            for number in range(int(task.config["count"]))
        ]
        while True:
            yield task.idle(0.05)


class Turns:
    """Counts the steps between two turns of another task."""

    def __init__(self) -> None:
        self.most: Counter[str] = Counter()
        """Largest number of calls between two turns, by function."""
        self._now: Counter[str] = Counter()

    def counted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with a count of its calls."""

        def call(*arguments: Any) -> Any:
            self._now[name] += 1
            return function(*arguments)

        return call

    async def take(self) -> None:
        """Take a turn whenever the loop gives one."""
        while True:
            self.most |= self._now
            self._now.clear()
            await asyncio.sleep(0)


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    """Counts of all steps; slices end by their number of items alone, not by a clock."""
    monkeypatch.setattr(event_loop, "SLICE_S", math.inf)
    counts = Turns()
    for owner, name in STEPS:
        monkeypatch.setattr(owner, name, counts.counted(name, getattr(owner, name)))
    return counts


@asynccontextmanager
async def worker_of_list(
    *, exactly_once: bool, log: Log | None = None
) -> AsyncIterator[ConnectWorker]:
    """Run a worker of `LongList`, by default on a log in memory."""
    runtime = msgspec.structs.replace(
        QUICK, exactly_once=exactly_once, offset_flush_timeout_ms=60_000
    )
    settings = Settings(
        exactly_once=exactly_once, worker=DecisionSettings(exactly_once_source=exactly_once)
    )
    async with running(LongList, runtime=runtime, settings=settings, log=log) as worker:
        yield worker


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("exactly_once", [False, True])
async def test_other_tasks_get_turns(turns: Turns, count: int, *, exactly_once: bool) -> None:
    """Another task gets a turn after at most 1,000 records, or a batch of acknowledgements."""
    async with worker_of_list(exactly_once=exactly_once) as worker:
        log, topic = worker.plane.log, worker.plane.state.topics.offsets
        taking = asyncio.create_task(turns.take())
        await worker.plane.execute(CreateConnector("long", config_of(LongList, count=str(count))))
        while sum((await log.ends([topic]))[topic]) < count:
            assert not taking.done()
            await asyncio.sleep(0.01)
        taking.cancel()
        assert sum((await log.ends(["long"]))["long"]) == count
    steps = {name for _, name in STEPS} - ({"submit", "ack"} if exactly_once else {"_add"})
    assert {*turns.most} == steps
    batch = ProducerLimits().batch_records  # its records are acknowledged in one turn
    bounds = dict.fromkeys(steps, event_loop.SLICE_ITEMS) | {"ack": batch, "plain_fields": 2_000}
    assert {name: most for name, most in turns.most.items() if most > bounds[name]} == {}


async def test_a_large_commit_is_several_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit of very many offsets is several writes; a refused one is repeated alone."""
    monkeypatch.setattr(at_least_once, "COMMIT_OFFSETS", 10)
    write, writes = LogProducer.write_offsets, list[Sequence[Draft]]()

    async def failing_once(producer: LogProducer, drafts: Sequence[Draft]) -> None:
        if drafts:
            writes.append(drafts)
        if drafts and len(writes) == 2:
            raise ProducerFailure("the second write")
        await write(producer, drafts)

    monkeypatch.setattr(LogProducer, "write_offsets", failing_once)
    async with worker_of_list(exactly_once=False) as worker:
        await worker.plane.execute(CreateConnector("long", config_of(LongList, count="25")))
        await until(lambda: len(offsets(worker, "long")) == 25)
    assert [len(drafts) for drafts in writes] == [10, 10, 5, 10]
    assert writes[3] == writes[1]
