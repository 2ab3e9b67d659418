"""Request that fences the producers with a transactional id."""

import asyncio
import struct

from controlplane.logs.kafka.admin.consumer_groups import GroupAdmin
from controlplane.logs.kafka.cluster import Cluster, addresses
from controlplane.logs.kafka.limits import ReadLimits
from controlplane.settings.security import KafkaSecurity
from tests.logs.test_cancelled_clients import VersionsOnlyBroker
from tests.patience import PATIENCE_S

FIND_COORDINATOR, INIT_PRODUCER_ID = 10, 22
"""Keys of requests in Kafka's protocol."""


class CoordinatingBroker(VersionsOnlyBroker):
    """Broker that coordinates the producers; it notes the time-outs of their transactions."""

    def __init__(self) -> None:
        super().__init__()
        self.port = 0
        self.timeouts_ms: list[int] = []

    def answer(self, kind: int, request: bytes) -> bytes | None:
        """Answer the two requests of the fencing without an error."""
        if kind == FIND_COORDINATOR:  # version 1
            return struct.pack(">ihhih9si", 0, 0, -1, 1, 9, b"127.0.0.1", self.port)
        if kind == INIT_PRODUCER_ID:  # version 0
            self.timeouts_ms += struct.unpack(">i", request[-4:])
            return struct.pack(">ihqh", 0, 0, 7, 0)
        return super().answer(kind, request)


async def test_a_broker_has_the_time_of_a_request_to_fence() -> None:
    """The coordinator writes the new epoch within this time-out, on all replicas (KAFKA-16047)."""
    broker, limits = CoordinatingBroker(), ReadLimits()
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    async with asyncio.timeout(PATIENCE_S), server:
        broker.port = server.sockets[0].getsockname()[1]
        cluster = Cluster(addresses(f"127.0.0.1:{broker.port}"), KafkaSecurity(), limits)
        await GroupAdmin(cluster, limits).fence("connect-cluster-orders-0")
        assert broker.timeouts_ms == [limits.request_timeout_ms]
        await cluster.close()
