"""Consumer groups and producers of real brokers: read, altered, deleted, fenced."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from aiokafka.errors import KafkaError

from controlplane.core.views.group_progress import LogEnd
from controlplane.logs.kafka.admin.consumer_groups import GroupAdmin, GroupMembers, GroupRefusal
from controlplane.logs.kafka.limits import ReadLimits
from controlplane.logs.log import LogUnavailable
from controlplane.settings.security import KafkaSecurity, Sasl, Secret
from tests.kafka.conftest import RELEASES, unused_name
from tests.kafka.consumers import (
    POLL_S,
    SESSION_MS,
    consuming,
    groups_of,
    has_committed,
    java_consumer,
)
from tests.kafka.producer import NewTopic, reading, writer
from tests.kafka.real_kafka import USERS, Broker
from tests.patience import PATIENCE_S
from tests.ports import free_ports

pytestmark = [pytest.mark.java, pytest.mark.broker]

BOB = KafkaSecurity(sasl=Sasl("PLAIN", "bob", Secret(USERS["bob"])))
QUICK = ReadLimits(connect_timeout_ms=1_000, admin_patience_ms=500)


@pytest_asyncio.fixture
async def groups(broker: Broker) -> AsyncIterator[GroupAdmin]:
    """The groups of the shared broker."""
    async with groups_of(broker.bootstrap) as opened:
        yield opened


async def test_offsets_of_an_empty_group_are_set_and_removed(
    groups: GroupAdmin, topic: str
) -> None:
    """Offsets are set, listed in order and removed; a deleted group has none."""
    group = unused_name()
    assert await groups.committed(group) == {}
    await groups.commit(group, {(topic, 2): 7, (topic, 0): 10**6})
    assert list((await groups.committed(group)).items()) == [((topic, 0), 10**6), ((topic, 2), 7)]
    await groups.commit(group, {(topic, 2): 8})
    await groups.remove(group, [(topic, 0), (topic, 1)])
    assert await groups.committed(group) == {(topic, 2): 8}
    for _ in range(2):  # 3.9 deletes the group with its last offset
        await groups.remove(group, [(topic, 2)])
        assert await groups.committed(group) == {}
    for _ in range(2):
        await groups.delete(group)


async def test_unknown_partitions_are_refused_alone(groups: GroupAdmin, topic: str) -> None:
    """The refusal names the partition; valid partitions of the call are set."""
    group = unused_name()
    with pytest.raises(GroupRefusal, match=f"of group {group} in {topic}-9 cannot .*code 3"):
        await groups.commit(group, {(topic, 0): 1, (topic, 9): 1})
    assert await groups.committed(group) == {(topic, 0): 1}
    with pytest.raises(GroupRefusal, match=r"in nowhere-0 cannot be changed: .*code 3"):
        await groups.remove(group, [(topic, 0), ("nowhere", 0)])


async def test_a_group_with_a_member_refuses_changes(
    broker: Broker, groups: GroupAdmin, topic: str
) -> None:
    """A group with a member refuses every change and keeps its offsets."""
    group = unused_name()
    async with consuming(broker, topic, group) as consumer:
        await consumer.commit(dict.fromkeys(consumer.assignment(), 3))
        await refused_as_active(groups, topic, group)
        assert set((await groups.committed(group)).values()) == {3}
    await groups.commit(group, {(topic, 0): 1})
    await groups.delete(group)
    assert await groups.committed(group) == {}


async def refused_as_active(groups: GroupAdmin, topic: str, group: str) -> None:
    """Check that the group refuses each change because of its members."""
    for change in (
        groups.commit(group, {(topic, 0): 1}),
        groups.remove(group, [(topic, 0)]),
        groups.delete(group),
    ):
        with pytest.raises(GroupRefusal, match="the group has members") as caught:
            await change
        assert caught.value.is_active


@pytest.mark.parametrize("broker", RELEASES[-1:], indirect=True)
async def test_a_group_of_the_new_protocol_refuses_changes(
    broker: Broker, groups: GroupAdmin, topic: str
) -> None:
    """A group of KIP-848 (brokers from 4.0 on) refuses changes while it has members."""
    group = unused_name()
    async with writer(broker) as out:
        await out.put(topic, 0, b"k", b"v")
    consumer = java_consumer(broker, topic, group, group__protocol="consumer")
    consumer.start()
    try:
        await has_committed(groups, group)
        await refused_as_active(groups, topic, group)
        assert await groups.members(group) == GroupMembers("consumer", ("127.0.0.1",))
    finally:
        await consumer.end()
    assert (await groups.members(group)).hosts == ()
    await groups.commit(group, {(topic, 0): 0})
    assert (await groups.committed(group))[topic, 0] == 0
    await groups.delete(group)


@pytest.mark.slow
async def test_the_group_of_a_killed_consumer_stays_active(
    broker: Broker, groups: GroupAdmin, topic: str
) -> None:
    """The group of a killed consumer stays active until its session times out."""
    group = unused_name()
    async with writer(broker) as out:
        await out.put(topic, 0, b"k", b"v")
    consumer = java_consumer(broker, topic, group, session__timeout__ms=SESSION_MS)
    consumer.start()
    try:
        await has_committed(groups, group)
    finally:
        await consumer.end(signal.SIGKILL)
    await refused_as_active(groups, topic, group)
    async with asyncio.timeout(PATIENCE_S):
        while not await deleted(groups, group):  # noqa: ASYNC110 - a session ends in silence
            await asyncio.sleep(POLL_S)
    assert await groups.committed(group) == {}


async def deleted(groups: GroupAdmin, group: str) -> bool:
    """True once a group is deleted; False while it is active."""
    try:
        await groups.delete(group)
    except GroupRefusal as refusal:
        if not refusal.is_active:
            raise
        return False
    return True


async def test_ends_or_reasons_are_returned_per_partition(
    broker: Broker, groups: GroupAdmin, new_topic: NewTopic
) -> None:
    """Ends of the requested partitions; a reason where a partition does not exist."""
    topic = await new_topic(2)
    async with writer(broker) as out:
        for _ in range(3):
            await out.put(topic, 1, b"k", b"v")
    ends = await groups.ends([(topic, 1), (topic, 0), (topic, 5), ("nowhere", 0)])
    assert ends[topic, 1] == LogEnd(3)
    assert ends[topic, 0] == LogEnd(0)
    for missing in ((topic, 5), ("nowhere", 0)):
        assert ends[missing].offset is None
        assert "UNKNOWN_TOPIC_OR_PARTITION" in ends[missing].reason
    assert await groups.ends([]) == {}


async def test_a_fenced_producer_cannot_write(
    broker: Broker, groups: GroupAdmin, topic: str
) -> None:
    """A fenced producer's open transaction is aborted, and it cannot write any more."""
    transactional_id = unused_name()
    async with writer(broker, transactional_id=transactional_id) as out:
        await out.producer.begin_transaction()
        await out.put(topic, 0, b"k", b"v")
        await groups.fence(transactional_id)
        async with reading(broker.bootstrap) as reader:
            entries = [entry async for batch in reader.read([topic]) for entry in batch.entries()]
        assert [entry.aborted for entry in entries] == [True]
        with pytest.raises(KafkaError):
            await out.put(topic, 0, b"k", b"late")
        with pytest.raises(KafkaError):
            await out.producer.abort_transaction()
    await groups.fence(transactional_id)
    await groups.fence(unused_name())


async def test_each_missing_right_is_named(broker: Broker, topic: str) -> None:
    """Each request of a user without rights is refused with the right that it needs."""
    async with groups_of(broker.address("SASL_PLAINTEXT"), BOB) as groups:
        for request in (
            groups.committed("group"),
            groups.commit("group", {(topic, 0): 1}),
            groups.remove("group", [(topic, 0)]),
            groups.delete("group"),
            groups.fence("producer"),
        ):
            with pytest.raises(GroupRefusal, match=r"allow this user [A-Z]+ on "):
                await request
        ends = await groups.ends([(topic, 0)])
        assert f"allow this user DESCRIBE on topic {topic}" in ends[topic, 0].reason


async def test_retries_without_a_broker_end() -> None:
    """Retries end after the patience, with the sentence about the address."""
    (port,) = free_ports(1)
    async with groups_of(f"127.0.0.1:{port}", limits=QUICK) as groups:
        with pytest.raises(LogUnavailable, match=f"no broker listens at 127.0.0.1:{port}"):
            await groups.committed("group")


async def test_a_silent_broker_causes_a_time_out() -> None:
    """A server that accepts connections and never answers causes a time-out."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        async with groups_of(f"{host}:{port}", limits=QUICK) as groups:
            with pytest.raises(LogUnavailable, match="does not answer within 500 ms"):
                await groups.committed("group")
