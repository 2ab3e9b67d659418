"""Compression of records in the topics of `serve --own`, as the worker's file sets it."""

import pytest

from controlplane.core.state import Topics
from controlplane.logs.kafka.cluster import Cluster, addresses
from controlplane.logs.kafka.limits import ReadLimits
from controlplane.logs.kafka.protocol.read_requests import fetch_request, fetched
from controlplane.logs.kafka.reads.frames import partition_frames
from controlplane.settings.security import KafkaSecurity
from tests.kafka.claimed_logs import put
from tests.kafka.real_kafka import Broker, KafkaWorker, cluster_settings
from tests.kafka.test_own_topics import own_log
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.java, pytest.mark.broker]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
"""Kafka's names of the compression types, by their number in a record batch."""

LONG = b"v" * 10_000
FILE = "org.apache.kafka.connect.file.FileStreamSourceConnector"


async def codecs(broker: Broker, topic: str) -> list[str]:
    """Compression of each record batch in the first partition; markers are left out."""
    limits = ReadLimits()
    cluster = Cluster(addresses(broker.bootstrap), KafkaSecurity(), limits)
    try:
        request = fetch_request({(topic, 0): 0}, "read_uncommitted", limits)
        (partition,) = fetched(await cluster.ask(request))
    finally:
        await cluster.close()
    frames = partition_frames(partition, 0).frames
    return [
        CODECS[frame.batch.compression_type] for frame in frames if not frame.batch.is_control_batch
    ]


@pytest.mark.parametrize(
    ("settings", "codec"),
    [
        ({}, "none"),
        ({"compression.type": "zstd"}, "zstd"),
        ({"compression.type": "zstd", "writer.compression": "gzip"}, "gzip"),
        ({"compression.type": "zstd", "writer.compression": "none"}, "none"),
    ],
)
async def test_own_topics_are_compressed_as_the_file_says(
    broker: Broker, own_topics: Topics, settings: dict[str, str], codec: str
) -> None:
    """Single batches and transactions have the compression of the worker's file."""
    log = await own_log(broker, own_topics, settings)
    try:
        for topic in (own_topics.config, own_topics.commands):
            await log.create_topic(topic, 1)
        epoch = await log.claim()
        await log.append([put(own_topics.config, "alone", value=LONG)], epoch)
        together = (own_topics.config, own_topics.commands)
        await log.append([put(topic, "together", value=LONG) for topic in together], epoch)
    finally:
        await log.close()
    assert await codecs(broker, own_topics.config) == [codec, codec]


async def test_workers_compress_their_topics_alike(broker: Broker, own_topics: Topics) -> None:
    """A Java worker takes `compression.type` of its file for its topics, too."""
    settings = {**cluster_settings(own_topics), "compression__type": "gzip"}
    async with KafkaWorker(broker.release, broker, **settings) as worker:
        config = {"connector.class": FILE, "topic": "lines", "file": "f" * len(LONG)}
        body = {"name": "lines", "config": config, "initial_state": "STOPPED"}
        answer = await worker.rest.post("/connectors", json=body, timeout=PATIENCE_S)
        assert answer.is_success, answer.text
        assert {*await codecs(broker, own_topics.config)} == {"gzip"}
