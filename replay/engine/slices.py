"""Jobs and slices: limits on the work of one job, and large partitions cut into slices."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from replay.archive.archived_cluster import ArchivedCluster
from replay.archive.segments.winners import reducible
from replay.engine.plans.read_plan import FileRows, PartitionPlan
from replay.engine.query import StateQuery


class TaskLimits(NamedTuple):
    """Bounds on the work of one task and one job."""

    task_rows: int = 10_000_000
    """Partitions with fewer rows share a task, up to this many rows."""
    slice_rows: int = 50_000_000
    """Partitions with more rows are read by several tasks, and their results are merged."""
    job_rows: int = 1_000_000_000
    """Limit of rows of all clusters in one job; a larger cluster has a job of its own. The driver
    holds the result of one job at a time."""
    fold_rows: int = 4_000_000
    """Clusters with more rows of offsets to read are folded in buckets of keys, not as a whole. If
    each row has another key, a task needs 2.2 GB for so many."""
    bucket_rows: int = 2_000_000
    """Rows of offsets per bucket, on average: one task holds the last value of each of its keys."""


LIMITS = TaskLimits()


def in_jobs(
    queries: Sequence[StateQuery], limits: TaskLimits = LIMITS
) -> Iterator[list[StateQuery]]:
    """Group queries into jobs of at most `job_rows` rows, or of one query."""
    job: list[StateQuery] = []
    rows = 0
    for query in queries:
        query_rows = sum(part.rows for part in query.plan.busy)
        if job and rows + query_rows > limits.job_rows:
            yield job
            job, rows = [], 0
        job.append(query)
        rows += query_rows
    if job:
        yield job


class PlanSlice(NamedTuple):
    """Consecutive file rows of a partition."""

    part: PartitionPlan
    before_ms: int | None
    """Greatest timestamp of the partition before the slice; None at the beginning."""


def slices(
    cluster: ArchivedCluster, part: PartitionPlan, limits: TaskLimits = LIMITS
) -> list[PlanSlice]:
    """Cut a part into slices of at most `slice_rows` rows, or of one file; small parts stay whole.

    Topics in which every record may count stay whole: their rows cannot be merged.
    """
    if part.rows <= limits.slice_rows or not reducible(part.topic, cluster.topics):
        return [PlanSlice(part, None)]
    groups: list[list[FileRows]] = [[]]
    rows = 0
    for piece in part.pieces:
        rows += piece.end - piece.begin
        if groups[-1] and rows > limits.slice_rows:
            groups.append([])
            rows = piece.end - piece.begin
        groups[-1].append(piece)
    before = _before(cluster, part)
    return [
        PlanSlice(replace(part, pieces=tuple(group)), before.get(group[0].stored.file))
        for group in groups
    ]


def _before(cluster: ArchivedCluster, part: PartitionPlan) -> dict[str, int]:
    """Greatest timestamp before each file of a partition, from the manifests."""
    latest_before: dict[str, int] = {}
    latest_ms: int | None = None
    for segment in cluster.parts[part.topic, part.partition].segments:
        for stored in (segment.stored, segment.winners):
            if stored is not None and latest_ms is not None:
                latest_before[stored.file] = latest_ms
        latest_ms = segment.latest_ms
    return latest_before
