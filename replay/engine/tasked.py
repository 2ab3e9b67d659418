"""Work carried out by tasks of Spark: for what is no kernel, but the core's own Python.

    (work, thing) → mapInArrow → what it found, in pieces

A row is one thing, in a partition of its own; the JVM sees bytes. What was found in some things is
at the driver before the next are begun, which bounds what it holds.
"""

import pickle
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from replay.engine.executors import Work, packed, unpacked
from replay.engine.jobs import PARALLELISM, run
from replay.engine.session import BATCH_BYTES
from replay.progress import Progress

T = TypeVar("T")
F = TypeVar("F")

WAVE = 8
"""So many things per slot make one job: of as many the driver holds what was found at once."""

THINGS = pa.schema([("number", pa.int32()), ("thing", pa.binary())])

PIECES = pa.schema([("number", pa.int32()), ("piece", pa.int32()), ("found", pa.binary())])
PIECES_DDL = "number int, piece int, found binary"
"""What was found in a thing, cut into pieces; there are none of what could not be handed over."""


class SparkTasks:
    """Tasks of Spark, wherever they run."""

    def __init__(self, session: SparkSession, progress: Progress) -> None:
        self.slots = session.sparkContext.defaultParallelism
        self._session = session
        self._progress = progress

    def run(self, work: "Work[T, F]", things: Sequence[T]) -> Iterator[Iterable[F]]:
        """What is found in each thing, in their order."""
        waiting = iter(things)
        while wave := list(islice(waiting, WAVE * self.slots)):
            table = run(self._frame(work, wave), self._progress)
            parcels = _joined(table, len(wave))
            for thing, parcel in zip(wave, parcels, strict=True):
                yield unpacked(parcel, work, thing)

    def _frame(self, work: "Work[T, F]", things: Sequence[T]) -> DataFrame:
        """What is found in some things, as a plan of Spark's; each is a task."""
        handed = [pickle.dumps((work, thing)) for thing in things]
        table = pa.table([range(len(things)), handed], schema=THINGS)
        self._session.conf.set(PARALLELISM, len(things))
        frame = self._session.createDataFrame(table)
        return frame.mapInArrow(carried_out, PIECES_DDL)


def carried_out(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: things in, what was found in them out."""
    for batch in batches:
        for row in batch.to_pylist():
            work, thing = pickle.loads(row["thing"])  # noqa: S301 - the driver has made it
            yield from _cut(row["number"], packed(work, thing) or b"")


def _cut(number: int, parcel: bytes) -> Iterator[pa.RecordBatch]:
    for piece, start in enumerate(range(0, len(parcel), BATCH_BYTES)):
        found = parcel[start : start + BATCH_BYTES]
        yield pa.record_batch([[number], [piece], [found]], schema=PIECES)


def _joined(table: pa.Table, length: int) -> list[bytes | None]:
    """The parcel of each thing."""
    pieces: list[list[bytes]] = [[] for _ in range(length)]
    for row in table.sort_by([("number", "ascending"), ("piece", "ascending")]).to_pylist():
        pieces[row["number"]].append(row["found"])
    return [b"".join(some) if some else None for some in pieces]
