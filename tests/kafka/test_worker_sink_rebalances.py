"""Sinks whose group rebalances while they are busy, and sinks that seek."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import chain
from typing import Any, ClassVar

import pytest

from controlplane.connect import Sink, SinkRecord, SinkTaskContext
from controlplane.connect.sink import KafkaPartition
from controlplane.core.commands import CreateConnector, StopConnector
from controlplane.core.state import Topics
from controlplane.worker.worker import ConnectWorker
from tests.kafka.broker_worker import worker_on
from tests.kafka.conftest import NEWEST
from tests.kafka.producer import NewTopic, produce
from tests.kafka.real_kafka import Broker
from tests.kafka.test_worker_sinks import until_committed
from tests.kafka.worker_service import until as until_true
from tests.patience import PATIENCE_S
from tests.worker.test_sink_pauses import pauses_and_resumes
from tests.worker.test_sink_task import RARELY, ScriptedSink, raising, sinks
from tests.worker.worker_fixture import (
    RecordedNotices,
    config_of,
    task_trace,
    until,
    until_state,
)

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
        """Keep the values; the partitions are in `busy` during the call."""
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
    """Keeps its records; seeks to 1 when it opens, and to 0 after the first value `2`."""

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
    sinks.reset()


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
    await produce(broker, topic, *VALUES, partitions=2)
    config = slow(topic, **{"request.timeout.ms": "6000"})
    async with worker_on(broker, own_topics, SlowSink) as worker:
        await worker.plane.execute(CreateConnector("slow", config))
        await until(SlowSink.holding.is_set)
        await worker.plane.execute(CreateConnector("other", config))
        await asyncio.sleep(LONG_S)
        assert not SlowSink.taken.get("other")
        SlowSink.go_on.set()
        await until_committed(worker, f"group-{topic}", 4, 4)
        await produce(broker, topic, "a", "b", partitions=2)
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
    await produce(broker, topic, *VALUES, partitions=2)
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
            await produce(broker, topic, "later", "later", partitions=2)
            return "later" in SlowSink.taken["slow"]

        await until_true(member_again)
        assert task_trace(worker, "slow") == task_trace(worker, "other") == ""
    assert {*VALUES} <= {*SlowSink.taken["other"]}
    late = [value for value in SlowSink.taken["slow"] if value in VALUES]
    assert len(late) == len({*late})  # the records of its `put`, and no others


@asynccontextmanager
async def partitions_lost(
    broker: Broker, topics: Topics, topic: str
) -> AsyncIterator[ConnectWorker]:
    """Worker without commits at intervals; its sink `slow` has lost both partitions in a `put`."""

    def held_put(_: SinkTaskContext, values: list[Any]) -> None:
        if values:
            assert sinks.released.wait(PATIENCE_S)

    sinks.acts["slow.put"] = held_put
    await produce(broker, topic, *VALUES, partitions=2)
    config = slow(topic, **{"max.poll.interval.ms": "1000"}) | config_of(ScriptedSink)
    async with worker_on(broker, topics, ScriptedSink, limits=RARELY) as worker:
        await worker.plane.execute(CreateConnector("slow", config))
        await until(lambda: sinks.of("slow", "put"))
        await worker.plane.execute(CreateConnector("other", config))
        await until(lambda: sorted(chain(*sinks.of("other", "put"))) == VALUES)
        yield worker


async def test_lost_partitions_are_closed_without_a_commit(
    broker: Broker, own_topics: Topics, new_topic: NewTopic
) -> None:
    """The sink is not asked for offsets: another member has the partitions already.

    In contrast, offsets of partitions that the group revokes in a rebalance are committed.
    """
    topic = await new_topic(2, cleanup__policy="delete")
    async with partitions_lost(broker, own_topics, topic) as worker:
        sinks.released.set()
        await until(lambda: sinks.of("slow", "close"))
        assert sinks.of("slow", "close") == [[(topic, 0), (topic, 1)]]
        assert sinks.of("slow", "pre_commit") == []
        await until(lambda: sinks.of("other", "close"))  # `slow` is a member again
        assert sinks.of("other", "pre_commit") == [{(topic, 0): 4, (topic, 1): 4}]
        await until_committed(worker, f"group-{topic}", 4, 4)
        assert task_trace(worker, "slow") == task_trace(worker, "other") == ""


async def test_a_failing_close_of_lost_partitions_fails_the_task(
    broker: Broker, own_topics: Topics, new_topic: NewTopic
) -> None:
    """The task is FAILED with the author's error; `close` is called once, and nothing committed."""
    topic = await new_topic(2, cleanup__policy="delete")
    async with partitions_lost(broker, own_topics, topic) as worker:
        sinks.acts["slow.close"] = raising(ValueError("no close"))
        sinks.released.set()
        await until_state(worker, "slow", "RUNNING", "FAILED")
        assert "ValueError: no close" in task_trace(worker, "slow")
        assert sinks.of("slow", "close") == [[(topic, 0), (topic, 1)]]
        assert sinks.of("slow", "pre_commit") == []


async def test_a_sink_seeks(broker: Broker, own_topics: Topics, new_topic: NewTopic) -> None:
    """A rewind in `open` takes effect before the first record; one in `put` may go back further."""
    topic = await new_topic(1, cleanup__policy="delete")
    await produce(broker, topic, "0", "1", "2")
    config = config_of(SeekingSink) | {
        "topics": topic,
        "consumer.override.group.id": f"group-{topic}",
    }
    async with worker_on(broker, own_topics, SeekingSink) as worker:
        await worker.plane.execute(CreateConnector("seeking", config))
        await until(lambda: SeekingSink.taken == ["1", "2", "0", "1", "2"])
        await until_committed(worker, f"group-{topic}", 3)


def pausing(topic: str, group: str) -> dict[str, str]:
    """Config of a scripted sink in a group whose members learn of rebalances early."""
    return slow(topic, **{"group.id": group}) | config_of(ScriptedSink)


async def test_partitions_stay_paused_over_a_rebalance(
    broker: Broker, own_topics: Topics, new_topic: NewTopic
) -> None:
    """A sink keeps its pause of a partition that a rebalance revokes and assigns to it again.

    Kafka: `context.pausedPartitions().retainAll(consumer.assignment())`.
    """
    topic, other = [await new_topic(count, cleanup__policy="delete") for count in (2, 1)]
    sinks.acts["s.put"] = pauses_and_resumes((topic, 0))
    async with worker_on(broker, own_topics, ScriptedSink) as worker:
        await worker.plane.execute(CreateConnector("s", pausing(topic, f"group-{topic}")))
        await produce(broker, topic, "pause")
        await until(lambda: sinks.of("s", "put") == [["pause"]])
        await worker.plane.execute(CreateConnector("z", pausing(other, f"group-{topic}")))
        await until(lambda: sinks.of("z", "open"))
        await until(lambda: sinks.of("s", "open") == [[(topic, 0), (topic, 1)]] * 2)
        await produce(broker, topic, "paused", "resume", partitions=2)
        await until(lambda: len(sinks.records) == 3)
    assert sinks.of("s", "put") == [["pause"], ["resume"], ["paused"]]


async def test_a_pause_ends_when_another_member_gets_the_partition(
    broker: Broker, own_topics: Topics, new_topic: NewTopic
) -> None:
    """The sink reads the partition once it gets it back, as in Kafka."""
    topic = await new_topic(1, cleanup__policy="delete")
    sinks.acts["s.put"] = pauses_and_resumes((topic, 0))
    async with worker_on(broker, own_topics, ScriptedSink) as worker:
        await worker.plane.execute(CreateConnector("s", pausing(topic, f"group-{topic}")))
        await produce(broker, topic, "pause")
        await until(lambda: sinks.of("s", "put") == [["pause"]])
        await worker.plane.execute(CreateConnector("a", pausing(topic, f"group-{topic}")))
        await until(lambda: sinks.of("a", "open"))  # members share a topic by the order of names
        await produce(broker, topic, "other")
        await until(lambda: sinks.of("a", "put") == [["other"]])
        await worker.plane.execute(StopConnector("a"))
        await produce(broker, topic, "again")
        await until(lambda: sinks.of("s", "put") == [["pause"], ["again"]])
