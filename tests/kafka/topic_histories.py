"""Cluster with a history: Kafka has compacted, removed and marked some of its records."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import count

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from controlplane.core.entry import Entry, Position
from controlplane.core.state import Topics
from replay.archive.archived_cluster import PartitionId
from tests.kafka.producer import NewTopic, admin, settled, writer
from tests.kafka.real_kafka import Broker
from tests.logs.reading_contract import by_position
from tests.patience import PATIENCE_S

COMPACTED_SOON = {
    "segment__ms": 100,
    "min__cleanable__dirty__ratio": 0.0,
    "max__compaction__lag__ms": 100,
    "delete__retention__ms": 100,
}
"""Settings of a topic of which everything but the active segment is compacted at once."""

A_DAY_MS = 86_400_000

ROUND = 8
CONNECTORS = 3
HEADERS = (("h", None), ("", b"x"), ("h", b"\xff"))

_transactions = count()


async def compacted(
    write: Callable[[], Awaitable[object]], done: Callable[[], Awaitable[bool]]
) -> None:
    """Write to a topic of `COMPACTED_SOON` until Kafka has compacted it."""
    async with asyncio.timeout(PATIENCE_S):
        while not await done():
            # Only records before the active segment are compacted. A write begins a new segment
            # only after `segment.ms`: time has to pass, without an event.
            await asyncio.sleep(0.2)
            await write()


async def removed(broker: Broker, topic: str, partition: int, before: int) -> None:
    """Let a broker remove the records before an offset."""
    gone = {TopicPartition(topic, partition): RecordsToDelete(before_offset=before)}
    async with admin(broker) as client:
        await client.delete_records(gone)


async def decided(
    broker: Broker,
    topics: Sequence[str],
    while_open: Callable[[], Awaitable[object]] | None = None,
) -> list[Entry]:
    """Write a committed and an aborted transaction; return the entries that a reader finds of both.

    Each has a record in partition 0 of each topic. `while_open` is awaited while the first is open.
    """
    entries: list[Entry] = []
    transaction = f"transaction-{next(_transactions)}"
    async with writer(broker, transactional_id=transaction) as out:
        for commit in (True, False):
            await out.producer.begin_transaction()
            for topic in topics:
                await out.put(topic, 0, b"commit-a", b'{"tasks":0}')
            if while_open and commit:
                await while_open()
            entries += await out.end(commit=commit)
    await settled(broker, transaction)
    return entries


async def offsets_there(broker: Broker, partitions: Iterable[PartitionId]) -> set[Position]:
    """Positions of all records of partitions, aborted ones too, according to another client."""
    positions = set()
    assigned = [TopicPartition(*partition) for partition in partitions]
    async with AIOKafkaConsumer(bootstrap_servers=broker.bootstrap) as consumer:
        consumer.assign(assigned)
        await consumer.seek_to_beginning()
        ends = await consumer.end_offsets(assigned)
        while any([await consumer.position(partition) < end for partition, end in ends.items()]):
            for records in (await consumer.getmany(timeout_ms=100)).values():
                positions |= {
                    Position(record.topic, record.partition, record.offset) for record in records
                }
    return positions


class TopicHistory:
    """Topics of a cluster and of a connector with its own topic, with all writes."""

    def __init__(self, broker: Broker, topics: Topics, own: str) -> None:
        self.broker = broker
        self.topics = topics
        self.own = own
        self._written: list[Entry] = []

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the topics of this history."""
        return (self.topics.config, self.topics.offsets, self.topics.status, self.own)

    async def present_entries(self) -> list[Entry]:
        """Written records that are still in the topics, in order."""
        partitions = {(entry.topic, entry.partition) for entry in self._written}
        present = await offsets_there(self.broker, partitions)
        return by_position(entry for entry in self._written if entry.position in present)

    async def write_more(self, while_open: Callable[[], Awaitable[object]] | None = None) -> None:
        """Write more records to all topics: plain ones, a committed and an aborted transaction."""
        async with writer(self.broker) as out:
            for number in range(ROUND):
                name = b"%d" % (number % CONNECTORS)
                await out.put(self.topics.config, 0, b"connector-" + name, b'{"properties":{}}')
                at = number % 2
                key = b'["connector-%s",{}]' % name
                await out.put(self.topics.offsets, at, key, b"%d" % number, headers=HEADERS)
                await out.put(self.topics.status, at, b"status-connector-" + name, b"{}")
                await out.put(self.own, 0, key, b"%d" % number if number else None)
        self._written += out.written
        self._written += await decided(self.broker, self.names, while_open)

    async def begins(self) -> None:
        """Write one config that names the connector's own topic; have the config topic compacted.

        Kafka does not compact it again.
        """
        config = self.topics.config
        names_it = b'{"properties":{"offsets.storage.topic":"%s"}}' % self.own.encode()
        async with writer(self.broker) as out:
            await out.put(config, 0, b"connector-own", names_it)
            await compacted(lambda: out.put(config, 0, b"connector-0", b"{}"), self._has_holes)
        self._written += out.written
        settings = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(A_DAY_MS)}
        topic = ConfigResource(ConfigResourceType.TOPIC, config, settings)
        async with admin(self.broker) as client:
            await client.alter_configs([topic])

    async def _has_holes(self) -> bool:
        positions = await offsets_there(self.broker, [(self.topics.config, 0)])
        return max(position.offset for position in positions) > 2 * len(positions)


async def cluster_with_history(broker: Broker, new_topic: NewTopic) -> TopicHistory:
    """Cluster in which Kafka has compacted, removed and marked some records."""
    config = await new_topic(1, **COMPACTED_SOON)
    own = await new_topic(cleanup__policy="delete")  # brokers remove records only here
    past = TopicHistory(broker, Topics(config, await new_topic(2), await new_topic(2)), own)
    await past.begins()
    await past.write_more()
    await past.write_more()
    await removed(broker, own, 0, 3)
    return past
