"""States of very large clusters: offsets are folded in buckets of keys, in many tasks.

    slices of partitions → mapInArrow(last row of each key, by bucket)
      → shuffle by bucket → mapInArrow(fold a bucket) → rows or summaries

No process holds more than the keys of one slice, or of one bucket. Everything but offsets is folded
by one task per cluster, as for other clusters.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from controlplane.core import views
from controlplane.core.state import ClusterState
from replay.cluster_problem import ClusterProblem, attempted
from replay.engine.executors import Executor
from replay.engine.plans.read_plan import ReadPlan
from replay.engine.slices import PlanSlice, TaskLimits, slices
from replay.engine.spark.task_output_codec import rows_content, rows_of, wrong_content
from replay.engine.spark.tasks import NumberedWork, ReadContext, SliceWork, bundles, read_context
from replay.engine.spark.worker_process import in_worker
from replay.engine.states.key_buckets import BucketFold, BucketPart, in_buckets
from replay.engine.states.order_marks import OffsetMarks
from replay.errors import ReplayError
from replay.fleet.cluster_summaries import ClusterCut, FleetQuestion

PIECE_BYTES = 1024 * 1024
"""Size of a piece in the shuffle. It is small, because the JVM sorts pieces in memory pages."""

PARTS = pa.schema(
    [
        ("cluster", pa.int32()),
        ("bucket", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("slice", pa.int32()),
        ("disputed", pa.bool_()),
        ("piece", pa.int32()),
        ("content", pa.binary()),
    ]
)
"""Rows of a bucket on their way through the shuffle, in pieces."""

_ORDER = PARTS.names[:-1]


class LargeCluster(msgspec.Struct, frozen=True):
    """Cluster with too many offsets for one process: its slices, and the fold of its buckets."""

    cut: ClusterCut
    context: ReadContext
    fold: BucketFold
    slices: tuple[PlanSlice, ...]
    """Slices of all partitions of its offsets topics."""
    plan: ReadPlan
    """Plan without its parts, for gaps and doubts."""

    @property
    def cluster(self) -> str:
        """Name of the cluster."""
        return self.cut.cluster

    @property
    def works(self) -> list[SliceWork]:
        """Work of each slice: the last row of each key, with its rank."""
        return [
            SliceWork(self.context, part, time_ms, ranked=True) for part, time_ms in self.slices
        ]


class PlanTask(msgspec.Struct, frozen=True):
    """Task: plan one cluster at the moment of a question, and decide if it is very large."""

    question: FleetQuestion
    limits: TaskLimits

    def __call__(self, cluster: str) -> Iterator[ClusterCut | LargeCluster]:
        """Yield the cut of a cluster, or the work on it if it is very large."""
        planned: ClusterCut | LargeCluster | ClusterProblem
        planned = attempted(cluster, lambda: self._planned(cluster))
        # The fold of an unreadable cluster reports its problem.
        yield ClusterCut(cluster) if isinstance(planned, ClusterProblem) else planned

    def _planned(self, cluster: str) -> ClusterCut | LargeCluster:
        question, limits = self.question, self.limits
        local, plan, _ = question.query(cluster)
        cut = ClusterCut(cluster, plan.ends)
        topics = plan.offsets_topics
        parts = [part for part in plan.busy if part.topic in topics]
        rows = sum(part.rows for part in parts)
        if rows <= limits.fold_rows:
            return cut
        configs = local.states(plan.only([plan.topics.config]), question.profiles)
        fold = BucketFold(
            plan.topics,
            question.profiles,
            question.source.exactly_once,
            -(-rows // limits.bucket_rows),
            {state.profile.release: _own_topics(state) for state in configs},
        )
        part_slices = (each for part in parts for each in slices(local.cluster, part, limits))
        context = read_context(local, question.profiles)
        return LargeCluster(cut, context, fold, tuple(part_slices), plan.brief)


def _own_topics(state: ClusterState) -> dict[str, str]:
    """Dedicated offsets topic of each connector that has one."""
    own = {name: views.offsets_topics(state, name)[:-1] for name in views.connectors(state)}
    return {name: topics[0] for name, topics in own.items() if topics}


def divided(
    question: FleetQuestion, clusters: Sequence[str], limits: TaskLimits, by: Executor
) -> tuple[list[ClusterCut], list[LargeCluster]]:
    """Plan clusters, each in a task; divide them into those that one task folds, and large ones."""
    planned = list(chain.from_iterable(by.run(PlanTask(question, limits), clusters)))
    large = [each for each in planned if isinstance(each, LargeCluster)]
    return [each for each in planned if not isinstance(each, LargeCluster)], large


class FoldedBucket(NamedTuple):
    """States of one bucket, one per release, or the problem of its cluster."""

    cluster: str
    number: int
    states: Sequence[ClusterState]
    problem: str | None = None
    order_marks: Mapping[str, Mapping[str, OffsetMarks]] = {}
    """Offsets that depend on the order between partitions, by release and connector."""


BucketRowsMaker = Callable[[FoldedBucket], Iterator[pa.RecordBatch]]
"""Makes the rows of a bucket; it must be picklable."""


def bucket_frame(
    session: SparkSession,
    large: Sequence[LargeCluster],
    limits: TaskLimits,
    make: BucketRowsMaker,
    schema: pa.Schema,
) -> DataFrame:
    """Data frame of the rows that `make` makes of each bucket."""
    numbered = [
        NumberedWork(number, at, work)
        for number, cluster in enumerate(large)
        for at, work in enumerate(cluster.works)
    ]
    tasks = bundles(numbered, session.sparkContext.defaultParallelism, limits)
    buckets = [cluster.fold.buckets for cluster in large]
    frame = session.range(0, len(tasks), 1, len(tasks)).mapInArrow(
        partial(_divided, tasks=tasks, large=large), from_arrow_schema(PARTS)
    )
    # Sorting spills to disk, so a task receives its buckets one after the other.
    shuffled = frame.repartition(sum(buckets), "cluster", "bucket").sortWithinPartitions(*_ORDER)
    return shuffled.mapInArrow(partial(_folded, large=large, make=make), from_arrow_schema(schema))


@in_worker
def _divided(
    batches: Iterator[pa.RecordBatch],
    tasks: Sequence[Sequence[NumberedWork]],
    large: Sequence[LargeCluster],
) -> Iterator[pa.RecordBatch]:
    """`mapInArrow` function: numbers of tasks in, rows by bucket out."""
    for batch in batches:
        for task in batch.column("id").to_pylist():
            for numbered in tasks[task]:
                yield from _of_slice(numbered, large[numbered.number].fold)


def _of_slice(numbered: NumberedWork, fold: BucketFold) -> Iterator[pa.RecordBatch]:
    number, at, work = numbered
    place = {"cluster": number, "topic": work.part.topic, "partition": work.part.partition}
    try:
        table = work.reduced()
    except ReplayError as error:  # each bucket gets the error, so no bucket has rows
        for bucket in range(fold.buckets):
            yield from _pieces(
                place | {"bucket": bucket, "slice": at, "disputed": False},
                wrong_content(error),
            )
        return
    for bucket, disputed, rows in in_buckets(table, fold.profiles, fold.buckets):
        yield from _pieces(
            place | {"bucket": bucket, "slice": at, "disputed": disputed}, rows_content(rows)
        )


def _pieces(place: dict[str, Any], content: bytes) -> Iterator[pa.RecordBatch]:
    for piece, start in enumerate(range(0, len(content), PIECE_BYTES)):
        row = place | {"piece": piece, "content": content[start : start + PIECE_BYTES]}
        yield pa.RecordBatch.from_pylist([row], schema=PARTS)


@in_worker
def _folded(
    batches: Iterator[pa.RecordBatch], large: Sequence[LargeCluster], make: BucketRowsMaker
) -> Iterator[pa.RecordBatch]:
    """`mapInArrow` function: rows by bucket in, rows of folded buckets out."""
    rows = (row for batch in batches for row in batch.to_pylist())
    for (number, bucket), bucket_rows in groupby(rows, itemgetter("cluster", "bucket")):
        name, fold = large[number].cluster, large[number].fold
        try:
            parts = list(_parts(bucket_rows))
        except ReplayError as error:
            yield from make(FoldedBucket(name, bucket, (), str(error)))
        else:
            states, marks = fold.states(bucket, parts), fold.order_marks(bucket, parts)
            yield from make(FoldedBucket(name, bucket, states, order_marks=marks))


def _parts(rows: Iterator[dict[str, Any]]) -> Iterator[BucketPart]:
    """Assemble the parts of a bucket from their pieces."""
    by_part = itemgetter("topic", "partition", "slice", "disputed")
    for (topic, partition, _, disputed), pieces in groupby(rows, by_part):
        content = b"".join(row["content"] for row in pieces)
        yield BucketPart(topic, partition, disputed, rows_of(content))
