"""Watched Spark job: reports progress, and is cancelled with its caller."""

from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import NamedTuple
from uuid import uuid4

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from replay.engine.spark.session import NoSpark, root_cause
from replay.progress import ProgressListener

PARALLELISM = "spark.sql.leafNodeDefaultParallelism"
"""Spark's setting for the number of partitions of rows that lie in the driver."""

LOOK_S = 0.2
"""Seconds between two progress requests to Spark."""


def run(frame: DataFrame, progress: ProgressListener) -> pa.Table:
    """Collect all rows of a frame.

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
        except BaseException:  # Ctrl-C: the result is no longer wanted
            context.cancelJobGroup(group)
            raise
    try:
        return job.result()
    except (PySparkException, Py4JError) as error:
        raise NoSpark(f"Spark has failed ({root_cause(error)})") from None


def _watch(
    job: "Future[pa.Table]", context: SparkContext, group: str, progress: ProgressListener
) -> None:
    """Report finished tasks until the job ends."""
    total = finished = 0
    while not wait([job], LOOK_S).done:
        count = _tasks(context, group)
        if count.total != total:
            progress.begin("Spark: tasks", count.total)
            total, finished = count.total, 0
        progress.advance(count.done - finished)
        finished = count.done


class _JobProgress(NamedTuple):
    """Known and finished tasks of a job."""

    total: int
    done: int


def _tasks(context: SparkContext, group: str) -> _JobProgress:
    tracker = context.statusTracker()
    jobs = filter(None, map(tracker.getJobInfo, tracker.getJobIdsForGroup(group)))
    stages = (tracker.getStageInfo(stage) for job in jobs for stage in job.stageIds)
    finished = [stage for stage in stages if stage is not None]
    return _JobProgress(
        sum(known_stage.numTasks for known_stage in finished),
        sum(known_stage.numCompletedTasks for known_stage in finished),
    )
