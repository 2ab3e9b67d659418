"""Requests with values that Kafka's protocol cannot hold."""

import asyncio

import pytest
from aiokafka.protocol.coordination import FindCoordinatorRequest
from aiokafka.protocol.metadata import MetadataRequest

from controlplane.logs.kafka.cluster import Cluster, addresses
from controlplane.logs.kafka.limits import ReadLimits
from controlplane.logs.log import LogNotUsable
from controlplane.settings.security import KafkaSecurity
from tests.logs.test_cancelled_clients import METADATA, VersionsOnlyBroker
from tests.patience import PATIENCE_S


@pytest.mark.parametrize("group", ["g" * 40_000, "g\ud800"], ids=["long", "surrogate"])
async def test_a_request_that_cannot_be_encoded_keeps_the_connection(group: str) -> None:
    """The name is refused; other requests on the connection go on."""
    broker = VersionsOnlyBroker()
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    async with asyncio.timeout(PATIENCE_S), server:
        address = server.sockets[0].getsockname()
        cluster = Cluster(addresses("{}:{}".format(*address)), KafkaSecurity(), ReadLimits())
        asking = asyncio.create_task(cluster.send_to(address, MetadataRequest([])))
        assert await broker.unanswered.get() == METADATA
        with pytest.raises(LogNotUsable, match="a name of more than 32,767 bytes, half a"):
            await cluster.send_to(address, FindCoordinatorRequest(group, 0))
        assert address in cluster._connections
        asking.cancel()
        await cluster.close()
