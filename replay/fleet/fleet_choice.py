"""Choice between Spark and this process: the only place that makes it, for API and commands."""

from typing import TYPE_CHECKING

from replay.fleet.local_fleet import LocalFleet
from replay.progress import ProgressListener

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from replay.fleet.spark.fleet_jobs import SparkFleet


def fleet_of(
    session: "SparkSession | None",
    progress: ProgressListener | None = None,
    jobs: int | None = None,
) -> "LocalFleet | SparkFleet":
    """Return a `SparkFleet` for a Spark session; without one, a `LocalFleet`.

    `jobs` limits the processes that plan and fold a fleet without Spark.
    """
    if session is None:
        return LocalFleet(progress, jobs)
    from replay.fleet.spark.fleet_jobs import SparkFleet  # noqa: PLC0415 - needs pyspark

    return SparkFleet(session, progress=progress)
