"""A capture by Spark's Kafka source makes the same archive as a capture without Spark."""

from base64 import b64encode
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from controlplane.core.state import Topics
from controlplane.logs.kafka.reads.reader import KafkaReader
from replay.archive.archived_cluster import ArchivedCluster
from replay.archive.segments.segment_files import SegmentSizes
from replay.archive.stores.store import FolderStore
from replay.archive.verification import verified
from replay.capture.log_capture import CaptureResult, CaptureTarget, LogCapture
from replay.capture.secrets import SecretPolicy, encrypted_secrets, kept_secrets
from replay.capture.spark_capture import KafkaFrames, SparkCapture
from replay.errors import NotCapturable
from tests.conftest import PROVE
from tests.kafka.conftest import RELEASES
from tests.kafka.producer import NewTopic, TopicProducer, writer
from tests.kafka.real_kafka import Broker
from tests.kafka.topic_histories import HEADERS, decided, removed
from tests.logs.reading_contract import by_position
from tests.replay.archive.archives import archived

pytestmark = [
    pytest.mark.java,
    pytest.mark.broker,
    pytest.mark.usefixtures("kafka_jars"),
    pytest.mark.parametrize("broker", RELEASES if PROVE else RELEASES[-1:], indirect=True),
]


class TwoCaptures:
    """One cluster, captured with and without Spark."""

    def __init__(
        self, spark: SparkSession, broker: Broker, reader: KafkaReader, folder: Path
    ) -> None:
        self.source = KafkaFrames(spark, broker.bootstrap, {})
        self.reader = reader
        self.folder = folder
        self.topics = Topics()

    async def capture(self) -> tuple[ArchivedCluster, ArchivedCluster]:
        """Capture with and without Spark; both must add the same number of records."""
        plain = await LogCapture(self.reader, self.target("plain"), goes_on=True).run()
        other = await self.by_spark()
        assert (plain.read, plain.added, plain.left_out) == (
            other.read,
            other.added,
            other.left_out,
        )
        return plain.cluster, other.cluster

    async def by_spark(self, secrets: SecretPolicy | None = None) -> CaptureResult:
        """Capture with Spark and return the result."""
        target = self.target("spark", secrets)
        return await SparkCapture(self.reader, target, self.source).run()

    def target(self, name: str, secrets: SecretPolicy | None = None) -> CaptureTarget:
        """Return a target with an archive of its own."""
        store = FolderStore(str(self.folder / name))
        return CaptureTarget(
            store, "real", self.topics, secrets or kept_secrets(self.topics), SegmentSizes(5, 2)
        )


@pytest.fixture
async def two_captures(
    spark: SparkSession, broker: Broker, reader: KafkaReader, new_topic: NewTopic, tmp_path: Path
) -> TwoCaptures:
    """Cluster with topics of its own."""
    captures = TwoCaptures(spark, broker, reader, tmp_path)
    keyless = await new_topic(2, cleanup__policy="delete")
    any_time = await new_topic(message__timestamp__after__max__ms=2**63 - 1)
    captures.topics = Topics(any_time, await new_topic(2), keyless, "none")
    return captures


async def some_records(out: TopicProducer, topics: Topics, count: int = 12) -> None:
    """Configs and offsets with tombstones, headers, and times out of order."""
    for number in range(count):
        at_ms = 1_700_000_000_000 - number
        config = b'{"properties":{"n":"%d"}}' % number
        await out.put(topics.config, 0, b"connector-%d" % number, config, timestamp=at_ms)
        value = b"1" if number % 3 else None
        key = b'["a",{"n":%d}]' % number
        await out.put(topics.offsets, number % 2, key, value, headers=HEADERS, timestamp=at_ms)
    await out.put_nothing(topics.status, 1)


@pytest.mark.prove
async def test_an_archive_is_the_same_in_both_ways(
    two_captures: TwoCaptures, broker: Broker
) -> None:
    """Archives are equal during an open transaction, and after a commit and an abort.

    A further capture adds no records.
    """
    topics = two_captures.topics
    async with writer(broker) as plain:
        await some_records(plain, topics)
    entries = list(plain.written)

    async def while_open() -> None:
        plain_cluster, other = await two_captures.capture()
        assert archived(other) == archived(plain_cluster) == by_position(entries)

    names = (topics.config, topics.offsets, topics.status)
    entries += await decided(broker, names, while_open)
    for _ in range(2):
        plain_cluster, other = await two_captures.capture()
        assert archived(other) == archived(plain_cluster) == by_position(entries)
        assert other.parts == plain_cluster.parts
        assert (verified(other).flaws, verified(other).gaps) == ((), ())
    assert sum(entry.aborted for entry in entries) == 3


async def test_removed_records_are_a_gap(two_captures: TwoCaptures, broker: Broker) -> None:
    """Records that Kafka removed before their capture are a gap in both archives."""
    topics = two_captures.topics
    async with writer(broker) as out:
        await some_records(out, topics, 3)
        await two_captures.capture()
        await some_records(out, topics, 3)
        await removed(broker, topics.status, 1, 2)
        await some_records(out, topics, 1)
        plain_cluster, other = await two_captures.capture()
    assert list(other.gaps) == list(plain_cluster.gaps) == [(topics.status, 1, range(1, 2))]
    assert archived(other) == archived(plain_cluster)


async def test_the_capture_finds_topics_of_single_connectors(
    two_captures: TwoCaptures, broker: Broker, new_topic: NewTopic, tmp_path: Path
) -> None:
    """The capture finds a connector's own topic as it reads the configs, and encrypts secrets."""
    own = await new_topic()
    config = b'{"properties":{"password":"hunter2","offsets.storage.topic":"%s"}}' % own.encode()
    async with writer(broker) as out:
        await out.put(two_captures.topics.config, 0, b"connector-a", config)
        await out.put(own, 0, b'["a",{}]', b"1")
    key = tmp_path / "key"
    key.write_bytes(b64encode(bytes(64)))
    secrets = encrypted_secrets(two_captures.topics, key)
    captured = await two_captures.by_spark(secrets)
    assert (captured.added, own in captured.cluster.ends) == (2, True)
    (value,) = (entry.value for entry in archived(captured.cluster) if entry.topic != own)
    assert value is not None
    assert (b"hunter2" in value, b"${encrypted:" in value) == (False, True)
    assert (await two_captures.by_spark(secrets)).added == 0


async def test_a_time_beyond_sparks_range_is_refused(
    two_captures: TwoCaptures, broker: Broker
) -> None:
    """Spark's timestamps count microseconds; a record with a time beyond their range is refused."""
    async with writer(broker) as out:
        await out.put(two_captures.topics.config, 0, b"connector-a", b"{}", timestamp=2**60)
    with pytest.raises(NotCapturable, match=r"later than Spark can read .* --engine local"):
        await two_captures.by_spark()
