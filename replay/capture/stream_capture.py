"""Continuous capture with Structured Streaming, which stores its progress in a checkpoint.

Each micro-batch is one append. If a capture is killed between the append and the checkpoint, the
batch repeats. Its records are then compared, and none is added. If it is killed before the append,
the batch repeats with its old end, perhaps a day later. If the log has grown since, the cleaner may
have removed records before that end. So the end of such a batch does not count as the end of a look
(`readings.reading_columns`).

A stream knows only the topics that existed at its start. When another topic is to be archived, the
stream is restarted and continues.
"""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager
from threading import Event
from time import time
from typing import Any, NamedTuple, TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from controlplane.logs.cluster_topics import missing_topics
from controlplane.logs.log import ReadableLog
from replay.archive.archived_cluster import PartitionId
from replay.capture.log_capture import CaptureResult, CaptureTarget
from replay.capture.spark_capture import (
    COMMITTED,
    KafkaFrames,
    OffsetRanges,
    SparkCapture,
    offsets_in_vector,
    vector,
)
from replay.engine.spark.session import NoSpark, root_cause
from replay.errors import ArchiveConflict
from replay.progress import NoProgress, ProgressListener

EARLIEST = -2
"""Spark's offset for the begin of a partition."""

LOOK_S = 1
"""Seconds between checks whether a stream has ended."""

LogFactory = Callable[[], AbstractAsyncContextManager[ReadableLog]]
"""Opens the cluster to find the begin of topics."""

CaptureListener = Callable[[CaptureResult], None]
"""Receives the result of each micro-batch that has added records."""

ResultT = TypeVar("ResultT")


class CaptureStream(NamedTuple):
    """Source and target of a stream."""

    opening: LogFactory
    target: CaptureTarget
    source: KafkaFrames
    checkpoint: str
    """Folder for this stream alone, as a Hadoop path."""
    pause_s: float | None
    """Seconds between micro-batches; None captures the present content only."""


def follow(
    stream: CaptureStream,
    listener: CaptureListener,
    progress: ProgressListener | None = None,
    ended: Event | None = None,
) -> None:
    """Archive new records until `ended` is set; with `pause_s=None`, the present content only.

    Raises:
        ArchiveConflict: the log, or the checkpoint, contradicts the archive.
        ArchiveBusy: another process has appended to the archive, or merged it, meanwhile.
        NoSpark: Spark has failed.
    """
    ended = ended or Event()
    following = _StreamRun(stream, listener, progress or NoProgress(), ended)
    while following.again and not ended.is_set():
        following.run()


class _PlannedBatch(NamedTuple):
    """Micro-batch as the checkpoint has it."""

    ends: dict[PartitionId, int]
    planned_ms: int


class _StreamRun:
    """Run of a stream, until it must be restarted."""

    def __init__(
        self,
        stream: CaptureStream,
        listener: CaptureListener,
        progress: ProgressListener,
        ended: Event,
    ) -> None:
        self.again = True
        """True if topics have appeared that the stream does not know."""
        self._stream = stream
        self._listener = listener
        self._progress = progress
        self._ended = ended
        self._topics: set[str] = set()
        self._first: dict[PartitionId, int] = {}
        self._begun_ms = 0
        """Time at which the query began; micro-batches that were planned earlier are repeated."""
        self._trouble: Exception | None = None
        self._is_stopping = False
        """True once this run stops its query; Spark interrupts a micro-batch that has begun."""

    def run(self) -> None:
        """Run the stream until it ends, or until new topics appear (`again`)."""
        self._topics, self._first = self._ask(self._positions)
        self.again = self._is_stopping = False
        self._begun_ms = int(time() * 1_000)
        query = self._begun()
        try:
            while not query.awaitTermination(LOOK_S):
                if self.again or self._ended.is_set():
                    self._is_stopping = True
                    query.stop()
        except PySparkException as error:
            if self._trouble is None and not self._is_stopping:
                raise _as_no_spark(error) from None
        finally:
            query.stop()
        if self._trouble is not None:
            raise self._trouble

    def _begun(self) -> StreamingQuery:
        """Begin the query. Raises `NoSpark`, for example if the checkpoint cannot be written."""
        source = self._stream.source
        options = {
            "subscribe": ",".join(sorted(self._topics)),
            "startingOffsets": vector(self._first),
            "maxOffsetsPerTrigger": str(self._stream.target.commit_records),
        }
        checkpoint, pause_s = self._stream.checkpoint, self._stream.pause_s
        when: dict[str, Any] = (
            {"availableNow": True} if pause_s is None else {"processingTime": f"{pause_s} seconds"}
        )
        try:
            frame = source.loaded(source.session.readStream, COMMITTED, options)
            stream = frame.writeStream.foreachBatch(self._batch)
            return stream.option("checkpointLocation", checkpoint).trigger(**when).start()
        except (PySparkException, Py4JError) as error:
            raise NoSpark(
                f"Spark does not begin the stream with the checkpoint {checkpoint} "
                f"({root_cause(error)}): check --checkpoint and --conf"
            ) from None

    def _batch(self, frame: DataFrame, number: int) -> None:
        """Archive a micro-batch. Errors are stored, because Spark would replace their text.

        Spark's errors after a stop are not stored: the next run of the stream repeats the batch.
        """
        try:
            captured, unknown = self._ask(lambda capture: self._append(capture, frame, number))
        except (PySparkException, Py4JError, NoSpark) as error:
            if not self._is_stopping:
                self._trouble = _as_no_spark(error)
            raise
        except Exception as error:
            self._trouble = error
            raise
        if captured.added:
            self._listener(captured)
        self.again = bool(unknown)

    async def _append(
        self, capture: "StreamedCapture", frame: DataFrame, number: int
    ) -> tuple[CaptureResult, set[str]]:
        batch = self._planned(number)
        first = self._planned(number - 1).ends if number else self._first
        repeated = batch.planned_ms < self._begun_ms
        return await capture.append(
            frame, first, batch.ends, repeated=repeated
        ), await capture.topics_to_archive() - self._topics

    def _planned(self, number: int) -> _PlannedBatch:
        """Read a micro-batch from the checkpoint."""
        path = f"{self._stream.checkpoint}/offsets/{number}"
        lines = self._stream.source.session.read.text(path).collect()
        metadata, offsets = (line.value for line in lines[-2:])
        return _PlannedBatch(offsets_in_vector(offsets), json.loads(metadata)["batchTimestampMs"])

    async def _positions(
        self, capture: "StreamedCapture"
    ) -> tuple[set[str], dict[PartitionId, int]]:
        topics = await capture.topics_to_archive()
        return topics, await capture.positions(topics)

    def _ask(
        self, question: Callable[["StreamedCapture"], Coroutine[Any, Any, ResultT]]
    ) -> ResultT:
        """Run a function on a capture with a new connection, because brokers come and go."""

        async def with_capture() -> ResultT:
            stream = self._stream
            async with stream.opening() as log:
                capture = StreamedCapture(log, stream.target, stream.source, self._progress)
                return await question(capture)

        return asyncio.run(with_capture())


def _as_no_spark(error: Exception) -> NoSpark:
    """Return the `NoSpark` for an error of Spark."""
    if isinstance(error, NoSpark):
        return error
    return NoSpark(f"Spark has failed ({root_cause(error)})")


class StreamedCapture(SparkCapture):
    """Capture of the micro-batches of a stream, which decides their end offsets."""

    async def topics_to_archive(self) -> set[str]:
        """Existing topics that are to be archived.

        Raises:
            LogNotUsable: there is no config topic.
        """
        topics, existing = self._target.topics, await self._log.topics()
        missing_topics(topics, existing)
        named = {topics.config, topics.offsets, topics.status, topics.commands}
        return (named | self._known_topics() | self._own) & existing.keys()

    async def positions(self, topics: set[str]) -> dict[PartitionId, int]:
        """Start offsets of a stream: the last archived record, or the begin of a partition."""
        existing = await self._log.topics()
        offsets = {}
        for topic in topics & existing.keys():
            for partition, offset in enumerate(self._starts(topic, existing[topic])):
                offsets[topic, partition] = offset or EARLIEST
        return offsets

    async def append(
        self,
        frame: DataFrame,
        first: dict[PartitionId, int],
        behind: dict[PartitionId, int],
        *,
        repeated: bool,
    ) -> CaptureResult:
        """Archive a micro-batch of committed records between two maps of offsets.

        `repeated`: an earlier run of the stream has planned it.

        Raises:
            ArchiveConflict: the batch begins after the end of the archive, or contradicts it; or
                a topic has lost a partition.
        """
        begins: dict[PartitionId, int] = {}
        ends: dict[PartitionId, int] = {}
        for topic in sorted({topic for topic, _ in behind}):
            topic_ends = (await self._log.ends([topic]))[topic]
            self._check_ends(topic, topic_ends)
            starts = (await self._log.starts([topic]))[topic]
            begins |= {(topic, number): start for number, start in enumerate(starts)}
            ends |= {(topic, number): end for number, end in enumerate(topic_ends)}
        for topic, partition in sorted(behind.keys() - begins.keys()):
            raise ArchiveConflict(
                f"{topic} has lost partition {partition}: it was recreated. Capture it as another "
                "cluster (NAME=LOG)"
            )
        spans = {
            place: range(min(end, max(first.get(place, EARLIEST), begins[place])), end)
            for place, end in behind.items()
        }
        for place, span in spans.items():
            self._check_follows(place, span.start, begins[place])
        before = self._records
        unread = {*self._cut_short(spans)}
        if repeated:
            unread |= {place for place, span in spans.items() if span.stop < ends[place]}
        read = self.archive(begins, spans, frame, unread)
        return self._finished(read, before, ())

    def _cut_short(self, spans: OffsetRanges) -> Iterable[PartitionId]:
        """Partitions that may go on after a micro-batch: all, if it has reached its limit."""
        limit = self._target.commit_records - len(spans)  # Spark rounds each partition's share
        return spans.keys() if sum(map(len, spans.values())) >= limit else ()

    def _check_follows(self, place: PartitionId, start: int, begin: int) -> None:
        """Raise `ArchiveConflict` if a checkpoint is ahead of the archive."""
        topic, partition = place
        archived_end = max(begin, self._appending.end_of(topic, partition) or 0)
        if start > archived_end:
            raise ArchiveConflict(
                f"{topic} partition {partition} is archived up to {archived_end}, but the "
                f"checkpoint says {start}: it belongs to another archive. Give another folder"
            )
