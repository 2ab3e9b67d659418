"""Answers for whole fleets in this process."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from replay.engine.executors import Executor, SerialExecutor
from replay.fleet.cluster_summaries import ClusterCut, FleetQuestion, StateSummary
from replay.fleet.state_files import StateFolder, StateTask
from replay.fleet.table_run import TableWork, readable_batches
from replay.progress import NoProgress, ProgressListener


class LocalFleet:
    """Answers questions about fleets in this process, one cluster after the other."""

    def __init__(self, progress: ProgressListener | None = None) -> None:
        self.executor: Executor = SerialExecutor()
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
        cuts = [ClusterCut(cluster) for cluster in clusters]
        for summaries in self.executor.run(StateTask(question, folder, tuple(tables)), cuts):
            yield from summaries
            self._progress.advance(1)
