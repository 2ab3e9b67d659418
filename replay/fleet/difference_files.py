"""Parquet files of differences, partitioned by cluster.

    FOLDER/differences/cluster=<cluster>/part-00000-<number>.parquet
    FOLDER/comparisons/part-00000-00000.parquet
    FOLDER/_STARTED
    FOLDER/_SUCCESS

The folder appears when all files are complete, as in `replay.fleet.state_files`.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
import pyarrow as pa

from controlplane.core.order import Ends
from replay.cluster_problem import ClusterProblem
from replay.engine.plans.read_plan import ReadPlan
from replay.engine.query import StateQuery
from replay.fleet.archive_source import ArchiveSource
from replay.fleet.cluster_summaries import cluster_table
from replay.fleet.comparisons import NO_ENDS, DifferenceQuery
from replay.fleet.state_files import StateFolder
from replay.tables.cells import RowDocument, json_cell
from replay.timeline.difference_rows import DiffSide
from replay.timeline.timeline_rows import CHANGES, COMPARISONS

DIFFERENCES_TABLE = "differences"
COMPARISONS_TABLE = "comparisons"


class ComparedCluster(NamedTuple):
    """Written differences of one cluster: the two sides, and counts; or the reason for none."""

    cluster: str
    """The queried cluster: that of the first side."""
    sides: tuple[DiffSide, DiffSide] | None = None
    plans: tuple[ReadPlan, ...] = ()
    """Plans of the sides, for notices, gaps and doubts."""
    differences: int = 0
    connectors: frozenset[str] = frozenset()
    """Selected connectors that at least one side knows."""
    problem: ClusterProblem | None = None
    """Reason why the cluster, or the one that it is compared with, has no answer."""

    @property
    def row(self) -> RowDocument:
        """The counts as a row of `timeline_rows.COMPARISONS`."""
        if self.problem is not None:
            own = self.problem.cluster == self.cluster
            reason = self.problem.problem if own else self.problem.line
            return {"cluster": self.cluster, "problem": reason}
        assert self.sides is not None
        gaps = [(plan.cluster, gap.sentence) for plan in self.plans for gap in plan.gaps]
        doubts = [(plan.cluster, doubt.sentence) for plan in self.plans for doubt in plan.doubts]
        before, after = self.sides
        moments = [json_cell(plan.certain_from) for plan in self.plans]
        return {
            "cluster": self.cluster,
            "from": before.row,
            "to": after.row,
            "differences": self.differences,
            "gaps": self._lines(gaps),
            "doubts": self._lines(doubts),
            "certain_from": dict(zip(("from", "to"), moments, strict=True)),
        }

    def _lines(self, sentences: Sequence[tuple[str, str]]) -> list[str]:
        """Sentences, each once; those about the second cluster begin with its name."""
        return [
            sentence if cluster == self.cluster else f"{cluster}: {sentence}"
            for cluster, sentence in dict.fromkeys(sentences)
        ]


class ComparisonCut(NamedTuple):
    """Cluster, and the end offsets of its two sides.

    Fixed ends give each attempt of a task the same records, although the archive may grow.
    """

    cluster: str
    ends: Sequence[Ends | None] = NO_ENDS


class DifferencePlanTask(msgspec.Struct, frozen=True):
    """Task: plan the sides of one cluster, so that their ends are fixed."""

    query: DifferenceQuery
    source: ArchiveSource

    def __call__(self, cluster: str) -> Iterator[ComparisonCut | ComparedCluster]:
        """Yield the ends, or the problem of a side."""
        queries = self.query.queries(self.source, cluster)
        if isinstance(queries, ClusterProblem):
            yield ComparedCluster(cluster, problem=queries)
        else:
            yield ComparisonCut(cluster, [query.plan.ends for query in queries])


class DifferenceTask(msgspec.Struct, frozen=True):
    """Task: fold the two sides of one cluster, and write their differences."""

    query: DifferenceQuery
    source: ArchiveSource
    folder: StateFolder

    def __call__(self, cut: ComparisonCut) -> Iterator[ComparedCluster]:
        """Yield the counts, or the problem of a side."""
        yield self.comparison(cut.cluster, self.query.queries(self.source, *cut))

    def comparison(
        self, cluster: str, queries: Sequence[StateQuery] | ClusterProblem
    ) -> ComparedCluster:
        """Write the differences of two planned sides.

        Raises:
            NotWritable: no room, or no permission.
        """
        states = self.query.comparison(self.source, cluster, queries)
        if isinstance(states, ClusterProblem):
            return ComparedCluster(cluster, problem=states)
        place = f"{DIFFERENCES_TABLE}/cluster={cluster}"
        differences = self.folder.write_rows(place, CHANGES, states.batches())
        sides = states.before.side, states.after.side
        return ComparedCluster(cluster, sides, states.plans, differences, states.known_connectors())


def comparison_table(compared: Sequence[ComparedCluster], clusters: Sequence[str]) -> pa.Table:
    """Counts as a table, in the order of the clusters."""
    return cluster_table([each.row for each in compared], clusters, COMPARISONS)
