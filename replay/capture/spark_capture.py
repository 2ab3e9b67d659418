"""Capture in Spark: one task per partition reads and archives records in parallel.

Begin and end of topics, and the comparison with the archive, work as without Spark (`log_capture`).
One manifest names the segments of all tasks: all of them count, or none.
"""

import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgspec
import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from controlplane.logs.log import ReadableLog
from replay.archive.archived_cluster import PartitionId
from replay.capture.log_capture import CaptureTarget, LogCapture
from replay.capture.spark_tasks import (
    ANSWERS_DDL,
    RUNS_DDL,
    CaptureTask,
    PartitionResult,
    SeenOffsets,
    archived,
    runs,
)
from replay.engine.spark.jobs import run
from replay.engine.spark.session import NoSpark
from replay.errors import NotCapturable
from replay.progress import ProgressListener

COMMITTED, EVERYTHING = "read_committed", "read_uncommitted"

NO_SOURCE = "Failed to find data source: kafka"
LATE = "long overflow"
"""Complaint of Spark's Kafka source about a timestamp that overflows microseconds."""

OffsetRanges = Mapping[PartitionId, range]
"""Offset ranges by topic and partition."""


class KafkaFrames(NamedTuple):
    """Spark's Kafka source for one cluster."""

    session: SparkSession
    bootstrap: str
    settings: Mapping[str, str]
    """Security settings of Kafka's clients: protocol, TLS and SASL."""

    def options(self, isolation: str) -> dict[str, str]:
        """Options of the source, without the range to read."""
        return {
            **{f"kafka.{key}": value for key, value in self.settings.items()},
            "kafka.bootstrap.servers": self.bootstrap,
            "kafka.isolation.level": isolation,
            "includeHeaders": "true",
            # Lost offsets do not fail the query: the archive records them as gaps.
            "failOnDataLoss": "false",
        }

    def read(self, spans: OffsetRanges, isolation: str) -> DataFrame:
        """Data frame of the records in these ranges."""
        options = {
            # `assign`, not `subscribe`: a subscription needs start offsets for all partitions of
            # its topics.
            "assign": assigned(spans),
            "startingOffsets": vector({place: span.start for place, span in spans.items()}),
            "endingOffsets": vector({place: span.stop for place, span in spans.items()}),
        }
        return self.loaded(self.session.read, isolation, options)

    def loaded(
        self, reader: DataFrameReader | DataStreamReader, isolation: str, wanted: Mapping[str, str]
    ) -> DataFrame:
        """Load a data frame from the source.

        Raises:
            NotCapturable: Spark lacks the Kafka source.
        """
        options = {**self.options(isolation), **wanted}
        try:
            return reader.format("kafka").options(**options).load()
        except AnalysisException as error:
            if NO_SOURCE not in str(error):
                raise
            raise NotCapturable(
                "Spark has no Kafka source here: fetch its jars with `make spark-jars`, and give "
                "their folder as --jars"
            ) from None


def assigned(partitions: Iterable[PartitionId]) -> str:
    """Encode partitions for the source: JSON, by topic."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    return json.dumps(by_topic)


def vector(offsets: Mapping[PartitionId, int]) -> str:
    """Encode offsets for the source: JSON, by topic and partition."""
    by_topic: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in offsets.items():
        by_topic.setdefault(topic, {})[str(partition)] = offset
    return json.dumps(by_topic)


def offsets_in_vector(text: str) -> dict[PartitionId, int]:
    """Decode offsets of Spark's Kafka source: JSON, by topic and partition."""
    by_topic: dict[str, dict[str, int]] = json.loads(text)
    return {
        (topic, int(partition)): offset
        for topic, offsets in by_topic.items()
        for partition, offset in offsets.items()
    }


class SparkCapture(LogCapture):
    """Reads topics of a Kafka cluster into an archive with Spark tasks.

    `log` reads the begin and end of topics from the same cluster.
    """

    def __init__(
        self,
        log: ReadableLog,
        target: CaptureTarget,
        source: KafkaFrames,
        progress: ProgressListener | None = None,
    ) -> None:
        super().__init__(log, target, goes_on=True, progress=progress)
        self._source = source

    async def _read(self, topics: Sequence[str]) -> int:
        """Read topics up to their current ends, one commit at a time."""
        begins, spans = await self._spans(topics)
        read = 0
        for number, part in enumerate(parts_of(spans, self._target.commit_records)):
            if number:  # the next part begins at the end of what is archived
                self._commit()
            unread = {place for place in part if part[place].stop < spans[place].stop}
            read += self.archive(begins, part, unread=unread)
        return read

    async def _spans(
        self, topics: Sequence[str]
    ) -> tuple[dict[PartitionId, int], dict[PartitionId, range]]:
        """Begin of topics, and the ranges to read."""
        begins: dict[PartitionId, int] = {}
        spans: dict[PartitionId, range] = {}
        for topic in topics:
            starts = (await self._log.starts([topic]))[topic]
            ends = (await self._log.ends([topic]))[topic][: len(starts)]
            self._check_ends(topic, ends)
            archived_to = self._starts(topic, len(ends))
            for partition, (begin, end) in enumerate(zip(starts, ends, strict=True)):
                begins[topic, partition] = begin
                spans[topic, partition] = range(max(begin, archived_to[partition]), end)
        return begins, spans

    def archive(
        self,
        begins: Mapping[PartitionId, int],
        spans: OffsetRanges,
        committed: DataFrame | None = None,
        unread: Container[PartitionId] = (),
    ) -> int:
        """Archive the records of ranges; return their number.

        `committed` holds the committed records of the ranges, if already read. `unread` are the
        partitions that go on after their range.

        Raises:
            ArchiveConflict: a record contradicts the archive.
            ArchiveBusy: a merge has removed a segment with archived records, which are compared.
        """
        read = 0
        if any(spans.values()):
            committed_offsets = self._committed_offsets(
                self._source.read(spans, COMMITTED) if committed is None else committed
            )
            answers = self._archived(spans, committed_offsets)
            self._appending.take_over(segment for answer in answers for segment in answer.segments)
            self._own.update(topic for answer in answers for topic in answer.own)
            read = sum(answer.read for answer in answers)
        for place, span in spans.items():
            self._appending.reached(*place, begins[place], span.stop, partial=place in unread)
        return read

    def _committed_offsets(self, committed: DataFrame) -> dict[PartitionId, SeenOffsets]:
        """Offsets that a reader of committed records sees."""
        places_only = committed.select("topic", "partition", "offset")
        run_bounds: dict[PartitionId, list[tuple[int, int]]] = {}
        for row in self._rows(places_only.mapInArrow(runs, RUNS_DDL)).to_pylist():
            place = row["topic"], row["partition"]
            run_bounds.setdefault(place, []).append((row["first"], row["behind"]))
        return {place: SeenOffsets(bounds) for place, bounds in run_bounds.items()}

    def _rows(self, frame: DataFrame) -> pa.Table:
        try:
            return run(frame, self._progress)
        except NoSpark as error:
            if LATE in str(error):
                raise NotCapturable(
                    "a record is dated later than Spark can read (the year 294247): capture it "
                    "with --engine local"
                ) from None
            raise

    def _archived(
        self, spans: OffsetRanges, committed: Mapping[PartitionId, SeenOffsets]
    ) -> list[PartitionResult]:
        segment_writers = {
            place: self._appending.segment_writer(place, span.start)
            for place, span in spans.items()
        }
        job = CaptureTask(segment_writers, committed, self._target.secrets, self._target.topics)
        rows = self._source.read(spans, EVERYTHING)
        table = self._rows(rows.mapInArrow(partial(archived, job=job), ANSWERS_DDL))
        answers = [
            msgspec.msgpack.decode(encoded_answer, type=PartitionResult)
            for encoded_answer in table.column("answer").to_pylist()
        ]
        for answer in answers:
            if answer.error:
                raise answer.error
        return answers


def parts_of(spans: OffsetRanges, records: int) -> Iterator[OffsetRanges]:
    """Split ranges into parts of one commit each; empty ranges make one part."""
    left = dict(spans)
    while left:
        share = max(1, records // len(left))
        yield {
            place: range(span.start, min(span.stop, span.start + share))
            for place, span in left.items()
        }
        left = {
            place: range(span.start + share, span.stop)
            for place, span in left.items()
            if span.start + share < span.stop
        }
