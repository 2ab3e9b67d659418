"""A capture by Spark's Kafka source makes the archive that a capture without Spark makes."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from controlplane.core.state import Topics
from controlplane.logs.kafka.reader import KafkaReader
from replay.archive.cluster import Cluster
from replay.archive.segments import Sizes
from replay.archive.store import Folder
from replay.archive.verify import verified
from replay.capture.capture import Capture, Target
from replay.capture.secrets import kept
from replay.capture.spark import Source, SparkCapture
from tests.kafka.real import Broker
from tests.kafka.writing import Writer, in_order, settled, writer
from tests.replay.test_appending import archived

pytestmark = [pytest.mark.java, pytest.mark.broker, pytest.mark.usefixtures("kafka_jars")]

NewTopic = Callable[..., Awaitable[str]]

HEADERS = (("h", None), ("", b"x"), ("h", b"\xff"))


class Both:
    """The same cluster, captured in both ways."""

    def __init__(
        self, spark: SparkSession, broker: Broker, reader: KafkaReader, folder: Path
    ) -> None:
        self.source = Source(spark, broker.bootstrap, {})
        self.reader = reader
        self.folder = folder
        self.topics = Topics()

    async def capture(self) -> tuple[Cluster, Cluster]:
        """What both have archived; they must have added as much."""
        plain, by_spark = (self.target(name) for name in ("plain", "spark"))
        one = await Capture(self.reader, plain, goes_on=True).run()
        other = await SparkCapture(self.reader, by_spark, self.source).run()
        assert (one.read, one.added, one.left_out) == (other.read, other.added, other.left_out)
        return one.cluster, other.cluster

    def target(self, name: str) -> Target:
        """An archive of its own."""
        store = Folder(str(self.folder / name))
        return Target(store, "real", self.topics, kept(self.topics), Sizes(5, 2))


@pytest.fixture
async def both(
    spark: SparkSession, broker: Broker, reader: KafkaReader, new_topic: NewTopic, tmp_path: Path
) -> Both:
    """A cluster with topics of its own."""
    found = Both(spark, broker, reader, tmp_path)
    keyless = await new_topic(2, cleanup__policy="delete")
    found.topics = Topics(await new_topic(), await new_topic(2), keyless, "none")
    return found


async def some_records(out: Writer, topics: Topics, count: int = 12) -> None:
    """Configs and offsets; tombstones, headers, and times before and behind each other."""
    for number in range(count):
        at_ms = 1_700_000_000_000 - number
        config = b'{"properties":{"n":"%d"}}' % number
        await out.put(topics.config, 0, b"connector-%d" % number, config, timestamp=at_ms)
        value = b"1" if number % 3 else None
        key = b'["a",{"n":%d}]' % number
        await out.put(topics.offsets, number % 2, key, value, headers=HEADERS, timestamp=at_ms)
    await out.put_nothing(topics.status, 1)


async def test_an_archive_is_the_same_in_both_ways(both: Both, broker: Broker) -> None:
    """In three captures, of which one comes while a transaction is open, and one finds nothing."""
    topics = both.topics
    async with writer(broker) as plain:
        await some_records(plain, topics)
    entries = list(plain.written)
    one, other = await both.capture()
    assert archived(other) == archived(one) == in_order(entries)
    transaction = f"t-{topics.config}"
    async with writer(broker, transactional_id=transaction) as out:
        for commit in (True, False):
            await out.producer.begin_transaction()
            for topic in (topics.config, topics.offsets, topics.status):
                await out.put(topic, 0, b"commit-a", b'{"tasks":0}')
            if commit:
                assert archived((await both.capture())[1]) == in_order(entries)
            entries += await out.end(commit=commit)
    await settled(broker, transaction)
    for _ in range(2):
        one, other = await both.capture()
        assert archived(other) == archived(one) == in_order(entries)
        assert other.parts == one.parts
        assert (verified(other).flaws, verified(other).gaps) == ((), ())
    assert sum(entry.aborted for entry in entries) == 3
