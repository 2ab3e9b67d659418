"""Spark tasks of a capture: rows of the Kafka source in, segments out.

Each partition is one task, with its rows in the order of offsets. The source does not mark records
of aborted transactions. It is therefore read twice: first with committed records only, then with
all. Records missing in the first pass were aborted. In the reverse order, compaction between the
passes could make committed records look aborted. All transactions in the range are decided, so no
record becomes committed between the passes.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from controlplane.core.state import Topics
from replay.archive.archived_cluster import PartitionId
from replay.archive.manifest import Segment
from replay.archive.segments.segment_files import SCHEMA, table_of
from replay.archive.segments.segment_writer import SegmentWriter
from replay.capture.secrets import KEPT, SecretPolicy
from replay.engine.spark.worker_process import in_worker
from replay.errors import (
    ArchiveBusy,
    ArchiveConflict,
    ArchiveCorrupt,
    NoArchive,
    NotWritable,
    ReplayError,
)
from replay.kernels.batches import batch
from replay.offsets_topics import own_topics

MICROSECONDS = 1_000
"""Microseconds per millisecond: Spark's timestamps are finer than Kafka's."""

OffsetArray = npt.NDArray[np.int64]

RUNS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("first", pa.int64()),
        ("behind", pa.int64()),
    ]
)
RUNS_DDL = "topic string, partition int, first bigint, behind bigint"
"""Schema of runs: offsets without holes."""

ANSWERS = pa.schema([("answer", pa.binary())])
ANSWERS_DDL = "answer binary"


ERRORS = MappingProxyType(
    {
        error.__name__: error
        for error in (ArchiveBusy, ArchiveConflict, ArchiveCorrupt, NoArchive, NotWritable)
    }
)
"""Errors of a `SegmentWriter`, by name."""


class PartitionResult(msgspec.Struct, frozen=True):
    """Output of a Spark task for one partition: new segments, or the problem."""

    topic: str
    partition: int
    read: int = 0
    segments: tuple[Segment, ...] = ()
    own: tuple[str, ...] = ()
    """Dedicated offsets topics that the records name."""
    wrong: str = ""
    """Problem of the partition; only `kind`, `topic` and `partition` are set besides it."""
    kind: str = ""
    """Class of the problem, from `ERRORS`; else the problem is an `ArchiveConflict`."""

    @property
    def error(self) -> ReplayError | None:
        """The problem as an error to raise in the driver; None if there is none."""
        return ERRORS.get(self.kind, ArchiveConflict)(self.wrong) if self.wrong else None


class SeenOffsets:
    """Seen offsets of a partition, as runs without holes."""

    def __init__(self, runs: Sequence[tuple[int, int]]) -> None:
        ordered = np.array(sorted(runs), np.int64).reshape(-1, 2)
        self._firsts, self._behinds = ordered[:, 0], ordered[:, 1]

    def unseen(self, offsets: OffsetArray) -> npt.NDArray[np.bool_]:
        """For each offset, True if no run contains it."""
        if not len(self._firsts):
            return np.ones(len(offsets), np.bool_)
        at = np.searchsorted(self._firsts, offsets, "right") - 1
        is_unseen: npt.NDArray[np.bool_] = (at < 0) | (offsets >= self._behinds[at])
        return is_unseen


class CaptureTask(NamedTuple):
    """Input of a Spark task: writers and committed offsets, by partition."""

    segment_writers: Mapping[PartitionId, SegmentWriter]
    """Writer of each partition."""
    committed: Mapping[PartitionId, SeenOffsets]
    """Offsets of committed records, by partition."""
    secrets: SecretPolicy
    topics: Topics


@in_worker
def runs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """`mapInArrow` function: topic, partition and offset in, `RUNS` out."""
    for rows in batches:
        for (topic, partition), rows_of_place in _by_place(pa.Table.from_batches([rows])):
            offsets = rows_of_place.column("offset").to_numpy()
            cuts = np.flatnonzero(np.diff(offsets) != 1) + 1
            firsts = offsets[np.append(0, cuts)]
            behinds = offsets[np.append(cuts, len(offsets)) - 1] + 1
            length = len(firsts)
            names = pa.array([topic] * length, pa.string())
            numbers = pa.array([partition] * length, pa.int32())
            yield pa.record_batch(
                [names, numbers, pa.array(firsts), pa.array(behinds)], schema=RUNS
            )


@in_worker
def archived(batches: Iterator[pa.RecordBatch], job: CaptureTask) -> Iterator[pa.RecordBatch]:
    """`mapInArrow`: rows of the Kafka source in, one `PartitionResult` per partition out."""
    archivers: dict[PartitionId, _PartitionArchiver] = {}
    for rows in batches:
        for place, rows_of_place in _by_place(pa.Table.from_batches([rows])):
            if place not in archivers:
                archivers[place] = _PartitionArchiver(place, job)
            archivers[place].add(rows_of_place)
    answers = [msgspec.msgpack.encode(archiver.answer()) for archiver in archivers.values()]
    yield pa.record_batch([pa.array(answers, pa.binary())], schema=ANSWERS)


class _PartitionArchiver:
    """Archives the rows of a partition. Errors are returned as results: a retry would not help."""

    def __init__(self, place: PartitionId, job: CaptureTask) -> None:
        self._place = place
        self._segment_writer = job.segment_writers[place]
        self._committed = job.committed.get(place, SeenOffsets([]))
        self._secrets = job.secrets
        self._topics = job.topics
        self._own: set[str] = set()
        self._read = 0
        self._error: ReplayError | None = None

    def add(self, rows: pa.Table) -> None:
        if self._error:
            return
        table = archive_rows(rows, self._committed)
        topic, partition = self._place
        log_batch = batch(topic, partition, table)
        if topic == self._topics.config:
            self._own.update(own_topics(log_batch, self._topics))
        if self._secrets.mode != KEPT:
            table = table_of([self._secrets.without(log_batch)])
        self._read += table.num_rows
        try:
            self._segment_writer.add(table)
        except ReplayError as error:
            self._error = error

    def answer(self) -> PartitionResult:
        if not self._error:
            try:
                self._segment_writer.write()
            except ReplayError as error:
                self._error = error
        if self._error:
            kind = type(self._error).__name__
            return PartitionResult(*self._place, wrong=str(self._error), kind=kind)
        own = tuple(sorted(self._own))
        return PartitionResult(*self._place, self._read, tuple(self._segment_writer.segments), own)


def archive_rows(rows: pa.Table, committed: SeenOffsets) -> pa.Table:
    """Convert rows of the Kafka source to rows of an archive."""
    offsets = rows.column("offset").to_numpy()
    micros = rows.column("timestamp").cast(pa.int64()).to_numpy()
    columns = {
        "offset": pa.array(offsets, pa.int64()),
        "timestamp": pa.array(micros // MICROSECONDS, pa.int64()),
        "key": rows.column("key"),
        "value": rows.column("value"),
        "headers": _headers(rows.column("headers").combine_chunks()),
        "aborted": pa.array(committed.unseen(offsets)),
    }
    return pa.table([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def _headers(column: pa.ListArray) -> pa.Array:
    """Rename the fields of headers for the archive."""
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks)
    parts = column.values
    fields = [parts.field("key").cast(pa.binary()), parts.field("value")]
    kind = SCHEMA.field("headers").type
    named = pa.StructArray.from_arrays(fields, fields=list(kind.value_type))
    return pa.ListArray.from_arrays(column.offsets, named, mask=column.is_null())


def _by_place(rows: pa.Table) -> Iterator[tuple[PartitionId, pa.Table]]:
    """Split rows by topic and partition, in order."""
    places = rows.group_by(["topic", "partition"], use_threads=False).aggregate([])
    for place in places.to_pylist():
        is_in_place = pc.and_(
            pc.equal(rows.column("topic"), place["topic"]),
            pc.equal(rows.column("partition"), place["partition"]),
        )
        yield (place["topic"], place["partition"]), rows.filter(is_in_place)
