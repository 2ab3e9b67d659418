"""Two streams of one Spark session: one archives a cluster, and the other follows the archive."""

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from controlplane.core.entry import Entry
from controlplane.core.state import Topics
from replay.archive.stores.store import FolderStore
from replay.capture.log_capture import CaptureTarget
from replay.capture.secrets import kept_secrets
from replay.capture.spark_capture import KafkaFrames
from replay.capture.stream_capture import CaptureStream, follow
from replay.fleet.feed.change_feed import ArchiveFeed
from tests.kafka.conftest import RELEASES
from tests.kafka.producer import NewTopic, reading, writer
from tests.kafka.real_kafka import Broker
from tests.logs.reading_contract import by_position
from tests.patience import wait_until
from tests.recorded_requests import recorded_entries
from tests.replay.archive.archives import archived, cluster_in
from tests.replay.feed.feed_laws import archive_in, assert_adds_up
from tests.replay.spark.test_feed import streamed

pytestmark = [
    pytest.mark.java,
    pytest.mark.broker,
    pytest.mark.prove,
    pytest.mark.parametrize("broker", RELEASES[-1:], indirect=True),
]

NAME = "real"
ENTRIES = recorded_entries("roll-3.4-3.9-3.4")
PORTIONS = ENTRIES[:40], ENTRIES[40:80], ENTRIES[80:]
"""Records that are written one portion after the other, while both streams run."""
EVERY_S = 0.2
"""Seconds between the batches of a stream."""


@contextmanager
def capturing(stream: CaptureStream) -> Iterator["Future[None]"]:
    """Run a capture in a thread until the block ends; raise its error."""
    ended = Event()
    with ThreadPoolExecutor(1) as thread:
        capture = thread.submit(follow, stream, lambda _: None, None, ended)
        try:
            yield capture
        finally:
            ended.set()
    capture.result()


async def until(capture: "Future[None]", happened: Callable[[], bool], event: str) -> None:
    """Wait for an event while a capture runs; fail if the capture ends."""

    def is_over() -> bool:
        return capture.done() or happened()

    await asyncio.to_thread(wait_until, is_over, event)
    assert not capture.done(), capture.result()


def has_read(feed: ArchiveFeed, query: StreamingQuery, records: int) -> bool:
    """True if the feed's last batch ends after this number of records."""
    assert query.isActive, query.exception()
    if feed.batch < 0:
        return False
    (row,) = feed.tables.rows("batches", feed.batch)
    assert row["problem"] is None
    return sum(map(sum, json.loads(row["as_of"]).values())) == records


@pytest.mark.usefixtures("kafka_jars")
async def test_records_become_changes_and_findings(
    spark: SparkSession, broker: Broker, new_topic: NewTopic, tmp_path: Path
) -> None:
    """Records that Kafka gets become archived records, changes of the state, and findings."""
    topics = Topics(await new_topic(), await new_topic(5), await new_topic(5))
    renamed = {
        "connect-configs": topics.config,
        "connect-offsets": topics.offsets,
        "connect-status": topics.status,
    }
    folder = tmp_path / "archive"
    target = CaptureTarget(FolderStore(str(folder)), NAME, topics, kept_secrets(topics))
    source = KafkaFrames(spark, broker.bootstrap, {})
    opening = partial(reading, broker.bootstrap)
    stream = CaptureStream(opening, target, source, str(tmp_path / "capture"), EVERY_S)
    manifest = folder / f"cluster={NAME}" / "_manifest" / "0000000001.json"
    async with writer(broker) as out:

        async def put(entries: Sequence[Entry]) -> None:
            for entry in entries:
                await out.put(renamed[entry.topic], entry.partition, entry.key, entry.value)

        await put(PORTIONS[0])
        with capturing(stream) as capture:
            await until(capture, manifest.exists, "the first capture")
            feed = streamed(spark, tmp_path)
            query = feed.start(every_s=EVERY_S)
            try:
                for portion in (*PORTIONS[1:], ()):
                    end = partial(has_read, feed, query, len(out.written))
                    await until(capture, end, f"a batch up to record {len(out.written)}")
                    await put(portion)
            finally:
                query.stop()
    assert feed.batch >= len(PORTIONS) - 1
    assert archived(cluster_in(folder, NAME)) == by_position(out.written)
    assert feed.tables.table("finding_changes").num_rows
    assert_adds_up(feed, archive_in(tmp_path))
