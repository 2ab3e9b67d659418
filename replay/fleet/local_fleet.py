"""Answers for whole fleets on this machine: in this process, or in several."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
from msgspec.structs import replace

from replay.cluster_problem import ClusterProblem, attempted
from replay.engine.executors import Executor, SerialExecutor, ThreadExecutor, process_executor
from replay.engine.query import StateQuery
from replay.fleet.answer_warnings import warn_of_absent
from replay.fleet.archive_source import ArchiveSource
from replay.fleet.cluster_plans import planned_ahead
from replay.fleet.cluster_summaries import ClusterCut, FleetQuestion, StateSummary
from replay.fleet.comparisons import DifferenceQuery
from replay.fleet.difference_files import ComparedCluster, ComparisonCut, DifferenceTask
from replay.fleet.state_files import StateFolder, StateTask
from replay.fleet.table_queries import StateTableQuery
from replay.fleet.table_run import (
    TableWork,
    attempted_plan,
    readable_batches,
    tables_of_cluster,
)
from replay.progress import NoProgress, ProgressListener

T = TypeVar("T")


class LocalFleet:
    """Answers questions about fleets on this machine.

    `jobs` processes fold the clusters for summaries, states and differences. This process does all
    other work, one cluster after the other. Only requests that plan or describe clusters are
    concurrent. Several processes plan a large fleet (`replay.fleet.cluster_plans`); `jobs` limits
    their number. None: one process folds, and one per processor plans.
    """

    def __init__(self, progress: ProgressListener | None = None, jobs: int | None = None) -> None:
        self.executor: Executor = SerialExecutor()
        self.requests: Executor = ThreadExecutor()
        """Runs work that mostly waits for the store."""
        self._folding = process_executor(jobs or 1)
        self._progress = progress or NoProgress()
        self._jobs = jobs

    def frame(self, work: TableWork) -> pa.Table:
        """Arrow table of a table query; `AbsentConnector` warns of unknown connectors.

        Raises:
            UnreadableCluster: a cluster is unreadable and not to be skipped.
        """
        known_names: set[str] = set()
        table = pa.Table.from_batches(self._batches(work, known_names), work.query.schema)
        if work.query.connectors:
            known_names.update(table["connector"].unique().to_pylist())
            warn_of_absent(work.query.connectors, known_names)
        return table

    def state_frames(
        self, work: TableWork, query: StateTableQuery, tables: Sequence[str]
    ) -> dict[str, pa.Table]:
        """Arrow tables of a state by their names; one plan of each cluster serves all.

        `query` makes the plans, and the first table. Only that table warns of doubts.

        Raises:
            UnreadableCluster: a cluster is unreadable and not to be skipped.
        """
        queries = {table: replace(query, table=table, is_silent=True) for table in tables}
        queries[query.table] = query
        parts = [{table: each.schema.empty_table() for table, each in queries.items()}]
        with closing(self._plans(work)) as plans:
            for cluster, planned in plans:
                parts.append(tables_of_cluster(queries, work, cluster, planned))
        return {table: pa.concat_tables(part[table] for part in parts) for table in tables}

    def _batches(self, work: TableWork, known_names: set[str]) -> Iterator[pa.RecordBatch]:
        with closing(self._plans(work)) as plans:
            for cluster, planned in plans:
                yield from readable_batches(work, cluster, planned, known_names)

    def _plans(self, work: TableWork) -> Generator[tuple[str, Any], None, None]:
        plan = partial(attempted_plan, work.query, work.source)
        return self._planned(plan, work.clusters, work.query.moments)

    def _planned(
        self, plan: Callable[[str], T], clusters: Sequence[str], moments: Sequence[str | None]
    ) -> Generator[tuple[str, T], None, None]:
        """Yield each cluster with its plan. A limited number of plans is made ahead."""
        with closing(planned_ahead(plan, clusters, moments, self._jobs)) as plans:
            yield from zip(clusters, plans, strict=True)

    def small_frame(self, table: pa.Table) -> pa.Table:
        """A table that lies in this process."""
        return table

    def summaries(
        self,
        question: FleetQuestion,
        clusters: Sequence[str],
        folder: StateFolder | None = None,
        tables: Sequence[str] = (),
    ) -> Generator[StateSummary, None, None]:
        """Fold all clusters, write tables if a folder is given; yield summaries.

        Raises:
            NotWritable: no room, or no permission.
        """
        self._progress.begin("writing" if folder else "folding", len(clusters))
        task = StateTask(question, folder, tuple(tables))
        with closing(self._summarised(task, clusters)) as answers:
            for cluster_summaries in answers:
                yield from cluster_summaries
                self._progress.advance(1)

    def _summarised(
        self, task: StateTask, clusters: Sequence[str]
    ) -> Generator[Iterable[StateSummary], None, None]:
        if self._folding.slots > 1:
            yield from self._folding.run(task, [ClusterCut(cluster) for cluster in clusters])
            return
        plan = partial(_attempted_query, task.question)
        with closing(self._planned(plan, clusters, [task.question.moment])) as plans:
            for cluster, planned_query in plans:
                yield task.summaries(cluster, planned_query)

    def differences(
        self,
        query: DifferenceQuery,
        source: ArchiveSource,
        clusters: Sequence[str],
        folder: StateFolder,
    ) -> Iterator[ComparedCluster]:
        """Compare the sides of all clusters, and write the differences; yield counts.

        Raises:
            NotWritable: no room, or no permission.
        """
        self._progress.begin("writing", len(clusters))
        task = DifferenceTask(query, source, folder)
        with closing(self._compared(task, clusters)) as answers:
            for cluster_counts in answers:
                yield from cluster_counts
                self._progress.advance(1)

    def _compared(
        self, task: DifferenceTask, clusters: Sequence[str]
    ) -> Generator[Iterable[ComparedCluster], None, None]:
        if self._folding.slots > 1:
            yield from self._folding.run(task, [ComparisonCut(cluster) for cluster in clusters])
            return
        plan = partial(task.query.queries, task.source)
        with closing(self._planned(plan, clusters, task.query.moments)) as plans:
            for cluster, sides in plans:
                yield [task.comparison(cluster, sides)]


def _attempted_query(question: FleetQuestion, cluster: str) -> StateQuery | ClusterProblem:
    return attempted(cluster, partial(question.query, cluster))
