"""The reading half of the log contract, on real brokers that hold its sample."""

from collections.abc import AsyncIterator, Iterable
from itertools import groupby

import pytest
import pytest_asyncio

from controlplane.core.entry import Entry
from controlplane.logs.kafka.reader import KafkaReader
from tests.kafka.conftest import RELEASES, up
from tests.kafka.producer import TopicProducer, create_topic, reading, settled, writer
from tests.kafka.real_kafka import Broker
from tests.logs.reading_contract import SAMPLE, TOPICS, ReadingContract

pytestmark = [pytest.mark.java, pytest.mark.broker]

COMMITTED = {("config", 0, 2), ("offsets", 2, 0)}
"""The places of the sample's one transaction that was not aborted."""


def _transaction(entry: Entry) -> str:
    """Name of the transaction in which an entry was written; empty for none."""
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
    """Write the sample as Kafka would have come to hold it, transactions and all."""
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


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=RELEASES)
async def sample_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Broker]:
    """A broker of its own, so that nothing else is there."""
    async with up(request.param, tmp_path_factory.mktemp("sample")) as broker:
        await fill(broker)
        yield broker


class TestKafkaReader(ReadingContract):
    """A reader of a cluster reads as every other log does."""

    @pytest_asyncio.fixture
    async def filled(self, sample_broker: Broker) -> AsyncIterator[KafkaReader]:
        """A reader of the broker that holds the sample."""
        async with reading(sample_broker.bootstrap) as reader:
            yield reader
