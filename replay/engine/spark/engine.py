"""Engine in Spark: one job for all queried clusters, several if they are very large.

    file lists → mapInArrow(read, reduce) → rows that count
      (only for sliced partitions:) → shuffle by partition → mapInArrow(merge) ↗

A row counts if the state depends on it. Tasks read files directly from the archive's store. The JVM
handles file lists and bytes only. The driver receives the rows that count, and `controlplane.core`
folds them there. This suits many short logs (`replay.refold`) and comparisons in tests. Fleets are
folded in tasks (`replay.fleet`).
"""

from collections.abc import Sequence
from functools import partial, reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from controlplane.core.state import ClusterState
from replay.engine.plans.read_plan import PartitionPlan
from replay.engine.query import StateQuery
from replay.engine.slices import LIMITS, PlanSlice, TaskLimits, in_jobs, slices
from replay.engine.spark.jobs import PARALLELISM, run
from replay.engine.spark.task_output_codec import PIECES_DDL, rows_of, task_outputs
from replay.engine.spark.tasks import (
    TASKS,
    NumberedWork,
    SliceWork,
    bundles,
    encoded,
    merged,
    read_context,
    reduced,
)
from replay.progress import NoProgress, ProgressListener


class SparkEngine:
    """Answers queries on the archives of many clusters."""

    def __init__(
        self,
        session: SparkSession,
        limits: TaskLimits = LIMITS,
        progress: ProgressListener | None = None,
    ) -> None:
        self._session = session
        self._limits = limits
        self._progress = progress or NoProgress()

    def states(self, queries: Sequence[StateQuery]) -> list[list[ClusterState]]:
        """Return, for each query, the state of each release.

        Raises:
            ArchiveCorrupt: a file is damaged or missing.
            ArchiveBusy: a merge has removed a file since the archive was opened.
            NoArchive: the archive cannot be read.
            NoSpark: Spark has failed.
        """
        return [
            states
            for job_queries in in_jobs(queries, self._limits)
            for states in self._states(job_queries)
        ]

    def _states(self, queries: Sequence[StateQuery]) -> list[list[ClusterState]]:
        works = self.works(queries)
        slices_of = [self._slices(query, part) for query in queries for part in query.plan.busy]
        tables = iter(self.rows(works, slices_of))
        reduced = [[next(tables) for _ in query.plan.busy] for query in queries]
        ranks = [_SparkRanks() for _ in queries]
        known_states = list(map(_folded, queries, reduced, ranks))
        self._rank(queries, ranks)
        return [
            _folded(query, tables, missing_ranks) if missing_ranks.requested_parts else states
            for query, tables, missing_ranks, states in zip(
                queries, reduced, ranks, known_states, strict=True
            )
        ]

    def works(self, queries: Sequence[StateQuery]) -> list[SliceWork]:
        """Work of the queries: each part with rows (`ReadPlan.busy`) of each plan."""
        return [_work(query, part) for query in queries for part in query.plan.busy]

    def _slices(self, query: StateQuery, part: PartitionPlan) -> list[PlanSlice]:
        return slices(query.local.cluster, part, self._limits)

    def _rank(self, queries: Sequence[StateQuery], ranks: Sequence["_SparkRanks"]) -> None:
        """Find all requested ranks, for all clusters in one further job."""
        works = [
            _work(query, part, ranked=True)
            for query, missing_ranks in zip(queries, ranks, strict=True)
            for part in missing_ranks.requested_parts
        ]
        tables = iter(self.rows(works))
        for missing_ranks in ranks:
            missing_ranks.ranked_tables = {
                part: next(tables) for part in missing_ranks.requested_parts
            }

    def rows(
        self, works: Sequence[SliceWork], slices_of: Sequence[Sequence[PlanSlice]] | None = None
    ) -> list[pa.Table]:
        """Reduce all works in one job; `slices_of`: slices of each work, by default one slice.

        Raises:
            ArchiveCorrupt: a file is damaged or missing.
            ArchiveBusy: a merge has removed a file since the archive was opened.
            NoArchive: the archive cannot be read.
            NoSpark: Spark has failed.
        """
        if not works:
            return []
        frame = self.frame(works, slices_of or [[PlanSlice(work.part, None)] for work in works])
        return [rows_of(output.content) for output in task_outputs(run(frame, self._progress))]

    def frame(
        self, works: Sequence[SliceWork], slices_of: Sequence[Sequence[PlanSlice]]
    ) -> DataFrame:
        """Data frame of the reduced works."""
        whole: list[NumberedWork] = []
        sliced: list[NumberedWork] = []
        for number, (work, part_slices) in enumerate(zip(works, slices_of, strict=True)):
            into = whole if len(part_slices) == 1 else sliced
            into += [
                NumberedWork(number, at, work.of(*part_slice))
                for at, part_slice in enumerate(part_slices)
            ]
        slots = self._session.sparkContext.defaultParallelism
        tasks = [bundles(numbered, slots, self._limits) for numbered in (whole, sliced)]
        self._session.conf.set(PARALLELISM, max(map(len, tasks)))
        frames = [self._reduced(bundled) for bundled in tasks if bundled]
        if sliced:
            frames[-1] = _merged(
                frames[-1],
                {numbered_work.number: works[numbered_work.number] for numbered_work in sliced},
            )
        return reduce(DataFrame.unionAll, frames)

    def _reduced(self, tasks: Sequence[Sequence[NumberedWork]]) -> DataFrame:
        """Data frame of the reduced slices: each row of the input table is one task."""
        table = pa.table({"works": [encoded(task) for task in tasks]}, schema=TASKS)
        frame = self._session.createDataFrame(table)
        return frame.mapInArrow(reduced, PIECES_DDL)


class _SparkRanks:
    """Ranks of the last rows of an offsets topic (`engine.local_engine.RankReader`).

    A fold seldom needs ranks. The first fold records the request and gets an empty answer. One job
    then finds the ranks for all clusters, and the fold runs again.
    """

    def __init__(self) -> None:
        self.requested_parts: list[PartitionPlan] = []
        self.ranked_tables: dict[PartitionPlan, pa.Table] = {}

    def __call__(self, parts: Sequence[PartitionPlan]) -> list[pa.Table]:
        if self.ranked_tables:
            return [self.ranked_tables[part] for part in parts]
        self.requested_parts += [part for part in parts if part not in self.requested_parts]
        return [_NOTHING for _ in parts]


_NOTHING = pa.table({})


def _folded(
    query: StateQuery, reduced: Sequence[pa.Table], ranks: _SparkRanks
) -> list[ClusterState]:
    return query.local.folded(query.plan, query.profiles, reduced, ranks)


def _merged(slices_left: DataFrame, whole: dict[int, SliceWork]) -> DataFrame:
    """Merge slices by partition: the one shuffle."""
    merging = partial(merged, whole=whole)
    return slices_left.repartition(len(whole), "work").mapInArrow(merging, PIECES_DDL)


def _work(query: StateQuery, part: PartitionPlan, *, ranked: bool = False) -> SliceWork:
    return SliceWork(read_context(query.local, query.profiles), part, ranked=ranked)
