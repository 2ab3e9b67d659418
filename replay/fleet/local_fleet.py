"""Answers for whole fleets in this process."""

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa

from replay.archive.stores.concurrent_requests import REQUESTS_AT_ONCE, concurrently
from replay.cluster_problem import ClusterProblem, attempted
from replay.engine.executors import Executor, SerialExecutor, ThreadExecutor
from replay.engine.query import StateQuery
from replay.fleet.cluster_summaries import FleetQuestion, StateSummary
from replay.fleet.state_files import StateFolder, StateTask
from replay.fleet.table_run import TableWork, readable_batches
from replay.progress import NoProgress, ProgressListener


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
        for cluster, query in zip(clusters, _queries(question, clusters), strict=True):
            yield from task.summaries(cluster, query)
            self._progress.advance(1)


def _queries(
    question: FleetQuestion, clusters: Sequence[str]
) -> Iterator[StateQuery | ClusterProblem]:
    """Plan clusters concurrently, but hold the plans of `REQUESTS_AT_ONCE` clusters at most."""

    def query(cluster: str) -> StateQuery | ClusterProblem:
        return attempted(cluster, partial(question.query, cluster))

    for start in range(0, len(clusters), REQUESTS_AT_ONCE):
        yield from concurrently(query, clusters[start : start + REQUESTS_AT_ONCE])
