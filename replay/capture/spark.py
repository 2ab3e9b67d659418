"""A capture in Spark: partitions beside each other, each read and archived by a task.

Where topics begin and end, and that they are what was archived, is found out as without Spark
(`capture`); a manifest makes count what tasks have written, all of it or nothing.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgspec
import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from controlplane.logs.log import ReadableLog
from replay.archive.cluster import Place
from replay.capture.capture import Capture, Target
from replay.capture.spark_tasks import (
    ANSWERS_DDL,
    RUNS_DDL,
    Answer,
    Job,
    Seen,
    archived,
    runs,
)
from replay.engine.jobs import run
from replay.engine.session import NoSpark
from replay.errors import ArchiveConflict, NotCapturable
from replay.progress import Progress

COMMITTED, EVERYTHING = "read_committed", "read_uncommitted"

NO_SOURCE = "Failed to find data source: kafka"
LATE = "long overflow"
"""What Spark's Kafka source complains of where a timestamp in microseconds has no room."""

Spans = Mapping[Place, range]
"""By topic and partition, which offsets."""


class Source(NamedTuple):
    """Spark's Kafka source."""

    session: SparkSession
    bootstrap: str
    settings: Mapping[str, str]
    """Of Kafka's clients: how to get in."""

    def options(self, isolation: str) -> dict[str, str]:
        """What it is told, but for what to read."""
        return {
            **{f"kafka.{key}": value for key, value in self.settings.items()},
            "kafka.bootstrap.servers": self.bootstrap,
            "kafka.isolation.level": isolation,
            "includeHeaders": "true",
            # What a topic has lost is for the archive to tell: it knows from where to where.
            "failOnDataLoss": "false",
        }

    def read(self, spans: Spans, isolation: str) -> DataFrame:
        """The records of these spans."""
        wanted = {
            # Whoever subscribes to a topic has to say of each of its partitions where to begin.
            "assign": assigned(spans),
            "startingOffsets": vector({place: span.start for place, span in spans.items()}),
            "endingOffsets": vector({place: span.stop for place, span in spans.items()}),
        }
        return self.loaded(self.session.read, isolation, wanted)

    def loaded(
        self, reader: DataFrameReader | DataStreamReader, isolation: str, wanted: Mapping[str, str]
    ) -> DataFrame:
        """What a reader of Spark's finds.

        Raises:
            NotCapturable: Spark lacks the source.
        """
        told = {**self.options(isolation), **wanted}
        try:
            return reader.format("kafka").options(**told).load()
        except AnalysisException as error:
            if NO_SOURCE not in str(error):
                raise
            raise NotCapturable(
                "Spark has no Kafka source here: fetch its jars with `make spark-jars`, and give "
                "their folder as --jars"
            ) from None


def assigned(partitions: Iterable[Place]) -> str:
    """Partitions as the source takes them: JSON, by topic."""
    found: dict[str, list[int]] = {}
    for topic, partition in partitions:
        found.setdefault(topic, []).append(partition)
    return json.dumps(found)


def vector(offsets: Mapping[Place, int]) -> str:
    """Offsets as the source takes them, and gives them: JSON, by topic and partition."""
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in offsets.items():
        found.setdefault(topic, {})[str(partition)] = offset
    return json.dumps(found)


def places(text: str) -> dict[Place, int]:
    """The same the other way round."""
    found: dict[str, dict[str, int]] = json.loads(text)
    return {
        (topic, int(partition)): offset
        for topic, some in found.items()
        for partition, offset in some.items()
    }


class SparkCapture(Capture):
    """Reads topics of a Kafka cluster into an archive by tasks of Spark's.

    `log` is the same cluster, asked where its topics begin and end.
    """

    def __init__(
        self, log: ReadableLog, target: Target, source: Source, progress: Progress | None = None
    ) -> None:
        super().__init__(log, target, goes_on=True, progress=progress)
        self._source = source

    async def _read(self, topics: Sequence[str]) -> int:
        """Read topics up to where they end now, so much at a time as is made to count at once."""
        begins, spans = await self._spans(topics)
        read = 0
        for number, some in enumerate(parts_of(spans, self._target.commit_records)):
            if number:  # a partition goes on behind what is archived of it
                self._commit()
            read += self.archive(begins, some)
        return read

    async def _spans(self, topics: Sequence[str]) -> tuple[dict[Place, int], dict[Place, range]]:
        """Where topics begin, and which of their offsets are to be read."""
        begins: dict[Place, int] = {}
        spans: dict[Place, range] = {}
        for topic in topics:
            starts = (await self._log.starts([topic]))[topic]
            ends = (await self._log.ends([topic]))[topic]
            self._check_ends(topic, ends)
            archived_to = self._starts(topic, len(ends))
            for partition, (begin, end) in enumerate(zip(starts, ends, strict=True)):
                begins[topic, partition] = begin
                spans[topic, partition] = range(max(begin, archived_to[partition]), end)
        return begins, spans

    def archive(
        self, begins: Mapping[Place, int], spans: Spans, committed: DataFrame | None = None
    ) -> int:
        """Archive what lies in spans; answers how many records that were.

        `committed` are the committed records of these spans, where somebody has them already.

        Raises:
            ArchiveConflict: it contradicts the archive.
        """
        read = 0
        if any(spans.values()):
            seen = self._seen(
                self._source.read(spans, COMMITTED) if committed is None else committed
            )
            answers = self._archived(spans, seen)
            self._appending.take_over(one for answer in answers for one in answer.segments)
            self._own.update(topic for answer in answers for topic in answer.own)
            read = sum(answer.read for answer in answers)
        for (topic, partition), span in spans.items():
            self._appending.reached(topic, partition, begins[topic, partition], span.stop)
        return read

    def _seen(self, committed: DataFrame) -> dict[Place, Seen]:
        """What readers of committed records see."""
        places_only = committed.select("topic", "partition", "offset")
        found: dict[Place, list[tuple[int, int]]] = {}
        for row in self._rows(places_only.mapInArrow(runs, RUNS_DDL)).to_pylist():
            place = row["topic"], row["partition"]
            found.setdefault(place, []).append((row["first"], row["behind"]))
        return {place: Seen(some) for place, some in found.items()}

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

    def _archived(self, spans: Spans, committed: Mapping[Place, Seen]) -> list[Answer]:
        fillings = {
            place: self._appending.filling(place, span.start) for place, span in spans.items()
        }
        job = Job(fillings, committed, self._target.secrets, self._target.topics)
        rows = self._source.read(spans, EVERYTHING)
        table = self._rows(rows.mapInArrow(partial(archived, job=job), ANSWERS_DDL))
        answers = [
            msgspec.msgpack.decode(one, type=Answer) for one in table.column("answer").to_pylist()
        ]
        for answer in answers:
            if answer.wrong:
                raise ArchiveConflict(answer.wrong)
        return answers


def parts_of(spans: Spans, records: int) -> Iterator[Spans]:
    """Spans in parts of so many offsets as are made to count at once, at least one part."""
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
