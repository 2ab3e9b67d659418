"""Comparisons of states: between two moments, two releases, or two clusters.

The command `replay diff` and the API share this query. It is a value without open files, so that
Spark's tasks and other processes can run it.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import msgspec
import pyarrow as pa

from controlplane.core.order import Ends
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.core.views.diff import Change, connector_names, differences
from replay.cluster_problem import BusyCluster, ClusterProblem, attempted, parts_or_problem
from replay.engine.plans.read_plan import ReadPlan
from replay.engine.query import StateQuery
from replay.fleet.answer_warnings import KnownConnectors, warn_of_plans
from replay.fleet.archive_source import ArchiveSource
from replay.fleet.cluster_summaries import FleetQuestion
from replay.progress import Advance
from replay.tables.cells import batches
from replay.timeline.difference_rows import DiffSide, change_rows
from replay.timeline.timeline_rows import CHANGES, plain_rows

NO_ENDS = (None, None)
"""No fixed ends: the moments of the two sides decide."""


class MomentRelease(msgspec.Struct, frozen=True):
    """Side of a comparison: moment and release; a moment of None is the end."""

    moment: str | None
    profile: Profile
    cluster: str | None = None
    """Cluster of the side; None: the queried one."""

    def query(self, source: ArchiveSource, cluster: str, ends: Ends | None) -> StateQuery:
        """Open and plan the cluster of the side; `ends` are those of an earlier plan.

        Raises:
            ReplayError: the cluster is unreadable.
            UnknownMoment: the cluster has no such moment.
        """
        return FleetQuestion(source, self.moment, (self.profile,)).query(cluster, ends)


class FoldedSide(NamedTuple):
    """Folded side of a comparison: its plan and its state."""

    plan: ReadPlan
    state: ClusterState

    @property
    def side(self) -> DiffSide:
        """The side as rows name it."""
        return DiffSide(self.plan.cluster, self.state.profile.release, self.plan.ends)


class ComparedStates(NamedTuple):
    """Two folded sides."""

    before: FoldedSide
    after: FoldedSide
    connectors: tuple[str, ...]
    """Only these connectors; empty means all."""

    @property
    def plans(self) -> tuple[ReadPlan, ReadPlan]:
        """Plans of the sides without their parts, for notices and gaps."""
        return self.before.plan.brief, self.after.plan.brief

    def changes(self) -> Iterator[Change]:
        """Yield the differences, one connector at a time."""
        for difference in differences(self.before.state, self.after.state):
            if not self.connectors or difference.connector in self.connectors:
                yield difference

    def known_connectors(self) -> frozenset[str]:
        """Selected connectors that at least one side knows."""
        if not self.connectors:
            return frozenset()
        names = {*connector_names(self.before.state), *connector_names(self.after.state)}
        return frozenset(names.intersection(self.connectors))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Make the rows of the differences (`timeline_rows.CHANGES`)."""
        rows = change_rows(self.before.side, self.after.side, self.changes())
        return batches(CHANGES, plain_rows(CHANGES, rows))


class DifferenceQuery(msgspec.Struct, frozen=True):
    """Differences between two moments, releases or clusters."""

    before: MomentRelease
    after: MomentRelease
    connectors: tuple[str, ...]
    """Only these connectors; empty means all."""

    @property
    def schema(self) -> pa.Schema:
        """Columns of the table."""
        return CHANGES

    @property
    def moments(self) -> Sequence[str | None]:
        """Moments of the two sides."""
        return [self.before.moment, self.after.moment]

    def planned(
        self, source: ArchiveSource, cluster: str
    ) -> tuple[str, list[StateQuery]] | ClusterProblem:
        """Open and plan both sides; if a side fails, return its problem."""
        queries = self.queries(source, cluster)
        return queries if isinstance(queries, ClusterProblem) else (cluster, queries)

    def queries(
        self, source: ArchiveSource, cluster: str, ends: Sequence[Ends | None] = NO_ENDS
    ) -> list[StateQuery] | ClusterProblem:
        """Open and plan both sides; if a side fails, return its problem."""
        named = (self.before.cluster, self.after.cluster)
        names = [cluster if name is None else name for name in named]
        before = attempted(names[0], partial(self.before.query, source, names[0], ends[0]))
        if isinstance(before, ClusterProblem):
            return before
        end = ends[1]
        if names[0] == names[1] and self.before.moment == self.after.moment:
            end = before.plan.ends  # the archive may have grown since
        after = attempted(names[1], partial(self.after.query, source, names[1], end))
        return parts_or_problem([before, after])

    def compared(
        self, queries: Sequence[StateQuery], advance: Advance = lambda _: None
    ) -> ComparedStates | ClusterProblem:
        """Fold both sides; if a side fails, return its problem."""
        folds = parts_or_problem(
            attempted(query.plan.cluster, partial(_folded, query, advance)) for query in queries
        )
        if isinstance(folds, ClusterProblem):
            return folds
        before, after = folds
        return ComparedStates(before, after, self.connectors)

    def comparison(
        self,
        source: ArchiveSource,
        cluster: str,
        planned: Sequence[StateQuery] | ClusterProblem | None = None,
    ) -> ComparedStates | ClusterProblem:
        """Fold both sides, which may be planned; if a side fails, return its problem.

        If a merge has removed files since the sides were opened, they are opened again.
        """
        if planned is None:
            planned = self.queries(source, cluster)
        compared = planned if isinstance(planned, ClusterProblem) else self.compared(planned)
        if isinstance(planned, ClusterProblem) or not isinstance(compared, BusyCluster):
            return compared
        again = self.queries(source, cluster, [query.plan.ends for query in planned])
        return again if isinstance(again, ClusterProblem) else self.compared(again)

    def batches(
        self, source: ArchiveSource, planned: tuple[str, list[StateQuery]]
    ) -> Iterator[pa.RecordBatch | ClusterProblem | KnownConnectors]:
        """Fold both sides, then compare them; yield the problem of a side, if it has one."""
        comparison = self.comparison(source, *planned)
        if isinstance(comparison, ClusterProblem):
            yield comparison
        else:
            warn_of_plans(comparison.plans)
            yield KnownConnectors(comparison.known_connectors())
            yield from comparison.batches()


def _folded(query: StateQuery, advance: Advance) -> FoldedSide:
    local, plan, profiles = query
    (state,) = local.states(plan, profiles, advance)
    return FoldedSide(plan, state)
