"""Topics created and described on real brokers."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from controlplane.logs.kafka.admin.topic_admin import TopicAdmin
from controlplane.logs.kafka.cluster import Cluster, addresses
from controlplane.logs.kafka.limits import ReadLimits
from controlplane.logs.kafka.protocol.admin_requests import TopicSpec
from controlplane.logs.log import LogNotUsable, LogUnavailable
from controlplane.settings.security import KafkaSecurity, Sasl, Secret
from tests.kafka.conftest import unused_name
from tests.kafka.real_kafka import USERS, Broker
from tests.ports import free_ports

pytestmark = [pytest.mark.java, pytest.mark.broker]

QUICK = ReadLimits(connect_timeout_ms=1_000, admin_patience_ms=500)


@pytest_asyncio.fixture
async def cluster(broker: Broker) -> AsyncIterator[Cluster]:
    """Connections to the shared broker, closed at the end."""
    opened = Cluster(addresses(broker.bootstrap), KafkaSecurity(), ReadLimits())
    yield opened
    await opened.close()


@pytest_asyncio.fixture
async def topics(cluster: Cluster) -> TopicAdmin:
    """Admin of the shared broker's topics."""
    return TopicAdmin(cluster, ReadLimits())


async def test_the_broker_chooses_partitions_and_replicas_by_its_defaults(
    cluster: Cluster, topics: TopicAdmin
) -> None:
    """-1 partitions and replicas mean the broker's defaults; settings arrive."""
    name, three = unused_name(), unused_name()
    compacted = TopicSpec(name, configs={"cleanup.policy": "compact"})
    assert await topics.create([compacted, TopicSpec(three, 3, 1)]) == {name, three}
    layout = await cluster.leaders([name, three])
    assert {topic: len(led) for topic, led in layout.leaders.items()} == {name: 1, three: 3}
    configs = await topics.configs([name, three])
    assert configs[name]["cleanup.policy"] == "compact"
    assert configs[three]["cleanup.policy"] == "delete"


async def test_existing_topics_stay(topics: TopicAdmin) -> None:
    """A repeated creation leaves the existing topic unchanged."""
    name, other = unused_name(), unused_name()
    await topics.create([TopicSpec(name, configs={"cleanup.policy": "compact"})])
    assert await topics.create([TopicSpec(name), TopicSpec(other)]) == {other}
    assert (await topics.configs([name]))[name]["cleanup.policy"] == "compact"


async def test_refusals_name_topic_and_cause(topics: TopicAdmin) -> None:
    """Each refusal names the topic, the cause and Kafka's code."""
    name = unused_name()
    for spec, words in (
        (TopicSpec(name, 1, 7), "too few brokers .*INVALID_REPLICATION_FACTOR, code 38"),
        (TopicSpec(name, configs={"cleanup.policy": "no"}), "INVALID_CONFIG, code 40"),
        (TopicSpec("not a name"), "INVALID_TOPIC_EXCEPTION, code 17"),
    ):
        with pytest.raises(LogNotUsable, match=f"topic {spec.name} cannot be created: .*{words}"):
            await topics.create([spec])


async def test_a_missing_topic_cannot_be_described(topics: TopicAdmin) -> None:
    """The refusal of a missing topic names the topic and Kafka's code."""
    name = unused_name()
    with pytest.raises(LogNotUsable, match=f"{name} cannot be described: .*code 3"):
        await topics.configs([name])


async def test_each_missing_right_is_named(broker: Broker) -> None:
    """A user without rights gets the sentence about ACLs, for each request."""
    security = KafkaSecurity(sasl=Sasl("PLAIN", "bob", Secret(USERS["bob"])))
    cluster = Cluster(addresses(broker.address("SASL_PLAINTEXT")), security, ReadLimits())
    topics = TopicAdmin(cluster, ReadLimits())
    name = unused_name()
    try:
        with pytest.raises(
            LogNotUsable, match=f"{name} cannot be created: allow this user CREATE on topic {name}"
        ):
            await topics.create([TopicSpec(name)])
        with pytest.raises(
            LogNotUsable, match=f"{name} cannot be described: allow this user DESCRIBE_CONFIGS on"
        ):
            await topics.configs([name])
    finally:
        await cluster.close()


async def test_retries_without_a_broker_end() -> None:
    """Retries end after the patience, with the sentence about the address."""
    (port,) = free_ports(1)
    cluster = Cluster((("127.0.0.1", port),), KafkaSecurity(), QUICK)
    with pytest.raises(LogUnavailable, match=f"no broker listens at 127.0.0.1:{port}"):
        await TopicAdmin(cluster, QUICK).create([TopicSpec("topic")])
    await cluster.close()
