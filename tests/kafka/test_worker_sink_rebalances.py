"""Sinks whose group rebalances while they are busy, and sinks that seek."""

import asyncio
import threading
from collections.abc import Sequence
from typing import ClassVar

import pytest

from controlplane.connect import Sink, SinkRecord, SinkTaskContext
from controlplane.connect.sink import KafkaPartition
from controlplane.core.commands import CreateConnector
from controlplane.core.state import Topics
from tests.kafka.broker_worker import worker_on
from tests.kafka.conftest import NEWEST
from tests.kafka.producer import NewTopic, writer
from tests.kafka.real_kafka import Broker
from tests.kafka.test_worker_sinks import until_committed
from tests.kafka.worker_service import until as until_true
from tests.patience import PATIENCE_S
from tests.worker.worker_fixture import RecordedNotices, config_of, task_trace, until

pytestmark = [pytest.mark.java, pytest.mark.broker, NEWEST]

LONG_S = 3.0
"""Duration of a slow `put`: longer than the time-outs that the tests set."""

VALUES = [f"{number}" for number in range(8)]


class SlowSink(Sink):
    """Keeps its records; the first `put` of the connector `slow` waits for the test."""

    taken: ClassVar[dict[str, list[str]]] = {}
    """Values that each connector has got, by its name."""
    busy: ClassVar[dict[KafkaPartition, str]] = {}
    """Connector within a `put` of this partition."""
    overlaps: ClassVar[list[KafkaPartition]] = []
    """Partitions that two connectors have put at once."""
    holding = threading.Event()
    go_on = threading.Event()

    @classmethod
    def forget(cls) -> None:
        """Begin a test with nothing put."""
        for kept in (cls.taken, cls.busy, cls.overlaps):
            kept.clear()
        cls.holding.clear()
        cls.go_on.clear()

    def put(self, task: SinkTaskContext, records: Sequence[SinkRecord]) -> None:
        """Keep the values, and the partitions for as long as this takes."""
        partitions = {(record.topic, record.kafka_partition) for record in records}
        self.overlaps.extend(partition for partition in partitions if partition in self.busy)
        self.busy.update(dict.fromkeys(partitions, task.connector))
        if task.connector == "slow" and partitions and not self.go_on.is_set():
            self.holding.set()
            assert self.go_on.wait(PATIENCE_S)
        self.taken.setdefault(task.connector, []).extend(str(record.value) for record in records)
        for partition in partitions:
            self.busy.pop(partition, None)


class SeekingSink(Sink):
    """Keeps its records; seeks to 1 once when it opens, and once after the value `2`."""

    taken: ClassVar[list[str]] = []

    def open(self, task: SinkTaskContext, partitions: Sequence[KafkaPartition]) -> None:
        """Skip the first record of each partition."""
        task.rewind(dict.fromkeys(partitions, 1))

    def put(self, task: SinkTaskContext, records: Sequence[SinkRecord]) -> None:
        """Keep the values; rewind to the start at the first `2`."""
        for record in records:
            again = "2" in self.taken
            self.taken.append(str(record.value))
            if record.value == "2" and not again:
                task.rewind({(record.topic, record.kafka_partition): 0})


@pytest.fixture(autouse=True)
def _nothing_put() -> None:
    SlowSink.forget()
    SeekingSink.taken.clear()


async def write_values(
    broker: Broker, topic: str, values: Sequence[str], partitions: int = 2
) -> None:
    """Write values, one partition after another."""
    async with writer(broker) as out:
        for number, value in enumerate(values):
            await out.put(topic, number % partitions, None, value.encode())


def slow(topic: str, **consumer: str) -> dict[str, str]:
    """Config of a sink in a test's group, with its own consumer settings."""
    settings = {"group.id": f"group-{topic}", "heartbeat.interval.ms": "200"} | consumer
    overrides = {f"consumer.override.{key}": value for key, value in settings.items()}
    return config_of(SlowSink) | {"topics": topic} | overrides


async def test_a_rebalance_waits_for_a_slow_put(
    broker: Broker, own_topics: Topics, new_topic: NewTopic
) -> None:
    """Another member gets partitions only after the `put`, for any `request.timeout.ms`.

    Kafka's consumer lets a rebalance wait for `max.poll.interval.ms`.
    """
    topic = await new_topic(2, cleanup__policy="delete")
    await write_values(broker, topic, VALUES)
    config = slow(topic, **{"request.timeout.ms": "6000"})
    async with worker_on(broker, own_topics, SlowSink) as worker:
        await worker.plane.execute(CreateConnector("slow", config))
        await until(SlowSink.holding.is_set)
        await worker.plane.execute(CreateConnector("other", config))
        await asyncio.sleep(LONG_S)
        assert not SlowSink.taken.get("other")
        SlowSink.go_on.set()
        await until_committed(worker, f"group-{topic}", 4, 4)
        await write_values(broker, topic, ["a", "b"])
        await until_committed(worker, f"group-{topic}", 5, 5)
        assert task_trace(worker, "slow") == task_trace(worker, "other") == ""
    taken = SlowSink.taken
    assert sorted(taken["slow"] + taken["other"]) == sorted([*VALUES, "a", "b"])
    assert not SlowSink.overlaps


async def test_a_put_beyond_the_poll_interval_loses_the_partitions(
    broker: Broker, own_topics: Topics, new_topic: NewTopic
) -> None:
    """The other member puts the records again, and the late commit is refused: nothing is lost."""
    topic = await new_topic(2, cleanup__policy="delete")
    await write_values(broker, topic, VALUES)
    notices = RecordedNotices()
    config = slow(topic, **{"max.poll.interval.ms": "1000"})
    async with worker_on(broker, own_topics, SlowSink, notices=notices) as worker:
        await worker.plane.execute(CreateConnector("slow", config))
        await until(SlowSink.holding.is_set)
        await worker.plane.execute(CreateConnector("other", config))
        await until(lambda: sorted(SlowSink.taken.get("other", [])) == VALUES)
        await until_committed(worker, f"group-{topic}", 4, 4)
        SlowSink.go_on.set()
        await until(lambda: SlowSink.taken.get("slow"))

        async def member_again() -> bool:
            await write_values(broker, topic, ["later", "later"])
            return "later" in SlowSink.taken["slow"]

        await until_true(member_again)
        assert task_trace(worker, "slow") == task_trace(worker, "other") == ""
    assert {*VALUES} <= {*SlowSink.taken["other"]}
    late = [value for value in SlowSink.taken["slow"] if value in VALUES]
    assert len(late) == len({*late})  # the records in its hands, and no others


async def test_a_sink_seeks(broker: Broker, own_topics: Topics, new_topic: NewTopic) -> None:
    """A rewind in `open` precedes all records; one in `put` repeats records, also earlier ones."""
    topic = await new_topic(1, cleanup__policy="delete")
    await write_values(broker, topic, ["0", "1", "2"], partitions=1)
    config = config_of(SeekingSink) | {
        "topics": topic,
        "consumer.override.group.id": f"group-{topic}",
    }
    async with worker_on(broker, own_topics, SeekingSink) as worker:
        await worker.plane.execute(CreateConnector("seeking", config))
        await until(lambda: SeekingSink.taken == ["1", "2", "0", "1", "2"])
        await until_committed(worker, f"group-{topic}", 3)
