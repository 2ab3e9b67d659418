"""Requests to a broker that accepts connections, and answers nothing."""

import asyncio

import pytest

from controlplane.logs.kafka.cluster import Cluster, addresses
from controlplane.logs.kafka.limits import ReadLimits
from controlplane.logs.log import LogUnavailable
from controlplane.settings.security import KafkaSecurity
from tests.patience import PATIENCE_S


class HungBroker:
    """Listener that counts its connections, and closes them when the client does."""

    def __init__(self) -> None:
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read a connection to its end."""
        self.connections += 1
        await reader.read()
        writer.close()


async def test_requests_share_a_failed_attempt_to_connect() -> None:
    """A request does not wait for the time-outs of those before it; a later one tries again."""
    broker = HungBroker()
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    async with asyncio.timeout(PATIENCE_S), server:
        limits = ReadLimits(connect_timeout_ms=50)
        address = "{}:{}".format(*server.sockets[0].getsockname())
        cluster = Cluster(addresses(address), KafkaSecurity(), limits)
        requests = [cluster.layout([]) for _ in range(5)]
        failures = await asyncio.gather(*requests, return_exceptions=True)
        assert {type(failure) for failure in failures} == {LogUnavailable}
        assert broker.connections == 1
        with pytest.raises(LogUnavailable, match="does not answer in time"):
            await cluster.layout([])
        assert broker.connections == 2
        await cluster.close()
