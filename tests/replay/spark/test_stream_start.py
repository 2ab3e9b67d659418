"""Streams of captures that Spark does not begin."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

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
