"""Work carried out by tasks of Spark: for what is no kernel, but the core's own Python.

    (work, thing) → mapInArrow → what it found, in pieces

A row is one thing, in a partition of its own. What was found in some things is at the driver before
the next are begun, which bounds what it holds.
"""

import pickle
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from replay.engine.executors import Work, packed, unpacked
from replay.engine.jobs import PARALLELISM, run
from replay.engine.parcels import PIECES_DDL, Parcel, parcels, pieces
from replay.progress import Progress

T = TypeVar("T")
F = TypeVar("F")

WAVE = 8
"""So many things per slot make one job: of as many the driver holds what was found at once."""

THINGS = pa.schema([("number", pa.int32()), ("thing", pa.binary())])


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
            found = {parcel.work: parcel.content for parcel in parcels(table)}
            for number, thing in enumerate(wave):
                yield unpacked(found.get(number), work, thing)

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
            yield from pieces(Parcel(row["number"], 0, packed(work, thing) or b""))
