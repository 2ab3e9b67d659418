"""Executor of Python functions in Spark tasks, for work beyond the kernels (`replay.kernels`).

    (work, item) → mapInArrow → results, in pieces

Each item is one row. A task works on several rows, because a task of Spark takes some 50 ms beside
its work. The driver receives the results of some items before the next ones start; this bounds its
memory.
"""

import pickle
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from replay.engine.executors import ItemWork, packed, unpacked
from replay.engine.spark.jobs import PARALLELISM, run
from replay.engine.spark.task_output_codec import PIECES_DDL, TaskOutput, pieces, task_outputs
from replay.engine.spark.worker_process import in_worker
from replay.progress import NoProgress, ProgressListener

T = TypeVar("T")
R = TypeVar("R")

WAVE = 64
"""Items per slot in one job; the driver holds the results of all items of one job."""

TASKS = 4
"""Maximum tasks per slot in one job. More cost time; fewer distribute large items unevenly."""

ITEMS = pa.schema([("number", pa.int32()), ("item", pa.binary())])


class SparkExecutor:
    """Runs work in Spark tasks, in waves of `WAVE` items per slot."""

    def __init__(self, session: SparkSession, progress: ProgressListener | None = None) -> None:
        self.slots = session.sparkContext.defaultParallelism
        self._session = session
        self._progress = progress or NoProgress()

    def run(self, work: "ItemWork[T, R]", items: Sequence[T]) -> Iterator[Iterable[R]]:
        """Run the work on each item; yield the results of each, in order."""
        waiting = iter(items)
        while wave := list(islice(waiting, WAVE * self.slots)):
            table = run(self._frame(work, wave), self._progress)
            contents = {output.work: output.content for output in task_outputs(table)}
            for number, item in enumerate(wave):
                yield unpacked(contents.get(number), work, item)

    def _frame(self, work: "ItemWork[T, R]", items: Sequence[T]) -> DataFrame:
        """Data frame of the results of some items."""
        handed = [pickle.dumps((work, item)) for item in items]
        table = pa.table([range(len(items)), handed], schema=ITEMS)
        self._session.conf.set(PARALLELISM, min(len(items), TASKS * self.slots))
        frame = self._session.createDataFrame(table)
        return frame.mapInArrow(carried_out, PIECES_DDL)


@in_worker
def carried_out(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """`mapInArrow` function: items in, results out."""
    for batch in batches:
        for row in batch.to_pylist():
            work, item = pickle.loads(row["item"])  # noqa: S301 - the driver has made it
            yield from pieces(TaskOutput(row["number"], 0, packed(work, item) or b""))
