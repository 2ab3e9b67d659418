"""KIP-875, sentences about sinks and zombies, on the consumer groups of a real broker."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import pytest_asyncio
from aiokafka.errors import KafkaError

from controlplane.controller.kafka_actions import KafkaActions
from controlplane.core.commands import CreateConnector, StopConnector
from controlplane.core.plan import FenceProducers
from controlplane.logs.kafka.connector_clusters import ConnectorClusters
from controlplane.plane import ControlPlane
from controlplane.settings import Configuration
from tests.controller.scene import plane_on
from tests.kafka.conftest import unused_name, up
from tests.kafka.consumers import consuming, groups_of
from tests.kafka.producer import create_topic, writer
from tests.kafka.real_kafka import Broker
from tests.ports import free_ports
from tests.rest.served_history import client_of

pytestmark = [pytest.mark.java, pytest.mark.broker]

SINK = {"connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector", "topics": "t"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def broker(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Broker]:
    """One broker for all tests, with the topic `t`."""
    async with up("4.3.0", tmp_path_factory.mktemp("kip-875")) as started:
        await create_topic(started, "t", 1)
        yield started


@asynccontextmanager
async def served(bootstrap: str) -> AsyncIterator[tuple[ControlPlane, httpx.AsyncClient]]:
    """A control plane beside a cluster, and a client of it."""
    clusters = ConnectorClusters(bootstrap, Configuration())
    try:
        async with (
            plane_on("memory:", outside=KafkaActions(clusters)) as plane,
            client_of(plane.app) as client,
        ):
            yield plane, client
    finally:
        await clusters.close()


async def committed(broker: Broker, group: str, offset: int) -> None:
    """Let a group commit an offset, as a sink's tasks do before they leave."""
    async with groups_of(broker.bootstrap) as groups:
        await groups.commit(group, {("t", 0): offset})


async def offsets_of(client: httpx.AsyncClient, name: str) -> Any:
    """Offsets of a connector; the request must succeed."""
    answer = await client.get(f"/connectors/{name}/offsets")
    assert answer.status_code == 200, answer.text
    return answer.json()["offsets"]


def at(offset: int) -> dict[str, Any]:
    """The one offset of a sink, as the service shows it."""
    partition = {"kafka_topic": "t", "kafka_partition": 0}
    return {"sink": [{"partition": partition, "offset": {"kafka_offset": offset}}]}


@pytest.mark.asyncio(loop_scope="module")
class TestResponseFormat:
    """Response format."""

    async def test_offsets_of_a_sink_have_topic_and_partition(self, broker: Broker) -> None:
        """A sink's offsets are under the word sink, each with topic, partition and offset."""
        name = unused_name()
        await committed(broker, f"connect-{name}", 3)
        async with served(broker.bootstrap) as (plane, client):
            await plane.execute(CreateConnector(name, SINK))
            assert await offsets_of(client, name) == at(3)


@pytest.mark.asyncio(loop_scope="module")
class TestBehavior:
    """Offsets endpoints behavior."""

    async def test_offsets_are_those_of_the_group(self, broker: Broker) -> None:
        """The offsets of a sink are the committed offsets of its consumer group."""
        name = unused_name()
        async with served(broker.bootstrap) as (plane, client):
            await plane.execute(CreateConnector(name, SINK))
            assert await offsets_of(client, name) == {"sink": []}
            for offset in (3, 8):
                await committed(broker, f"connect-{name}", offset)
                assert await offsets_of(client, name) == at(offset)

    async def test_a_fenced_producer_writes_nothing(self, broker: Broker) -> None:
        """A fenced producer cannot write any more."""
        name = unused_name()
        transactional_id = f"connect-cluster-{name}-0"
        clusters = ConnectorClusters(broker.bootstrap, Configuration())
        async with writer(broker, transactional_id=transactional_id) as out:
            await out.producer.begin_transaction()
            await out.put("t", 0, b"k", b"v")
            await KafkaActions(clusters).perform(FenceProducers(name, (transactional_id,)))
            with pytest.raises(KafkaError):
                await out.put("t", 0, b"k", b"late")
            with pytest.raises(KafkaError):
                await out.producer.abort_transaction()
        await clusters.close()


@pytest.mark.asyncio(loop_scope="module")
class TestOffsetsOfSinks:
    """Test Plan – Offsets tests of sinks."""

    async def test_offsets_of_a_running_sink_can_be_viewed(self, broker: Broker) -> None:
        """GET shows what a running consumer has committed."""
        name = unused_name()
        async with (
            served(broker.bootstrap) as (plane, client),
            consuming(broker, "t", f"connect-{name}") as consumer,
        ):
            await plane.execute(CreateConnector(name, SINK))
            await consumer.commit(dict.fromkeys(consumer.assignment(), 5))
            assert await offsets_of(client, name) == at(5)

    async def test_offsets_of_an_own_group_can_be_viewed(self, broker: Broker) -> None:
        """GET shows the group that the sink's config names."""
        name, group = unused_name(), unused_name()
        await committed(broker, group, 6)
        async with served(broker.bootstrap) as (plane, client):
            config = {**SINK, "consumer.override.group.id": group}
            await plane.execute(CreateConnector(name, config))
            assert await offsets_of(client, name) == at(6)

    async def test_offsets_on_another_cluster_can_be_viewed_and_reset(self, broker: Broker) -> None:
        """The sink's overrides name the other cluster's brokers."""
        name, (port,) = unused_name(), free_ports(1)
        overrides = {
            f"{client}.override.bootstrap.servers": broker.bootstrap
            for client in ("admin", "consumer")
        }
        await committed(broker, f"connect-{name}", 7)
        async with served(f"127.0.0.1:{port}") as (plane, client):
            await plane.execute(CreateConnector(name, {**SINK, **overrides}))
            assert await offsets_of(client, name) == at(7)
            await plane.execute(StopConnector(name))
            assert (await client.delete(f"/connectors/{name}/offsets")).status_code == 204
            assert await offsets_of(client, name) == {"sink": []}
