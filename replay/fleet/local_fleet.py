"""Answers for whole fleets in this process."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import pyarrow as pa

from replay.cluster_problem import ClusterProblem, attempted
from replay.engine.executors import Executor, SerialExecutor, ThreadExecutor
from replay.engine.query import StateQuery
from replay.fleet.archive_source import ArchiveSource
from replay.fleet.cluster_plans import PLANS_AT_ONCE, planned_here
from replay.fleet.cluster_summaries import FleetQuestion, StateSummary
from replay.fleet.comparisons import DifferenceQuery
from replay.fleet.difference_files import ComparedCluster, DifferenceTask
from replay.fleet.state_files import StateFolder, StateTask
from replay.fleet.table_run import TableWork, readable_batches
from replay.progress import NoProgress, ProgressListener

T = TypeVar("T")


class LocalFleet:
    """Answers questions about fleets in this process: folds one cluster after the other.

    Only requests that plan or describe clusters are concurrent.
    """

    def __init__(self, progress: ProgressListener | None = None) -> None:
        self.executor: Executor = SerialExecutor()
        self.requests: Executor = ThreadExecutor()
        """Runs work that mostly waits for the store."""
        self._progress = progress or NoProgress()

    def frame(self, work: TableWork) -> pa.Table:
        """Arrow table of a table query.

        Raises:
            UnreadableCluster: a cluster is unreadable and not to be skipped.
        """
        batches = (batch for cluster in work.clusters for batch in readable_batches(work, cluster))
        return pa.Table.from_batches(batches, work.query.schema)

    def small_frame(self, table: pa.Table) -> pa.Table:
        """A table that lies in this process."""
        return table

    def summaries(
        self,
        question: FleetQuestion,
        clusters: Sequence[str],
        folder: StateFolder | None = None,
        tables: Sequence[str] = (),
    ) -> Iterator[StateSummary]:
        """Fold all clusters, write tables if a folder is given; yield summaries.

        Raises:
            NotWritable: no room, or no permission.
        """
        self._progress.begin("writing" if folder else "folding", len(clusters))
        task = StateTask(question, folder, tuple(tables))

        def query(cluster: str) -> StateQuery | ClusterProblem:
            return attempted(cluster, partial(question.query, cluster))

        for cluster, planned_query in _planned(query, clusters):
            yield from task.summaries(cluster, planned_query)
            self._progress.advance(1)

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
        for cluster, sides in _planned(partial(query.queries, source), clusters):
            yield task.comparison(cluster, sides)
            self._progress.advance(1)


def _planned(plan: Callable[[str], T], clusters: Sequence[str]) -> Iterator[tuple[str, T]]:
    """Plan clusters concurrently, but hold the plans of `PLANS_AT_ONCE` clusters at most."""
    for start in range(0, len(clusters), PLANS_AT_ONCE):
        block = clusters[start : start + PLANS_AT_ONCE]
        yield from zip(block, planned_here(plan, block), strict=True)
