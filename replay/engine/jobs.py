"""A job of Spark's that is watched: how far it has come, and that it ends when nobody waits."""

from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import NamedTuple
from uuid import uuid4

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from replay.engine.session import NoSpark, told
from replay.progress import Progress

PARALLELISM = "spark.sql.leafNodeDefaultParallelism"
"""Spark's setting of how many partitions rows come in that lie in the driver: so many at most, in
one each if they may."""

LOOK_S = 0.2
"""How often Spark is asked how far it has come."""


def run(frame: DataFrame, progress: Progress) -> pa.Table:
    """All rows of a frame.

    Raises:
        NoSpark: the job has failed.
    """
    context = frame.sparkSession.sparkContext
    group = f"replay-{uuid4()}"

    def collect() -> pa.Table:
        context.setJobGroup(group, "replay", interruptOnCancel=True)
        return frame.toArrow()

    with ThreadPoolExecutor(1) as thread:
        job = thread.submit(collect)
        try:
            _watch(job, context, group, progress)
        except BaseException:  # Ctrl-C: nobody waits for it any more
            context.cancelJobGroup(group)
            raise
    try:
        return job.result()
    except (PySparkException, Py4JError) as error:
        raise NoSpark(f"Spark has failed ({told(error)})") from None


def _watch(job: "Future[pa.Table]", context: SparkContext, group: str, progress: Progress) -> None:
    """Tell how many tasks are done until all are."""
    total = done = 0
    while not wait([job], LOOK_S).done:
        seen = _tasks(context, group)
        if seen.total != total:
            progress.begin("Spark: tasks", seen.total)
            total, done = seen.total, 0
        progress.advance(seen.done - done)
        done = seen.done


class _Tasks(NamedTuple):
    """How many tasks there are of a job, as far as is known, and how many are done."""

    total: int
    done: int


def _tasks(context: SparkContext, group: str) -> _Tasks:
    tracker = context.statusTracker()
    jobs = filter(None, map(tracker.getJobInfo, tracker.getJobIdsForGroup(group)))
    stages = (tracker.getStageInfo(stage) for job in jobs for stage in job.stageIds)
    known = [stage for stage in stages if stage is not None]
    return _Tasks(sum(one.numTasks for one in known), sum(one.numCompletedTasks for one in known))
