"""Members of real consumer groups: in this process, and Java's in processes of their own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer
from aiokafka.protocol.group import JoinGroupRequest

from controlplane.logs.kafka.admin.consumer_groups import GroupAdmin
from controlplane.logs.kafka.cluster import Cluster, addresses
from controlplane.logs.kafka.limits import ReadLimits
from controlplane.settings.security import KafkaSecurity
from tests.kafka.process import JavaProgram
from tests.kafka.real_kafka import QUIET, Broker, broker_runtime, quick_jvm
from tests.patience import PATIENCE_S

SESSION_MS = 6_000
"""The shortest session that a broker allows by default: a killed member stays for so long."""

POLL_S = 0.05

HALF_JOINED_MS = 300_000
"""Session of a member that never completes its join; a broker allows at most 30 minutes."""


@asynccontextmanager
async def groups_of(
    bootstrap: str, security: KafkaSecurity | None = None, limits: ReadLimits | None = None
) -> AsyncIterator[GroupAdmin]:
    """Client for the consumer groups of a cluster."""
    limits = limits or ReadLimits()
    cluster = Cluster(addresses(bootstrap), security or KafkaSecurity(), limits)
    try:
        yield GroupAdmin(cluster, limits)
    finally:
        await cluster.close()


@asynccontextmanager
async def consuming(broker: Broker, topic: str, group: str) -> AsyncIterator[AIOKafkaConsumer]:
    """Member of a classic group with assigned partitions; leaves the group on exit."""
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    await consumer.start()
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not consumer.assignment():  # noqa: ASYNC110 - a rebalance sends no event
                await asyncio.sleep(POLL_S)
        yield consumer
    finally:
        await consumer.stop()


async def join_half(broker: Broker, group: str, protocol_type: str = "connect") -> None:
    """Join a new group without its second request: it rebalances until `HALF_JOINED_MS` is over."""
    times = HALF_JOINED_MS, HALF_JOINED_MS
    async with _cluster_of(broker) as cluster:
        (node,) = (await cluster.layout([])).brokers
        member = ""
        for _ in range(2):  # from version 4 on, the first answer only has the id of the member
            protocols = [("default", b"")]
            request = JoinGroupRequest(group, *times, member, None, protocol_type, protocols)
            answer = await cluster.send(node, request)
            member = answer.member_id
            if not answer.error_code:
                return
    raise AssertionError(answer)


@asynccontextmanager
async def _cluster_of(broker: Broker) -> AsyncIterator[Cluster]:
    cluster = Cluster(addresses(broker.bootstrap), KafkaSecurity(), ReadLimits())
    try:
        yield cluster
    finally:
        await cluster.close()


def java_consumer(broker: Broker, topic: str, group: str, **settings: object) -> JavaProgram:
    """Kafka's console consumer as a group member that commits what it reads."""
    path = broker_runtime(broker.release)
    directory = broker.directory / group
    directory.mkdir()
    file = directory / "consumer.properties"
    usual = {"auto.commit.interval.ms": 100, "auto.offset.reset": "earliest"}
    properties = usual | {key.replace("__", "."): value for key, value in settings.items()}
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()), "ascii")
    main = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    arguments = ("--bootstrap-server", broker.bootstrap, "--topic", topic, "--group", group)
    option = "--command-config" if broker.release >= "4.2" else "--consumer.config"
    words = (QUIET, main, *arguments, option, str(file))
    return JavaProgram("consumer", directory, path, *words, jvm=quick_jvm("broker", path))


async def has_committed(groups: GroupAdmin, group: str) -> None:
    """Wait until a group has committed offsets."""
    async with asyncio.timeout(PATIENCE_S):
        while not await groups.committed(group):  # noqa: ASYNC110 - a commit sends no event
            await asyncio.sleep(POLL_S)
