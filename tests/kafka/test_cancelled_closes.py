"""A client whose `close` is cancelled at any step leaves no task and no connection."""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

import pytest

from controlplane.logs.kafka.appends.fenced_batches import FencedBatches
from controlplane.logs.kafka.appends.producer import KafkaProducer
from controlplane.logs.kafka.appends.record_batches import record_batches
from controlplane.logs.kafka.appends.transactions import Transactions
from controlplane.logs.kafka.cluster import Cluster, addresses
from controlplane.logs.kafka.limits import ReadLimits, WriteLimits
from controlplane.logs.kafka.log import KafkaLog, KafkaLogSettings
from controlplane.logs.kafka.reads.group_consumer import GroupConsumer
from controlplane.logs.kafka.reads.read_back import ReadBackReader
from controlplane.settings.security import KafkaSecurity
from tests.kafka.claimed_logs import put
from tests.kafka.conftest import NEWEST, unused_name
from tests.kafka.real_kafka import Broker
from tests.logs.test_cancelled_clients import IgnoredPartitions
from tests.worker.leak_checks import idle, until_same

pytestmark = [pytest.mark.java, pytest.mark.broker, NEWEST]

STEPS = 12
"""Steps of the event loop, after each of which a close is cancelled. A close takes fewer."""

Close = Callable[[], Awaitable[None]]


@pytest.fixture(autouse=True)
def _no_garbage_collection() -> Iterator[None]:
    """Let the garbage collector close nothing that was left open."""
    gc.disable()
    yield
    gc.enable()


@asynccontextmanager
async def running_producer(broker: Broker, topic: str) -> AsyncIterator[KafkaProducer]:
    """Producer that has appended a record. The caller closes it."""
    cluster = Cluster(addresses(broker.bootstrap), KafkaSecurity(), ReadLimits())
    producer = KafkaProducer(cluster, WriteLimits())
    await producer.start()
    await producer.send(record_batches([put(topic, "k")], producer.new_builder, None))
    yield producer
    await cluster.close()


@asynccontextmanager
async def stopped_producer(broker: Broker, topic: str) -> AsyncIterator[Close]:
    """Producer of a task, which sends its queue when it is closed."""
    async with running_producer(broker, topic) as producer:
        yield producer.stop


@asynccontextmanager
async def dropped_producer(broker: Broker, topic: str) -> AsyncIterator[Close]:
    """Producer of a task that was abandoned, or of a failed batch."""
    async with running_producer(broker, topic) as producer:
        yield producer.drop


@asynccontextmanager
async def transactions_of_a_task(broker: Broker, topic: str) -> AsyncIterator[Close]:
    """Producers of a source task with exactly-once support."""
    cluster = Cluster(addresses(broker.bootstrap), KafkaSecurity(), ReadLimits())
    limits, read_back = WriteLimits(), ReadBackReader(cluster, ReadLimits())
    batches = FencedBatches(cluster, limits)
    transactions = Transactions(cluster, unused_name(), limits, batches, read_back)
    await transactions.claim()
    await transactions.append([put(topic, "transaction"), put(topic, "transaction", 1)])
    await transactions.append([put(topic, "batch")])
    yield transactions.close
    await cluster.close()


@asynccontextmanager
async def consumer_of_a_group(broker: Broker, topic: str) -> AsyncIterator[Close]:
    """Consumer of a sink task that has read a record."""
    cluster = Cluster(addresses(broker.bootstrap), KafkaSecurity(), ReadLimits())
    async with running_producer(broker, topic) as producer:
        await producer.stop()
    options = {"auto_offset_reset": "earliest"}
    consumer = GroupConsumer(cluster, unused_name(), options, IgnoredPartitions())
    await consumer.start([topic])
    while not await consumer.poll(1):
        pass
    yield consumer.close


@asynccontextmanager
async def log_of_three_producers(broker: Broker, topic: str) -> AsyncIterator[Close]:
    """Log with a producer for transactions, one for single batches, and one without a claim."""
    settings = KafkaLogSettings(transactional_id=unused_name(), batch_topics=frozenset({topic}))
    log = await KafkaLog.connect(broker.bootstrap, settings)
    epoch = await log.claim()
    await log.append([put(topic, "transaction"), put(topic, "transaction", 1)], epoch)
    await log.append([put(topic, "batch")], epoch)
    await log.append([put(topic, "unclaimed")])
    yield log.close


@pytest.mark.parametrize(
    "opened",
    [
        stopped_producer,
        dropped_producer,
        transactions_of_a_task,
        consumer_of_a_group,
        log_of_three_producers,
    ],
)
async def test_a_cancelled_close_leaves_nothing(
    broker: Broker, topic: str, opened: Callable[[Broker, str], AbstractAsyncContextManager[Close]]
) -> None:
    """The close is cancelled after each step of the event loop; it still closes everything."""
    before = await idle()
    for steps in range(1, STEPS):
        async with opened(broker, topic) as close:
            closing = asyncio.ensure_future(close())
            for _ in range(steps):
                await asyncio.sleep(0)
            closing.cancel()
            with suppress(asyncio.CancelledError):
                await closing
        await until_same(before)
