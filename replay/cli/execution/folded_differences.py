"""Differences as `replay diff` prints them: both sides are folded where they are compared."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from controlplane.core.moments import UnknownMoment
from controlplane.core.state import ClusterState, Topics
from controlplane.core.views.diff import Change, connector_names
from controlplane.core.views.diff import diff as differences
from replay.engine.query import StateQuery
from replay.engine.read_plan import ReadPlan
from replay.errors import ReplayError
from replay.fleet.archive_source import ArchiveSource, ClusterProblem, planned
from replay.fleet.table_queries import MomentRelease
from replay.progress import Advance
from replay.timeline.difference_rows import DiffSide


class DiffAnswer(NamedTuple):
    """Two sides and their differences."""

    before: DiffSide
    after: DiffSide
    changes: list[Change]
    topics: Topics
    """Topics of the second side, which the causes lie in."""
    connectors: frozenset[str]
    """Selected connectors that at least one side knows."""
    plans: tuple[ReadPlan, ReadPlan]
    """Plans of the sides, for notices and gaps."""


class SideFold(NamedTuple):
    """Folded side: its plan and its state."""

    plan: ReadPlan
    state: ClusterState

    @property
    def side(self) -> DiffSide:
        """The side as rows name it."""
        return DiffSide(self.plan.cluster, self.state.profile.release, self.plan.ends)


def compared(before: SideFold, after: SideFold, connectors: Sequence[str]) -> DiffAnswer:
    """Compare two states, on request for some connectors only."""
    changes = differences(before.state, after.state)
    if connectors:
        changes = [difference for difference in changes if difference.connector in connectors]
    known_names = {*connector_names(before.state), *connector_names(after.state)}
    named = frozenset(known_names.intersection(connectors))
    plans = before.plan, after.plan
    return DiffAnswer(before.side, after.side, changes, after.plan.topics, named, plans)


class DiffTask(msgspec.Struct, frozen=True):
    """Task: fold two sides and compare them."""

    source: ArchiveSource
    connectors: tuple[str, ...]

    def __call__(
        self, sides: tuple[MomentRelease, MomentRelease]
    ) -> Iterator[DiffAnswer | ClusterProblem]:
        """Yield the comparison, or the problem of a side."""
        try:
            before, after = (self._fold(side) for side in sides)
        except (ReplayError, UnknownMoment) as error:
            yield ClusterProblem(str(sides[0].cluster), str(error))
            return
        answer = compared(before, after, self.connectors)
        # Pieces of files are not needed to print an answer.
        old, new = (msgspec.structs.replace(plan, parts=(), snapshot=None) for plan in answer.plans)
        yield answer._replace(plans=(old, new))

    def _fold(self, side: MomentRelease) -> SideFold:
        assert side.cluster is not None
        local = self.source.local(side.cluster)
        plan = planned(local, side.moment, [side.profile])
        (state,) = local.states(plan, [side.profile])
        return SideFold(plan, state)


def compared_here(
    queries: Sequence[tuple[StateQuery, StateQuery]], connectors: Sequence[str], advance: Advance
) -> Iterator[DiffAnswer | ClusterProblem]:
    """Compare planned sides, pair by pair, in this process."""
    for pair in queries:
        try:
            before, after = (
                SideFold(plan, local.states(plan, profiles, advance)[0])
                for local, plan, profiles in pair
            )
        except ReplayError as error:
            yield ClusterProblem(pair[0].plan.cluster, str(error))
        else:
            yield compared(before, after, connectors)
