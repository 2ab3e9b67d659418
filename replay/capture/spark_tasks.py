"""What tasks of Spark's do in a capture: rows of its Kafka source in, segments out.

Each partition of a topic is one task, its rows in the order of their offsets. The source does not
tell which records are of aborted transactions. So it is asked twice: first as a reader that sees
committed records only, then as one that sees all; what the first has not seen was aborted. In this
order, since compaction may take records in between, and none that was decided ever comes.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from controlplane.core.state import Topics
from replay.archive.cluster import Place
from replay.archive.filling import Filling
from replay.archive.manifest import Segment
from replay.archive.segments import SCHEMA, table_of
from replay.capture.secrets import KEPT, Secrets
from replay.errors import ReplayError
from replay.kernels.batches import batch
from replay.offsets_topics import own_topics

MICROSECONDS = 1_000
"""Of a millisecond: Spark's timestamps are finer than Kafka's."""

Bounds = npt.NDArray[np.int64]

RUNS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("first", pa.int64()),
        ("behind", pa.int64()),
    ]
)
RUNS_DDL = "topic string, partition int, first bigint, behind bigint"
"""Offsets without a hole between them."""

ANSWERS = pa.schema([("answer", pa.binary())])
ANSWERS_DDL = "answer binary"


class Answer(msgspec.Struct, frozen=True):
    """What came of a partition."""

    topic: str
    partition: int
    read: int = 0
    fresh: int = 0
    segments: tuple[Segment, ...] = ()
    own: tuple[str, ...] = ()
    """Offsets topics of connectors' own that its records name."""
    wrong: str = ""
    """What is wrong with it; then nothing else is told."""


class Seen:
    """The offsets of a partition that were seen, as runs without a hole."""

    def __init__(self, runs: Sequence[tuple[int, int]]) -> None:
        ordered = np.array(sorted(runs), np.int64).reshape(-1, 2)
        self._firsts, self._behinds = ordered[:, 0], ordered[:, 1]

    def unseen(self, offsets: Bounds) -> npt.NDArray[np.bool_]:
        """Which of these offsets are in none of them."""
        if not len(self._firsts):
            return np.ones(len(offsets), np.bool_)
        at = np.searchsorted(self._firsts, offsets, "right") - 1
        found: npt.NDArray[np.bool_] = (at < 0) | (offsets >= self._behinds[at])
        return found


class Job(NamedTuple):
    """What a task has to know."""

    fillings: Mapping[Place, Filling]
    """What takes in each partition."""
    committed: Mapping[Place, Seen]
    """What readers of committed records see of it."""
    secrets: Secrets
    topics: Topics


def runs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: topic, partition and offset in, `RUNS` out."""
    for rows in batches:
        for (topic, partition), some in _by_place(pa.Table.from_batches([rows])):
            offsets = some.column("offset").to_numpy()
            cuts = np.flatnonzero(np.diff(offsets) != 1) + 1
            firsts = offsets[np.append(0, cuts)]
            behinds = offsets[np.append(cuts, len(offsets)) - 1] + 1
            length = len(firsts)
            names = pa.array([topic] * length, pa.string())
            numbers = pa.array([partition] * length, pa.int32())
            yield pa.record_batch(
                [names, numbers, pa.array(firsts), pa.array(behinds)], schema=RUNS
            )


def archived(batches: Iterator[pa.RecordBatch], job: Job) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: rows of the Kafka source in, an `Answer` for each partition out."""
    found: dict[Place, _Archiving] = {}
    for rows in batches:
        for place, some in _by_place(pa.Table.from_batches([rows])):
            if place not in found:
                found[place] = _Archiving(place, job)
            found[place].add(some)
    answers = [msgspec.msgpack.encode(one.answer()) for one in found.values()]
    yield pa.record_batch([pa.array(answers, pa.binary())], schema=ANSWERS)


class _Archiving:
    """Takes in the rows of a partition. What is wrong is told: to try again would not mend it."""

    def __init__(self, place: Place, job: Job) -> None:
        self._place = place
        self._filling = job.fillings[place]
        self._committed = job.committed.get(place, Seen([]))
        self._secrets = job.secrets
        self._topics = job.topics
        self._own: set[str] = set()
        self._read = self._fresh = 0
        self._wrong = ""

    def add(self, rows: pa.Table) -> None:
        if self._wrong:
            return
        table = archive_rows(rows, self._committed)
        topic, partition = self._place
        known = batch(topic, partition, table)
        if topic == self._topics.config:
            self._own.update(own_topics(known, self._topics))
        if self._secrets.mode != KEPT:
            table = table_of([self._secrets.without(known)])
        self._read += table.num_rows
        try:
            self._fresh += self._filling.add(table)
        except ReplayError as error:
            self._wrong = str(error)

    def answer(self) -> Answer:
        if not self._wrong:
            try:
                self._filling.write()
            except ReplayError as error:
                self._wrong = str(error)
        if self._wrong:
            return Answer(*self._place, wrong=self._wrong)
        own = tuple(sorted(self._own))
        return Answer(*self._place, self._read, self._fresh, tuple(self._filling.segments), own)


def archive_rows(rows: pa.Table, committed: Seen) -> pa.Table:
    """Rows of the Kafka source as an archive has them."""
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
    """Headers under the names that an archive gives to their parts."""
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks)
    parts = column.values
    fields = [parts.field("key").cast(pa.binary()), parts.field("value")]
    kind = SCHEMA.field("headers").type
    named = pa.StructArray.from_arrays(fields, fields=list(kind.value_type))
    return pa.ListArray.from_arrays(column.offsets, named, mask=column.is_null())


def _by_place(rows: pa.Table) -> Iterator[tuple[Place, pa.Table]]:
    """Rows by topic and partition, in their order."""
    places = rows.group_by(["topic", "partition"], use_threads=False).aggregate([])
    for one in places.to_pylist():
        wanted = pc.and_(
            pc.equal(rows.column("topic"), one["topic"]),
            pc.equal(rows.column("partition"), one["partition"]),
        )
        yield (one["topic"], one["partition"]), rows.filter(wanted)
