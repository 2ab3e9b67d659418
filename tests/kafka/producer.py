"""Writes to brokers in tests with aiokafka's producer, and the entries that readers must find."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as Wanted
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import NoError, TopicAlreadyExistsError
from aiokafka.protocol.produce import ProduceRequest

from controlplane.core.entry import Entry, Headers
from controlplane.core.order import Ends
from controlplane.logs.kafka.limits import ReadLimits
from controlplane.logs.kafka.reads.reader import KafkaReader
from tests.kafka.real_kafka import Broker
from tests.logs.reading_contract import by_position
from tests.patience import PATIENCE_S

NewTopic = Callable[..., Awaitable[str]]
"""Creates a topic with this number of partitions and settings; returns its name."""

ONE_BATCH = ReadLimits(fetch_max_bytes=1, partition_max_bytes=1)
"""Limits with which a fetch returns one record batch, the smallest possible step."""

PRODUCE_TIMEOUT_MS = 10_000
RETRY_BACKOFF_MS = 10
"""Wait of a transactional producer for a predecessor's marker, and of a test for a new topic."""


@asynccontextmanager
async def admin(broker: Broker) -> AsyncIterator[AIOKafkaAdminClient]:
    """Client that may change topics: it knows the controller, which a new broker names late."""
    client = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await client.start()
    try:
        async with asyncio.timeout(PATIENCE_S):
            while client._client.cluster.controller is None:
                await client._client.force_metadata_update()
                await asyncio.sleep(RETRY_BACKOFF_MS / 1000)
        yield client
    finally:
        await client.close()


async def create_topic(broker: Broker, name: str, partitions: int = 1, **configs: object) -> None:
    """Create a topic, compacted by default; `__` in a setting's name is a dot."""
    settings = {"cleanup.policy": "compact"}
    settings |= {key.replace("__", "."): str(value) for key, value in configs.items()}
    await _create(broker, Wanted(name, partitions, 1, topic_configs=settings))


async def create_topic_on(broker: Broker, name: str, node: int) -> None:
    """Create a compacted topic of one partition on this node of the cluster."""
    topic = Wanted(
        name,
        num_partitions=-1,
        replication_factor=-1,
        replica_assignments={0: [node]},
        topic_configs={"cleanup.policy": "compact"},
    )
    await _create(broker, topic)


async def _create(broker: Broker, topic: Wanted) -> None:
    """Create a topic and wait until the broker has it: the controller answers before that."""
    async with admin(broker) as client, asyncio.timeout(PATIENCE_S):
        answer = await client.create_topics([topic])
        ((name, code, *_),) = answer.topic_errors
        assert code in {NoError.errno, TopicAlreadyExistsError.errno}, answer
        # A list of all topics would cost milliseconds once a broker has hundreds.
        while (await client.describe_topics([name]))[0]["error_code"]:  # noqa: ASYNC110
            await asyncio.sleep(RETRY_BACKOFF_MS / 1000)


async def delete_topic(broker: Broker, name: str) -> None:
    """Delete a topic of the broker."""
    async with admin(broker) as client:
        await client.delete_topics([name])


def _now_ms() -> int:
    # A record much younger than the first of its segment starts a new one, and the cleaner compacts
    # closed segments. Markers have the present time, so records need it, too.
    return time.time_ns() // 1_000_000


class TopicProducer:
    """Producer that keeps its records as the entries that a reader must find."""

    def __init__(self, producer: AIOKafkaProducer) -> None:
        self.producer = producer
        self.written: list[Entry] = []

    async def put(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        *,
        headers: Headers = (),
        timestamp: int | None = None,
    ) -> Entry:
        """Write one record and wait for its acknowledgement."""
        at_ms = _now_ms() if timestamp is None else timestamp
        metadata = await self.producer.send_and_wait(
            topic, value, key, partition=partition, timestamp_ms=at_ms, headers=list(headers)
        )
        # A topic with the broker's time returns it; otherwise the time is the one that was sent.
        stamped = metadata.timestamp if metadata.timestamp_type else at_ms
        entry = Entry(topic, partition, metadata.offset, stamped, key, value, headers)
        self.written.append(entry)
        return entry

    async def put_nothing(self, topic: str, partition: int) -> None:
        """Write a record without key and value, which a plain `send` refuses."""
        batch, at_ms = self.producer.create_batch(), _now_ms()
        batch.append(timestamp=at_ms, key=None, value=None)
        batch.close()
        metadata = await (await self.producer.send_batch(batch, topic, partition=partition))
        self.written.append(Entry(topic, partition, metadata.offset, at_ms, None, None))

    async def end(self, *, commit: bool) -> list[Entry]:
        """End the transaction; return the entries of all writes since the last end."""
        written, self.written = self.written, []
        if commit:
            await self.producer.commit_transaction()
            return written
        await self.producer.abort_transaction()
        return [msgspec.structs.replace(entry, aborted=True) for entry in written]


@asynccontextmanager
async def writer(
    broker: Broker, *, transactional_id: str | None = None, codec: str | None = None
) -> AsyncIterator[TopicProducer]:
    """Open a producer; a transactional id makes it transactional."""
    producer = AIOKafkaProducer(
        bootstrap_servers=broker.bootstrap,
        enable_idempotence=True,
        transactional_id=transactional_id,
        transaction_timeout_ms=PATIENCE_S * 1000,
        compression_type=codec,
        retry_backoff_ms=RETRY_BACKOFF_MS,
    )
    await producer.start()
    try:
        yield TopicProducer(producer)
    finally:
        await producer.stop()


async def produce(broker: Broker, topic: str, *values: str, partitions: int = 1) -> None:
    """Write values to the partitions of a topic in turn."""
    async with writer(broker) as out:
        for number, value in enumerate(values):
            await out.put(topic, number % partitions, None, value.encode())


async def send_raw(broker: Broker, topic: str, batch: bytes) -> None:
    """Write the bytes of a record batch to partition 0, even if no producer would make it."""
    client = AIOKafkaClient(bootstrap_servers=broker.bootstrap)
    await client.bootstrap()
    try:
        request = ProduceRequest(None, -1, PRODUCE_TIMEOUT_MS, [(topic, [(0, batch)])])
        answer = await client.send(client.get_random_node(), request)
    finally:
        await client.close()
    ((_, ((_, code, *_),)),) = answer.topics
    assert code == 0


async def settled(broker: Broker, *transactional_ids: str) -> None:
    """Wait until the log has the end of every transaction of these producers.

    A commit returns before its markers are written. A new producer of the same id is accepted only
    after them.
    """
    for transactional_id in transactional_ids:
        async with writer(broker, transactional_id=transactional_id):
            pass


@asynccontextmanager
async def reading(bootstrap: str, **options: Any) -> AsyncIterator[KafkaReader]:
    """Reader with its own options, closed on exit."""
    reader = await KafkaReader.open(bootstrap, **options)
    try:
        yield reader
    finally:
        await reader.close()


async def read_entries(
    reader: KafkaReader,
    topics: Sequence[str],
    start: Ends | None = None,
    stop: Ends | None = None,
) -> list[Entry]:
    """All entries of a reader in order; fails if a partition's entries are out of order."""
    entries: list[Entry] = []
    last: dict[tuple[str, int], int] = {}
    async for batch in reader.read(topics, start, stop):
        assert len(batch) > 0
        for entry in batch.entries():
            at = (entry.topic, entry.partition)
            assert entry.offset > last.get(at, -1)
            last[at] = entry.offset
            entries.append(entry)
    return by_position(entries)
