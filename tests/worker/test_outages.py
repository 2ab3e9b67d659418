"""Outages of the log, idle tasks, and restarts concurrent with a deletion."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import msgspec
import pytest

from controlplane.connect import ConnectError, Sink, SinkRecord, SinkTaskContext, Source, key
from controlplane.connect.source import SourceRun
from controlplane.controller.log_groups import LogGroups
from controlplane.core.commands import CreateConnector, DeleteConnector, PauseConnector
from controlplane.core.order import Ends
from controlplane.core.plan import Draft
from controlplane.logs.kafka.protocol.errors import BatchTooLarge
from controlplane.logs.log import LogUnavailable, Record
from controlplane.logs.memory import MemoryLog
from controlplane.worker.data_topics.clients import ProducerFailure, ProducerRecord
from controlplane.worker.data_topics.embedded_clients import LogClients
from controlplane.worker.data_topics.embedded_producer import LogProducer, LogTopics, WrittenLog
from controlplane.worker.data_topics.kafka_offsets import ClaimedOffsetWriter
from controlplane.worker.data_topics.kafka_producer import RecordPlacer
from controlplane.worker.data_topics.record_queue import closing_producer
from controlplane.worker.settings import ProducerLimits
from controlplane.worker.task_identity import TaskIdentity
from tests.laws.delivery.simulated_clock import simulated
from tests.worker.numbered_records import CollectingSink, CountingSource
from tests.worker.worker_fixture import (
    ABANDONING,
    QUICK,
    committed_offsets,
    config_of,
    produce,
    running,
    until,
    until_state,
    until_values,
)

TIMED = ProducerLimits(delivery_timeout_ms=1_000, retry_first_ms=1, retry_last_ms=10)


class OutageLog(MemoryLog):
    """Log that can be unavailable to readers of topics and ends."""

    def __init__(self) -> None:
        super().__init__()
        self.away = False
        self.refused = 0

    async def topics(self) -> Mapping[str, int]:
        """Return the topics, unless the log is away."""
        self._check_present()
        return await super().topics()

    async def ends(self, topics: Iterable[str]) -> Ends:
        """Return the ends, unless the log is away."""
        self._check_present()
        return await super().ends(topics)

    def _check_present(self) -> None:
        if self.away:
            self.refused += 1
            raise LogUnavailable("away")


async def test_a_producer_outlives_an_outage() -> None:
    """A record waits until the log can list the partitions of its topic."""
    log = OutageLog()
    epoch = await log.claim()
    groups = LogGroups(log, lambda: epoch, lambda: 1)
    clients = LogClients(
        WrittenLog(log, lambda: epoch, lambda: 1), groups, ProducerLimits(retry_first_ms=1)
    )
    async with clients.producer(TaskIdentity("s", 0), {}) as producer:
        log.away = True
        (acknowledged,) = await producer.send([ProducerRecord("new", None, b"v")])
        await until(lambda: log.refused)
        log.away = False
        assert (await acknowledged).topic == "new"


class AppendOutageLog(OutageLog):
    """Log that can be unavailable to writers, too."""

    async def append(self, records: Sequence[Record], epoch: int | None = None) -> Any:
        """Append, unless the log is away."""
        self._check_present()
        return await super().append(records, epoch)


@asynccontextmanager
async def producer_of(log: MemoryLog, limits: ProducerLimits) -> AsyncIterator[LogProducer]:
    """Run a producer with these limits."""
    epoch = await log.claim()
    written = WrittenLog(log, lambda: epoch, lambda: 1)
    producer = LogProducer(written, LogTopics(log, 1), limits)
    async with closing_producer(producer):
        yield producer


@pytest.mark.parametrize("topic", ["present", "new"])
def test_the_records_of_a_batch_share_one_delivery_timeout(topic: str) -> None:
    """All records of a batch fail together: `delivery.timeout.ms` counts from their `send`."""

    async def life() -> None:
        log = AppendOutageLog()
        await log.create_topic("present", 1)
        async with producer_of(log, TIMED) as producer:
            log.away = True
            futures = await producer.send([ProducerRecord(topic, None, b"v")] * 20)
            failures = await asyncio.gather(*futures, return_exceptions=True)
        assert {str(failure) for failure in failures} == {"away"}
        assert all(isinstance(failure, ProducerFailure) for failure in failures)
        assert asyncio.get_running_loop().time() <= TIMED.delivery_timeout_ms / 1_000

    simulated(life())


def test_a_later_record_has_its_own_delivery_timeout() -> None:
    """In one batch, the older record fails during the outage, and the newer one arrives after."""

    async def life() -> None:
        log = AppendOutageLog()
        await log.create_topic("t", 1)
        async with producer_of(log, TIMED) as producer:
            log.away = True
            (first,) = await producer.send([ProducerRecord("t", None, b"1")])
            await until(lambda: log.refused)  # the next two records are in a batch of their own
            (older,) = await producer.send([ProducerRecord("t", None, b"2")])
            await asyncio.sleep(0.6)
            (newer,) = await producer.send([ProducerRecord("t", None, b"3")])
            await asyncio.wait([first, older])
            log.away = False
            assert (await newer).offset == 0
        assert [str(late.exception()) for late in (first, older)] == ["away", "away"]

    simulated(life())


class CountedSink(Sink):
    """Sink that counts its calls of `put`."""

    puts = 0

    def put(self, task: SinkTaskContext, records: Sequence[SinkRecord]) -> None:
        """Count one call of `put`."""
        del task, records
        CountedSink.puts += 1


async def test_an_idle_sink_rests() -> None:
    """The worker calls an idle sink at its poll interval, not in a busy loop."""
    CountedSink.puts = 0
    runtime = msgspec.structs.replace(QUICK, offset_flush_interval_ms=60_000)
    async with running(CountedSink, runtime=runtime) as worker:
        await worker.plane.execute(CreateConnector("s", config_of(CountedSink, topics="t")))
        await until_state(worker, "s", "RUNNING", "RUNNING")
        await until(lambda: CountedSink.puts >= 2)
        before = CountedSink.puts
        await asyncio.sleep(0.2)
        assert CountedSink.puts - before <= 2


async def test_a_sink_outlives_an_outage() -> None:
    """A sink gets all records after an outage of its reads."""
    log = OutageLog()
    async with running(CollectingSink, log=log) as worker:
        await produce(log, "t", "a")
        await worker.plane.execute(CreateConnector("s", config_of(CollectingSink, topics="t")))
        await until(lambda: committed_offsets(worker, "connect-s") == {("t", 0): 1})
        log.away = True
        await until(lambda: log.refused)
        log.away = False
        await produce(log, "t", "b")
        await until(lambda: committed_offsets(worker, "connect-s") == {("t", 0): 2})


class OffsetsOutageLog(MemoryLog):
    """Log whose first few `ends` fail if they ask for the offsets topic only."""

    refusals = 3

    async def ends(self, topics: Iterable[str]) -> Ends:
        """Return the ends of topics."""
        topics = {*topics}
        if topics == {"connect-offsets"} and self.refusals:
            self.refusals -= 1
            raise LogUnavailable("away")
        return await super().ends(topics)


async def test_a_start_outlives_an_outage() -> None:
    """Tasks that start while their offsets cannot be read wait for the log, as running tasks do."""
    log = OffsetsOutageLog()
    async with running(CountingSource, log=log) as worker:
        await worker.plane.execute(CreateConnector("c", config_of(CountingSource, topic="t")))
        await until_state(worker, "c", "RUNNING", "RUNNING")
        assert log.refusals == 0


class SleepySource(Source):
    """Source that rests for ten minutes after one record."""

    config = (key("topic"),)

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Yield one record, then rest for ten minutes."""
        yield task.record("1", {"p": 1}, {"at": 1})
        yield task.idle(600)


class BlockedSource(Source):
    """Yields a record, then blocks its thread."""

    config = (key("topic"),)

    def read(self, task: SourceRun) -> Iterator[Any]:
        """Yield, then block until the test ends."""
        yield task.record("1", {"p": 1}, {"at": 1})
        blocked.wait()
        yield task.idle()


blocked = threading.Event()


async def test_a_blocking_generator_delays_nothing() -> None:
    """The generator's records arrive; the worker's end abandons it."""
    blocked.clear()
    try:
        async with asyncio.timeout(120):
            async with running(BlockedSource, runtime=ABANDONING) as worker:
                plane = worker.plane
                await plane.execute(CreateConnector("c", config_of(BlockedSource, topic="t")))
                await until_values(plane.log, "t", [b"1"])
        names = {task.get_name() for task in asyncio.all_tasks()}
        assert "task c-0" not in names
    finally:
        blocked.set()


async def test_a_long_idle_delays_no_pause() -> None:
    """A pause takes effect within a slice of the idle time."""
    async with running(SleepySource) as worker:
        plane = worker.plane
        await plane.execute(CreateConnector("c", config_of(SleepySource, topic="t")))
        await until_values(plane.log, "t", [b"1"])
        await until_state(worker, "c", "RUNNING", "RUNNING")
        await plane.execute(PauseConnector("c"))
        await until_state(worker, "c", "PAUSED", "PAUSED")


async def test_a_restart_concurrent_with_a_deletion_is_answered() -> None:
    """The caller of a restart gets an answer, although the connector is deleted."""
    async with running(CountingSource) as worker:
        plane = worker.plane
        await plane.execute(CreateConnector("c", config_of(CountingSource, topic="t")))
        await until_state(worker, "c", "RUNNING", "RUNNING")
        actor = worker._actors["c"]
        actor.assign(None)
        with pytest.raises(ConnectError, match="Connector c was stopped"):
            await actor.restart((None,))
        with pytest.raises(ConnectError, match="Connector c was stopped"):
            await actor.restart((None,))
        await plane.execute(DeleteConnector("c"))


class OnePartitionAway(MemoryLog):
    """Log that refuses partition 0 for its sizes, and lacks partition 1 once."""

    def __init__(self) -> None:
        super().__init__()
        self.attempts: list[int] = []
        """Partitions of the appends."""

    async def append(self, records: Sequence[Record], epoch: int | None = None) -> Any:
        """Refuse or append."""
        partition = records[0].partition
        self.attempts.append(partition)
        if partition == 0:
            raise BatchTooLarge("larger than its max.message.bytes")
        if self.attempts.count(1) == 1:
            raise LogUnavailable("away")
        return await super().append(records, epoch)


class PlacedAsNamed:
    """Stand-in for `RecordPlacer` that takes the partition of each draft."""

    async def placed_offset(self, draft: Draft) -> Record:
        """Return the record of an offset."""
        assert draft.partition is not None
        return Record(draft.topic, draft.partition, 1, draft.key, draft.value)


async def test_an_offset_that_is_too_large_hides_no_outage() -> None:
    """The offsets of another partition, which is away at the same time, are appended again."""
    log = OnePartitionAway()
    await log.create_topic("o", 2)
    writer = ClaimedOffsetWriter(log, await log.claim(), cast(RecordPlacer, PlacedAsNamed()))
    with pytest.raises(ProducerFailure, match=r"larger than its max\.message\.bytes"):
        await writer.write_offsets([Draft("o", b"k", b"large", 0), Draft("o", b"k", b"small", 1)])
    assert log.attempts == [0, 1, 1]
    assert await log.ends(["o"]) == {"o": [0, 1]}
