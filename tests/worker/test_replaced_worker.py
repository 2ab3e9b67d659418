"""A worker whose log another process has claimed."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controlplane.connect import Sink, SinkRecord, Source
from controlplane.connect.records import RecordMetadata
from controlplane.connect.sink import SinkTaskContext
from controlplane.connect.source import SourceRun
from controlplane.core.commands import CreateConnector
from controlplane.logs.log import Fenced, Log, Record
from controlplane.logs.memory import MemoryLog
from controlplane.logs.sqlite import SqliteLog
from controlplane.worker.data_topics.clients import ProducerRecord
from controlplane.worker.data_topics.embedded_producer import LogProducer, LogTopics, WrittenLog
from controlplane.worker.data_topics.record_queue import closing_producer
from controlplane.worker.settings import ProducerLimits
from controlplane.worker.worker import ConnectWorker
from tests.patience import PATIENCE_S
from tests.worker.worker_fixture import QUICK, config_of, running, until, until_state

NEVER_MS = 3_600_000
stopped = asyncio.Event()


class QuietSource(Source):
    """Source that writes nothing, so that its worker learns of the newer one without a write."""

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Wait, and set `stopped` at the end."""
        try:
            while True:
                yield task.idle(0.01)
        finally:
            stopped.set()


class BusySource(Source):
    """Source that writes numbers without a pause."""

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Yield numbers, and set `stopped` at the end."""
        at = 0
        try:
            while True:
                at += 1
                yield [task.record(str(at), {"p": 1}, {"at": at}, topic="t")]
        finally:
            stopped.set()


class CountingSink(Sink):
    """Sink that counts the calls with records."""

    calls = 0
    ended = False

    def put(self, task: SinkTaskContext, records: Sequence[SinkRecord]) -> None:
        """Count the call."""
        del task
        if records:
            CountingSink.calls += 1

    def stop(self, task: SinkTaskContext) -> None:
        """Note the end."""
        del task
        CountingSink.ended = True


async def until_abandoned(worker: ConnectWorker) -> None:
    """Wait until the source has ended and the plane knows of the newer writer."""
    await until(lambda: stopped.is_set() and worker.plane.failure)
    await until_state(worker, "s", "RUNNING", "RUNNING")


async def created(worker: ConnectWorker, source: type[Source]) -> None:
    """Create a source, and wait until it runs."""
    stopped.clear()
    await worker.plane.execute(CreateConnector("s", config_of(source)))
    await until_state(worker, "s", "RUNNING", "RUNNING")


async def test_a_worker_probes_its_log_at_an_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the log does not report the claim, a probe finds it: the task ends without a status."""
    monkeypatch.setattr(SqliteLog, "until_claimed", lambda *_: asyncio.Event().wait())
    log = await SqliteLog.open(tmp_path / "state.db")
    runtime = msgspec.structs.replace(QUICK, claim_probe_ms=10)
    async with running(QuietSource, log=log, runtime=runtime) as worker:
        await created(worker, QuietSource)
        other = await SqliteLog.open(tmp_path / "state.db")
        await other.claim()
        await until_abandoned(worker)
        await other.close()
    await log.close()


async def test_a_claim_is_noticed_in_the_file(tmp_path: Path) -> None:
    """Without a probe, the file reports the claim: the task ends without a status."""
    log = await SqliteLog.open(tmp_path / "state.db")
    runtime = msgspec.structs.replace(QUICK, claim_probe_ms=NEVER_MS)
    async with running(QuietSource, log=log, runtime=runtime) as worker:
        await created(worker, QuietSource)
        other = await SqliteLog.open(tmp_path / "state.db")
        await other.claim()
        await until_abandoned(worker)
        await other.close()
    await log.close()


@pytest.mark.slow
async def test_nothing_is_written_after_a_claim(tmp_path: Path) -> None:
    """After the claim, the worker writes no record, offset or status, and calls no sink.

    The other process appends records that the sink would get.
    """
    log = await SqliteLog.open(tmp_path / "state.db")
    runtime = msgspec.structs.replace(QUICK, claim_probe_ms=NEVER_MS)
    async with running(BusySource, CountingSink, log=log, runtime=runtime) as worker:
        await worker.plane.execute(CreateConnector("k", config_of(CountingSink, topics="t")))
        await created(worker, BusySource)
        await until(lambda: CountingSink.calls > 3)
        other = await SqliteLog.open(tmp_path / "state.db")
        await other.claim()
        ends = await _all_ends(other)
        await until_abandoned(worker)
        assert await _all_ends(other) == ends
        await until(lambda: CountingSink.ended)
        calls = CountingSink.calls
        await other.append([Record("t", 0, 1_000, None, b"newer")])
        await worker.plane.follower.wait_for_records([])
        await asyncio.sleep(0.1)
        assert CountingSink.calls == calls
        await other.close()
    await log.close()


async def _all_ends(log: Log) -> Any:
    return await log.ends([*await log.topics()])


async def test_a_file_tells_of_claims(tmp_path: Path) -> None:
    """Appends and the own epoch do not end the wait for a claim; a closed log does."""
    log = await SqliteLog.open(tmp_path / "state.db")
    other = await SqliteLog.open(tmp_path / "state.db")
    epoch = await log.claim()
    await log.create_topic("t", 1)
    waiting = asyncio.create_task(log.until_claimed(epoch))
    for each in (log, other, log):
        await each.append([Record("t", 0, 1_000, None, b"v")])
        await asyncio.sleep(0.02)
    assert not waiting.done()
    await log.check_writable(epoch)  # its result is cached
    newer = await other.claim()
    with pytest.raises(Fenced):
        await log.check_writable(epoch)
    await waiting
    await log.until_claimed(epoch)
    waiting = asyncio.create_task(log.until_claimed(newer))
    await asyncio.sleep(0.02)
    assert not waiting.done()
    await log.close()
    await waiting
    await other.close()


class HeldLog(MemoryLog):
    """Log whose appends of records wait."""

    def __init__(self) -> None:
        super().__init__()
        self.released = asyncio.Event()

    async def append(self, records: Sequence[Record], epoch: int | None = None) -> Any:
        """Append after the release."""
        await self.released.wait()
        return await super().append(records, epoch)


async def test_an_abandoned_producer_drops_its_queue() -> None:
    """Queued records of an abandoned task are dropped; those of an ended task are sent."""
    for abandoned in (True, False):
        log = HeldLog()
        epoch = await log.claim()
        written = WrittenLog(log, lambda epoch=epoch: epoch, lambda: 1)  # type: ignore[misc]
        producer = LogProducer(written, LogTopics(log, 1), ProducerLimits())
        futures: list[asyncio.Future[RecordMetadata]] = []
        leave = asyncio.Event()

        async def produce(
            producer: LogProducer = producer,
            futures: list[asyncio.Future[RecordMetadata]] = futures,
            leave: asyncio.Event = leave,
        ) -> None:
            async with closing_producer(producer):
                record = ProducerRecord("t", None, b"v", None, None, ())
                futures += await producer.send([record])
                await leave.wait()

        task = asyncio.create_task(produce())
        await until(lambda futures=futures: futures)  # type: ignore[misc]
        await asyncio.sleep(0.02)
        if abandoned:
            task.cancel()
        leave.set()
        await asyncio.sleep(0)
        if not abandoned:
            log.released.set()
        await asyncio.wait([task], timeout=PATIENCE_S)
        assert task.done()
        assert [future.cancelled() for future in futures] == [abandoned]
        assert await log.ends(["t"]) == {"t": [0 if abandoned else 1]}
