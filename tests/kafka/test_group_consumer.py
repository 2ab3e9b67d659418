"""Rebalances while a consumer is busy and aiokafka gets its partitions."""

import asyncio
from collections.abc import Sequence

import pytest

from controlplane.core.entry import TopicPartition
from controlplane.logs.kafka.cluster import Cluster, addresses
from controlplane.logs.kafka.limits import ReadLimits
from controlplane.logs.kafka.reads import group_consumer
from controlplane.logs.kafka.reads.group_consumer import GroupConsumer
from controlplane.logs.log import LogUnavailable
from controlplane.settings.security import KafkaSecurity
from tests.kafka.conftest import NEWEST, unused_name
from tests.kafka.consumers import groups_of
from tests.kafka.producer import NewTopic, create_topic, produce, writer
from tests.kafka.real_kafka import Broker
from tests.kafka.worker_service import until

pytestmark = [pytest.mark.java, pytest.mark.broker, NEWEST]

BUSY_S = 1.0
"""Seconds without a poll, long enough for aiokafka to fetch records too early."""


class Assignments:
    """Listener that keeps the assigned and the lost partitions."""

    def __init__(self) -> None:
        self.partitions: list[TopicPartition] = []
        self.lost_partitions: list[TopicPartition] = []

    async def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Ignore the partitions that are taken away."""

    async def lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Add the lost partitions to `lost_partitions`."""
        self.lost_partitions += partitions

    async def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Add the assigned partitions to `partitions`."""
        self.partitions += partitions


async def test_no_record_is_returned_before_the_assignment_is_known(
    broker: Broker, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A poll that waits during a rebalance returns no records of new partitions."""
    monkeypatch.setattr(group_consumer, "FETCH_S", 60)
    topic, group, assignments = await new_topic(), unused_name(), Assignments()
    async with writer(broker) as out:
        for number in range(3):
            await out.put(topic, 0, b"key", str(number).encode())
        cluster = Cluster(addresses(broker.bootstrap), KafkaSecurity(), ReadLimits())
        options = {"max_poll_records": 1, "auto_offset_reset": "earliest"}
        consumer = GroupConsumer(cluster, group, options, assignments)
        try:
            await consumer.start([topic])
            polling = asyncio.create_task(consumer.poll(60))
            await asyncio.sleep(0)
            consumer.wake_up()
            assert await polling == []  # its request continues to wait

            async def waits() -> bool:
                return bool(consumer._callbacks)

            await until(waits)  # the revocation before the group is joined
            consumer.wake_up()
            assert await consumer.poll(60) == []
            await until(waits)  # the assignment
            await asyncio.sleep(BUSY_S)
            assert not assignments.partitions
            (entry,) = await consumer.poll(60)
            assert (entry.offset, consumer.position((topic, 0))) == (0, 1)
            assert assignments.partitions == [(topic, 0)]
        finally:
            await consumer.close()


async def test_a_consumer_that_has_left_commits_nothing(
    broker: Broker, new_topic: NewTopic
) -> None:
    """The only member polls too rarely. Its next poll reports the loss and joins again."""
    topic, group, assignments = await new_topic(), unused_name(), Assignments()
    async with writer(broker) as out, groups_of(broker.bootstrap) as groups:
        await out.put(topic, 0, b"key", b"value")
        cluster = Cluster(addresses(broker.bootstrap), KafkaSecurity(), ReadLimits())
        options = {
            "auto_offset_reset": "earliest",
            "max_poll_interval_ms": 1_000,
            "heartbeat_interval_ms": 100,
        }
        consumer = GroupConsumer(cluster, group, options, assignments)
        try:
            await consumer.start([topic])
            await until(lambda: consumer.poll(1))

            async def has_left() -> bool:
                return not consumer._is_member

            await until(has_left)
            with pytest.raises(LogUnavailable, match="no longer a member"):
                await consumer.commit({(topic, 0): 1})
            assert await groups.committed(group) == {}
            assert await until(lambda: consumer.poll(1))
            assert assignments.lost_partitions == [(topic, 0)]
            await consumer.commit({(topic, 0): 1})
        finally:
            await consumer.close()


async def test_an_error_of_the_selection_is_raised_by_poll(
    broker: Broker, new_topic: NewTopic
) -> None:
    """The function that selects topics fails for one of them; metadata are still updated."""
    topic, group, assignments = await new_topic(), unused_name(), Assignments()

    def selects(name: str) -> bool:
        if name == topic:
            raise ValueError(f"cannot match {name}")
        return False

    cluster = Cluster(addresses(broker.bootstrap), KafkaSecurity(), ReadLimits())
    consumer = GroupConsumer(cluster, group, {}, assignments)
    try:
        await consumer.start([], selects)
        with pytest.raises(ValueError, match=f"cannot match {topic}"):
            await until(lambda: consumer.poll(1))
        other = await new_topic()
        await consumer._consumer._client.force_metadata_update()
        assert other in consumer._consumer._client.cluster.topics()
    finally:
        await consumer.close()


class CommittingListener(Assignments):
    """Listener that commits the positions of partitions that are taken away."""

    consumer: GroupConsumer

    async def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Commit, as a sink task does."""
        await self.consumer.commit(
            {partition: self.consumer.position(partition) for partition in partitions}
        )


async def test_a_new_topic_of_a_pattern_repeats_no_record(broker: Broker) -> None:
    """The positions are committed before the group is joined anew; no record is read twice."""
    topic, group, listener = unused_name(), unused_name(), CommittingListener()
    await create_topic(broker, topic, cleanup__policy="delete")
    await produce(broker, topic, "old")
    cluster = Cluster(addresses(broker.bootstrap), KafkaSecurity(), ReadLimits())
    options = {"auto_offset_reset": "earliest", "metadata_max_age_ms": 500}
    consumer = listener.consumer = GroupConsumer(cluster, group, options, listener)
    values: list[bytes | None] = []

    async def returned(value: bytes) -> bool:
        values.extend(entry.value for entry in await consumer.poll(0.1))
        return value in values

    try:
        await consumer.start([], lambda name: name.startswith(topic))
        await until(lambda: returned(b"old"))
        await create_topic(broker, f"{topic}-new", cleanup__policy="delete")
        await produce(broker, f"{topic}-new", "new")
        await until(lambda: returned(b"new"))
        await produce(broker, topic, "last")
        await until(lambda: returned(b"last"))
        assert values == [b"old", b"new", b"last"]
        with pytest.raises(LogUnavailable, match="not assigned"):
            await consumer.commit({(topic, 1): 1})
    finally:
        await consumer.close()


@pytest.mark.parametrize("close", ["cancelled", "late"])
async def test_a_consumer_is_closed_during_a_rebalance(
    broker: Broker, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch, close: str
) -> None:
    """A cancelled or late close ends its tasks and leaves the group; others get the partitions."""
    monkeypatch.setattr(group_consumer, "CLOSE_S", 0.2 if close == "late" else 60)
    topic, group = await new_topic(2), unused_name()
    options = {"heartbeat_interval_ms": 100, "session_timeout_ms": 300_000}
    consumers = [
        GroupConsumer(
            Cluster(addresses(broker.bootstrap), KafkaSecurity(), ReadLimits()),
            group,
            options,
            Assignments(),
        )
        for _ in range(3)
    ]
    first, second, third = consumers

    async def share(*members: GroupConsumer) -> bool:
        """Poll; true once these members share both partitions evenly, so that all have joined."""
        await asyncio.gather(*(member.poll(0.1) for member in members))
        return all(len(member.assignment) == 2 // len(members) for member in members)

    idle = asyncio.all_tasks()
    try:
        await first.start([topic])
        await until(lambda: share(first))
        first_tasks = asyncio.all_tasks() - idle
        await second.start([topic])
        await until(lambda: share(first, second))
        await third.start([topic])

        async def waits() -> bool:
            """Poll; true once the first one has joined anew, and waits for the second one."""
            await asyncio.gather(first.poll(0.1), third.poll(0.1))
            return not first.assignment

        await until(waits)
        closing = asyncio.create_task(first.close())
        await asyncio.sleep(0.1)
        if close == "cancelled":
            closing.cancel()
        await asyncio.wait({closing})
        assert closing.cancelled() is (close == "cancelled")
        assert [task for task in first_tasks if not task.done()] == []
        await until(lambda: share(second, third))
    finally:
        for consumer in (second, third):
            await consumer.close()
    assert asyncio.all_tasks() <= idle
