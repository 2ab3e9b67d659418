"""Differences as `replay diff` prints them: one process folds both sides and compares them."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from controlplane.core.state import ClusterState, Topics
from controlplane.core.views.diff import Change, connector_names
from controlplane.core.views.diff import diff as differences
from replay.cluster_problem import ClusterProblem, attempted, parts_or_problem
from replay.engine.plans.read_plan import ReadPlan
from replay.engine.query import StateQuery
from replay.fleet.archive_source import ArchiveSource
from replay.fleet.table_queries import MomentRelease
from replay.progress import Advance
from replay.timeline.difference_rows import DiffSide


class DiffAnswer(NamedTuple):
    """Two sides of one comparison, and the differences between them."""

    before: DiffSide
    after: DiffSide
    changes: list[Change]
    topics: Topics
    """Topics of the second side; the positions of causes lie in them."""
    connectors: frozenset[str]
    """Selected connectors that at least one side knows."""
    plans: tuple[ReadPlan, ReadPlan]
    """Plans of the sides, for notices and gaps."""


class SideOfCluster(NamedTuple):
    """Side of a comparison, and its cluster."""

    cluster: str
    side: MomentRelease


class SideFold(NamedTuple):
    """Folded side: its plan and its state."""

    plan: ReadPlan
    state: ClusterState

    @property
    def side(self) -> DiffSide:
        """The side as rows name it."""
        return DiffSide(self.plan.cluster, self.state.profile.release, self.plan.ends)


class DiffTask(msgspec.Struct, frozen=True):
    """Task: open, plan and fold two sides, and compare them."""

    source: ArchiveSource
    connectors: tuple[str, ...]

    def __call__(
        self, sides: tuple[SideOfCluster, SideOfCluster]
    ) -> Iterator[DiffAnswer | ClusterProblem]:
        """Yield the comparison, or the problem of a side."""
        queries = side_queries(self.source, sides)
        if isinstance(queries, ClusterProblem):
            yield queries
            return
        answer = compared(queries, self.connectors, lambda _: None)
        if isinstance(answer, DiffAnswer):
            before, after = answer.plans
            answer = answer._replace(plans=(before.brief, after.brief))
        yield answer


def side_queries(
    source: ArchiveSource, sides: Iterable[SideOfCluster]
) -> list[StateQuery] | ClusterProblem:
    """Open and plan both sides; if a side fails, return its problem."""
    return parts_or_problem(
        attempted(cluster, partial(side.question(source).query, cluster)) for cluster, side in sides
    )


def compared(
    queries: Sequence[StateQuery], connectors: Sequence[str], advance: Advance
) -> DiffAnswer | ClusterProblem:
    """Fold both sides, and compare them; on request some connectors only."""
    folds = parts_or_problem(
        attempted(query.plan.cluster, partial(_folded, query, advance)) for query in queries
    )
    if isinstance(folds, ClusterProblem):
        return folds
    before, after = folds
    changes = differences(before.state, after.state)
    named: frozenset[str] = frozenset()
    if connectors:
        changes = [difference for difference in changes if difference.connector in connectors]
        known_names = {*connector_names(before.state), *connector_names(after.state)}
        named = frozenset(known_names.intersection(connectors))
    plans = before.plan, after.plan
    return DiffAnswer(before.side, after.side, changes, after.plan.topics, named, plans)


def _folded(query: StateQuery, advance: Advance) -> SideFold:
    local, plan, profiles = query
    (state,) = local.states(plan, profiles, advance)
    return SideFold(plan, state)
