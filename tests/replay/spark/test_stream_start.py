"""Streams of captures that Spark does not begin, or stops while a micro-batch begins."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event
from time import sleep

import pytest
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from controlplane.core.state import Topics
from controlplane.logs.memory import MemoryLog
from replay.archive.stores.store import FolderStore
from replay.capture.log_capture import CaptureTarget
from replay.capture.secrets import kept_secrets
from replay.capture.spark_capture import KafkaFrames
from replay.capture.stream_capture import CaptureStream, follow
from replay.engine.spark.session import NoSpark
from tests.recorded_requests import recorded_entries
from tests.replay.archive.archives import log_of

pytestmark = pytest.mark.java


class RateFrames(KafkaFrames):
    """Source of a stream that needs no brokers."""

    def loaded(
        self, reader: DataFrameReader | DataStreamReader, *_: str | Mapping[str, str]
    ) -> DataFrame:
        """Load rows that Spark makes itself."""
        return reader.format("rate").load()


def wait_for_stop(spark: SparkSession) -> None:
    """Wait until the only stream is stopped, and its thread interrupted."""
    (query,) = spark.streams.active
    while query.isActive:
        sleep(0.1)
    sleep(0.5)


def test_a_checkpoint_that_cannot_be_written_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """The stream does not begin: the error names the checkpoint and the reason."""
    (tmp_path / "file").write_text("no folder")
    topics, log = Topics(), log_of(recorded_entries("life-3.9"))

    @asynccontextmanager
    async def opening() -> AsyncIterator[MemoryLog]:
        yield log

    target = CaptureTarget(FolderStore(str(tmp_path / "new")), "life", topics, kept_secrets(topics))
    place = str(tmp_path / "file" / "progress")
    stream = CaptureStream(opening, target, RateFrames(spark, "", {}), place, None)
    with pytest.raises(NoSpark, match=rf"the checkpoint {place} \(Parent path is not a directory"):
        follow(stream, lambda _: None)


def test_a_stop_while_a_batch_begins_is_no_error(spark: SparkSession, tmp_path: Path) -> None:
    """Spark interrupts the batch that has begun. The stream ends without committing the batch."""
    topics, log, ended = Topics(), log_of(recorded_entries("life-3.9")), Event()
    connections = []

    @asynccontextmanager
    async def opening() -> AsyncIterator[MemoryLog]:
        """Connect for the positions. For the first batch, end the stream and wait for its stop."""
        connections.append(log)
        if len(connections) > 1:
            ended.set()
            wait_for_stop(spark)
        yield log

    target = CaptureTarget(FolderStore(str(tmp_path / "new")), "life", topics, kept_secrets(topics))
    source, checkpoint = RateFrames(spark, "", {}), str(tmp_path / "progress")
    stream = CaptureStream(opening, target, source, checkpoint, 0.1)
    follow(stream, lambda _: None, ended=ended)
    assert len(connections) == 1 + 1
    assert not (tmp_path / "progress" / "commits" / "0").exists()
