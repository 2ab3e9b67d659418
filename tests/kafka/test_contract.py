"""The log contract on real brokers that hold its sample."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from itertools import groupby

import pytest
import pytest_asyncio
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from controlplane.core.entry import Entry
from controlplane.logs.kafka.limits import WriteLimits
from controlplane.logs.kafka.log import KafkaLog, KafkaLogSettings
from controlplane.logs.kafka.reads.reader import KafkaReader
from tests.kafka.conftest import RELEASES, up
from tests.kafka.producer import TopicProducer, admin, create_topic, reading, settled, writer
from tests.kafka.real_kafka import Broker
from tests.logs.contract import LogContract
from tests.logs.reading_contract import ENDS, SAMPLE, TOPICS, ReadingContract
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.java, pytest.mark.broker]

COMMITTED = {("config", 0, 2), ("offsets", 2, 0)}
"""Positions of the sample's only committed transaction."""


def _transaction(entry: Entry) -> str:
    """Transaction in which an entry was written; "" for none."""
    return "aborted" if entry.aborted else "committed" * (entry.position in COMMITTED)


async def _write(out: TopicProducer, entries: Iterable[Entry]) -> None:
    for entry in entries:
        written = await out.put(
            entry.topic,
            entry.partition,
            entry.key,
            entry.value,
            headers=entry.headers,
            timestamp=entry.timestamp,
        )
        assert written.position == entry.position


async def fill(broker: Broker) -> None:
    """Write the sample with its transactions to Kafka."""
    for topic, partitions in TOPICS.items():
        # The sample has null keys and times long past: nothing may be refused or expire.
        await create_topic(broker, topic, partitions, cleanup__policy="delete", retention__ms=-1)
    for name, entries in groupby(SAMPLE, _transaction):
        async with writer(broker, transactional_id=name or None) as out:
            if name:
                await out.producer.begin_transaction()
            await _write(out, entries)
            if name:
                await out.end(commit=name == "committed")
        if name:
            await settled(broker, name)
    settings = {"cleanup.policy": "compact", "retention.ms": "-1"}
    async with admin(broker) as client:
        for topic in TOPICS:
            resource = ConfigResource(ConfigResourceType.TOPIC, topic, settings)
            await client.alter_configs([resource])


async def holds_sample(log: KafkaReader) -> bool:
    """True if no test has written since `fill`."""
    return dict(await log.topics()) == TOPICS and dict(await log.ends(TOPICS)) == ENDS


async def clear(broker: Broker) -> None:
    """Delete all topics except Kafka's internal ones."""
    async with admin(broker) as client, asyncio.timeout(PATIENCE_S):
        while topics := [name for name in await client.list_topics() if name[0] != "_"]:
            await client.delete_topics(topics)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=RELEASES)
async def sample_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Broker]:
    """Broker of these tests alone, so that it has no other topics."""
    async with up(
        request.param, tmp_path_factory.mktemp("sample"), log__cleaner__enable=False
    ) as broker:
        yield broker


async def filled_broker(broker: Broker) -> None:
    """Fill a broker with the sample and nothing else."""
    async with reading(broker.bootstrap) as reader:
        if await holds_sample(reader):
            return
    await clear(broker)
    await fill(broker)


@asynccontextmanager
async def writing(broker: Broker) -> AsyncIterator[KafkaLog]:
    """Writable log of the broker."""
    settings = KafkaLogSettings(
        transactional_id="connect-cluster-contract",
        batch_topics=frozenset(TOPICS),
        # The records of the contract are old; by default, old records need a transaction.
        writing=WriteLimits(confirmation_max_age_ms=time.time_ns() // 1_000_000),
    )
    log = await KafkaLog.connect(broker.bootstrap, settings)
    try:
        yield log
    finally:
        await log.close()


class TestKafkaReader(ReadingContract):
    """A reader of a cluster meets the contract of every reader."""

    @pytest_asyncio.fixture
    async def filled(self, sample_broker: Broker) -> AsyncIterator[KafkaReader]:
        """Reader of the broker with the sample."""
        await filled_broker(sample_broker)
        async with reading(sample_broker.bootstrap) as reader:
            yield reader


class TestKafkaLog(LogContract):
    """A log in a cluster meets the contract of every log."""

    takes_records_without_keys = False

    @pytest_asyncio.fixture
    async def log(self, sample_broker: Broker) -> AsyncIterator[KafkaLog]:
        """Log of a broker without topics."""
        await clear(sample_broker)
        async with writing(sample_broker) as log:
            yield log

    @pytest_asyncio.fixture
    async def filled(self, sample_broker: Broker) -> AsyncIterator[KafkaLog]:
        """Log of the broker with the sample."""
        await filled_broker(sample_broker)
        async with writing(sample_broker) as log:
            yield log
