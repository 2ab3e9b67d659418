"""Clients of aiokafka that are cancelled, or closed, while they start."""

import asyncio
import gc
import struct
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.conn import AIOKafkaConnection
from aiokafka.protocol.metadata import MetadataRequest

from controlplane.core.entry import TopicPartition
from controlplane.logs.kafka.appends.producer import KafkaProducer
from controlplane.logs.kafka.cluster import BrokerAddress, Cluster, addresses
from controlplane.logs.kafka.limits import ReadLimits, WriteLimits
from controlplane.logs.kafka.log import KafkaLog, KafkaLogSettings
from controlplane.logs.kafka.reads.group_consumer import GroupConsumer
from controlplane.logs.kafka.reads.reader import KafkaReader
from controlplane.logs.log import LogUnavailable
from controlplane.settings.security import KafkaSecurity
from tests.patience import PATIENCE_S

API_VERSIONS, METADATA = 18, 3
"""Keys of requests in Kafka's protocol."""
KINDS = 60
"""Number of kinds of requests that the broker claims to know, in versions 0 to 4."""


class VersionsOnlyBroker:
    """Listener that tells its API versions, and answers nothing else."""

    def __init__(self) -> None:
        self.unanswered: asyncio.Queue[int] = asyncio.Queue()
        """Key of each request."""
        self.left = asyncio.Event()
        """Set when a client closes its connection."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection."""
        while size := await reader.read(4):
            request = await reader.readexactly(*struct.unpack(">i", size))
            kind, _, number, name_size = struct.unpack_from(">hhih", request)
            body = self.answer(kind, request[10 + name_size :])
            if body is None:
                self.unanswered.put_nowait(kind)
            else:
                writer.write(struct.pack(">ii", 4 + len(body), number) + body)
        writer.close()
        self.left.set()

    def answer(self, kind: int, request: bytes) -> bytes | None:
        """Body of the response to a request without its header; None: no answer."""
        del request
        if kind != API_VERSIONS:
            return None
        versions = b"".join(struct.pack(">hhh", key, 0, 4) for key in range(KINDS))
        return struct.pack(">hi", 0, KINDS) + versions


class IgnoredPartitions:
    """Listener of a consumer that gets no partitions."""

    async def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Do nothing."""

    async def lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Do nothing."""

    async def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Do nothing."""


def producer(cluster: Cluster) -> AIOKafkaProducer:
    """Producer of aiokafka as `KafkaProducer` makes it."""
    return KafkaProducer(cluster, WriteLimits())._producer


def consumer(cluster: Cluster) -> AIOKafkaConsumer:
    """Consumer of aiokafka as `GroupConsumer` makes it."""
    return GroupConsumer(cluster, "group", {}, IgnoredPartitions())._consumer


@pytest.mark.parametrize("new_client", [producer, consumer])
async def test_the_first_connection_is_closed(
    new_client: Callable[[Cluster], AIOKafkaProducer | AIOKafkaConsumer],
) -> None:
    """The broker has not answered yet when the start is cancelled."""
    broker = VersionsOnlyBroker()
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    async with asyncio.timeout(PATIENCE_S), server:
        host, port = server.sockets[0].getsockname()
        client = new_client(Cluster(addresses(f"{host}:{port}"), KafkaSecurity(), ReadLimits()))
        starting = asyncio.create_task(client.start())
        assert await broker.unanswered.get() == METADATA
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        await broker.left.wait()
        await client.stop()


def reader(bootstrap: str) -> Coroutine[Any, Any, KafkaReader]:
    """Open a reader of a cluster."""
    return KafkaReader.open(bootstrap)


def log(bootstrap: str) -> Coroutine[Any, Any, KafkaLog]:
    """Open a log in a cluster."""
    return KafkaLog.connect(bootstrap, KafkaLogSettings(transactional_id="id"))


@pytest.mark.parametrize("opened", [reader, log])
async def test_a_cancelled_opening_closes_its_connection(
    opened: Callable[[str], Coroutine[Any, Any, KafkaReader]],
) -> None:
    """The connection is closed at once, and not left to the garbage collector."""
    broker = VersionsOnlyBroker()
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    async with asyncio.timeout(PATIENCE_S), server:
        host, port = server.sockets[0].getsockname()
        gc.disable()
        try:
            opening = asyncio.create_task(opened(f"{host}:{port}"))
            assert await broker.unanswered.get() == METADATA
            opening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await opening
            await broker.left.wait()
        finally:
            gc.enable()


async def test_a_connection_that_opens_during_a_close_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The request that opened it is refused, and is not sent."""
    opened, may_return = asyncio.Event(), asyncio.Event()
    open_connection = Cluster._open

    async def open_late(cluster: Cluster, address: BrokerAddress) -> AIOKafkaConnection:
        """Open a connection, and return it once the test lets it."""
        connection = await open_connection(cluster, address)
        opened.set()
        await may_return.wait()
        return connection

    monkeypatch.setattr(Cluster, "_open", open_late)
    broker = VersionsOnlyBroker()
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    async with asyncio.timeout(PATIENCE_S), server:
        host, port = server.sockets[0].getsockname()
        cluster = Cluster(addresses(f"{host}:{port}"), KafkaSecurity(), ReadLimits())
        asking = asyncio.create_task(cluster.send_to((host, port), MetadataRequest([])))
        await opened.wait()
        await cluster.close()
        may_return.set()
        with pytest.raises(LogUnavailable, match="is closed"):
            await asking
        await broker.left.wait()
    assert broker.unanswered.empty()
