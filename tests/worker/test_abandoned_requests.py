"""Callers and connections of connectors and tasks that are abandoned."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import pytest

from controlplane.connect import Source
from controlplane.connect.errors import ConnectError
from controlplane.connect.source import SourceRun
from controlplane.core.commands import CreateConnector, StopConnector
from controlplane.logs.log import Record
from controlplane.logs.memory import MemoryLog
from controlplane.worker.data_topics.client_settings import ProducerSettings
from controlplane.worker.data_topics.clients import ProducerFailure, ProducerRecord
from controlplane.worker.data_topics.kafka_producer import IdempotentTaskProducer
from controlplane.worker.data_topics.record_queue import RecordQueue
from controlplane.worker.lifecycle.connector_actor import ConnectorActor
from tests.patience import PATIENCE_S
from tests.worker.worker_fixture import config_of, offsets, running, until, until_state


async def test_a_restart_of_an_abandoned_actor_is_answered() -> None:
    """The caller gets an error although the actor is abandoned before its first step."""
    async with running() as worker:
        actors: list[ConnectorActor] = []

        def abandon() -> None:
            actors[0].abandon()

        asyncio.get_running_loop().call_soon(abandon)
        actors.append(ConnectorActor("c", worker._around))  # its first step follows `abandon`
        with pytest.raises(ConnectError, match="Connector c was stopped"):
            async with asyncio.timeout(PATIENCE_S):
                await actors[0].restart([None])


class HangingAppends:
    """Log connection whose appends never end; it notes its close."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.closed = False

    async def append(self, *_: Any) -> Any:
        """Note the call, and never return."""
        self.begun.set()
        await asyncio.Event().wait()

    async def close(self) -> None:
        """Note that the producer is closed."""
        self.closed = True


class OnePlace:
    """Stand-in for `RecordPlacer` that leaves records as they are."""

    def next_turn(self) -> None:
        """Have nothing to prepare."""

    async def placed(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record as it is."""
        return record


async def test_an_abandoned_close_leaves_no_connection() -> None:
    """A task that is abandoned while its producer sends the rest leaves no connection open."""
    appends = HangingAppends()
    parts: tuple[Any, ...] = (appends, OnePlace(), None, None, ProducerSettings())
    producer = IdempotentTaskProducer(*parts)
    await producer.send([ProducerRecord("t", None, None)])
    await appends.begun.wait()
    closing = asyncio.create_task(producer.close())
    await asyncio.sleep(0.01)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert appends.closed


async def test_a_dropped_queue_that_lingers_leaves_no_task() -> None:
    """Dropping a queue that waits for further records before a batch leaves no task behind."""
    before = asyncio.all_tasks()

    async def refuse(_: Any) -> None:
        raise AssertionError("a batch was sent")

    queue = RecordQueue(refuse, queued=10, queued_bytes=10, batch=10, linger_ms=1_000 * PATIENCE_S)
    await queue.put([ProducerRecord("t", None, None)])
    await until(lambda: len(asyncio.all_tasks()) == len(before) + 2)  # the sender lingers
    await queue.drop()
    await until(lambda: asyncio.all_tasks() == before)


@pytest.mark.parametrize("end", [RecordQueue.drop, partial(RecordQueue.close, timeout_s=0)])
async def test_an_ended_queue_refuses_records(
    end: Callable[[RecordQueue], Awaitable[None]],
) -> None:
    """A caller that was left behind does not wait without end, also if it waits for room."""
    sending = asyncio.Event()

    async def hang(_: Any) -> None:
        sending.set()
        await asyncio.Event().wait()

    queue = RecordQueue(hang, queued=1, queued_bytes=1, batch=1)
    records = [ProducerRecord("t", None, None)]
    async with asyncio.timeout(PATIENCE_S):
        queued = await queue.put(records)
        await sending.wait()
        queued = [*queued, *await queue.put(records)]
        waiting = asyncio.create_task(queue.put(records))
        await asyncio.sleep(0)
        await end(queue)
        for refused in (waiting, queue.put(records)):
            with pytest.raises(ProducerFailure, match="The producer of the task is closed"):
                await refused
    assert all(acknowledged.cancelled() for acknowledged in queued)


class HeldTopicLog(MemoryLog):
    """Log whose appends to the topic `t` wait."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = asyncio.Event()
        self.released = asyncio.Event()

    async def append(self, records: Sequence[Record], epoch: int | None = None) -> Any:
        """Append records of `t` after the release."""
        if records[0].topic == "t":
            self.begun.set()
            await self.released.wait()
        return await super().append(records, epoch)


class WritingSource(Source):
    """Source that writes one record."""

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Yield the record, then wait."""
        yield task.record("late", {"p": 1}, {"at": 1}, topic="t")
        while True:
            yield task.idle(0.01)


async def test_a_task_that_is_abandoned_in_its_stop_writes_nothing() -> None:
    """A task whose worker is replaced while the task stops sends no record and commits nothing."""
    log = HeldTopicLog()
    async with running(WritingSource, log=log) as worker:
        await worker.plane.execute(CreateConnector("s", config_of(WritingSource)))
        await log.begun.wait()
        await worker.plane.execute(StopConnector("s"))
        await until_state(worker, "s", "STOPPED", "RUNNING")  # the task waits for its record
        worker._abandon()
        await asyncio.sleep(0.01)
        log.released.set()
        await asyncio.sleep(0.05)
        assert await log.ends(["t"]) == {"t": [0]}
        assert not offsets(worker, "s")
