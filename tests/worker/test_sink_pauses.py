"""Partitions that a sink task pauses (`SinkTaskContext#pause`)."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import pytest

from controlplane.connect import Sink, SinkRecord
from controlplane.connect.sink import KafkaPartition, SinkTaskContext
from controlplane.core.commands import CreateConnector, StopConnector
from controlplane.logs.log import Record
from controlplane.worker.data_topics import embedded_clients, embedded_consumer
from controlplane.worker.data_topics.embedded_consumer import LogConsumer
from tests.worker.test_sink_task import GROUP, ScriptedSink, begin, sinks
from tests.worker.worker_fixture import config_of, produce, running, until

PAUSED = ("t", 0)

batches: list[list[Any]] = []
"""Values of the records of each `put`."""


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    sinks.reset()
    monkeypatch.setattr(embedded_consumer, "TOPICS_POLL_S", 0.0)


class PausingSink(Sink):
    """Sink that pauses a partition in `open`, and resumes it after the first record of another."""

    def open(self, task: SinkTaskContext, partitions: Sequence[KafkaPartition]) -> None:
        """Pause the first partition."""
        task.pause(*({*partitions} & {PAUSED}))

    def put(self, task: SinkTaskContext, records: Sequence[SinkRecord]) -> None:
        """Keep the values; resume the partition after a record."""
        batches.append([record.value for record in records])
        if records:
            task.resume(PAUSED)


async def test_a_pause_by_open_precedes_all_records() -> None:
    """No record of the partition is put before the task resumes it, as in Kafka."""
    batches.clear()
    async with running(PausingSink) as worker:
        log = worker.plane.log
        await log.create_topic("t", 2)
        await log.append([Record(*PAUSED, 1_000, None, b"paused")])
        await worker.plane.execute(CreateConnector("s", config_of(PausingSink, topics="t")))
        await until(lambda: batches)
        await log.append([Record("t", 1, 1_000, None, b"other")])
        await until(lambda: len([*filter(None, batches)]) == 2)
    assert [*filter(None, batches)] == [["other"], ["paused"]]


def pauses_and_resumes(partition: KafkaPartition) -> Callable[[SinkTaskContext, Any], None]:
    """Return an act of `put`: the value `pause` pauses a partition, `resume` resumes it."""

    def act(task: SinkTaskContext, values: Any) -> None:
        if "pause" in values:
            task.pause(partition)
        if "resume" in values:
            task.resume(partition)

    return act


class EagerConsumer(LogConsumer):
    """Consumer that gives back all partitions at each rebalance, as those on brokers do."""

    rebalances: ClassVar[int] = 0
    """Number of rebalances that are due."""

    async def _rebalance_if_due(self) -> None:
        if self.rebalances and self.assignment:
            type(self).rebalances -= 1
            await self._rebalancing.revoked(sorted(self.assignment))
            for owned in (self._positions, self._paused, self._member.owned):
                owned.clear()
        await super()._rebalance_if_due()


async def test_partitions_stay_paused_over_an_eager_rebalance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pause lasts if its partition is revoked and assigned to the task again, as in Kafka."""
    monkeypatch.setattr(embedded_clients, "LogConsumer", EagerConsumer)
    sinks.acts["s.put"] = pauses_and_resumes(PAUSED)
    async with running(ScriptedSink) as worker:
        await produce(worker.plane.log, "t", "pause", partitions=2)
        await begin(worker)
        await until(lambda: sinks.of("s", "put") == [["pause"]])
        EagerConsumer.rebalances = 1
        await until(lambda: sinks.of("s", "open") == [[PAUSED, ("t", 1)]] * 2)
        await produce(worker.plane.log, "t", "paused", "resume", partitions=2)
        await until(lambda: len(sinks.records) == 3)
    assert sinks.of("s", "put") == [["pause"], ["resume"], ["paused"]]


async def test_a_pause_ends_when_another_task_gets_the_partition() -> None:
    """The sink reads the partition once it gets it back, as in Kafka."""
    sinks.acts["s.put"] = pauses_and_resumes(("t", 1))
    async with running(ScriptedSink) as worker:
        await produce(worker.plane.log, "t", "pause", partitions=2)
        await begin(worker, **GROUP)
        await until(lambda: sinks.of("s", "put") == [["pause"]])
        await begin(worker, "z", **GROUP)
        await until(lambda: sinks.of("z", "open") == [[("t", 1)]])
        await worker.plane.execute(StopConnector("z"))
        await until(lambda: sinks.of("s", "open")[1:] == [[("t", 1)]])
        await worker.plane.log.append([Record("t", 1, 1_000, None, b"again")])
        await until(lambda: sinks.of("s", "put") == [["pause"], ["again"]])
