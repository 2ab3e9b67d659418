"""Differences as `replay diff` prints them, made in this process, in others or in Spark's tasks."""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from controlplane.core.state import Topics
from controlplane.core.views.diff import Change
from replay.cluster_problem import ClusterProblem
from replay.engine.plans.read_plan import ReadPlan
from replay.fleet.archive_source import ArchiveSource
from replay.fleet.comparisons import ComparedStates, DifferenceQuery
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


class DiffTask(msgspec.Struct, frozen=True):
    """Task: open, plan and fold two sides, and compare them."""

    source: ArchiveSource
    query: DifferenceQuery

    def __call__(self, cluster: str) -> Iterator[DiffAnswer | ClusterProblem]:
        """Yield the comparison, or the problem of a side."""
        yield answer_of(self.query.comparison(self.source, cluster))


def answer_of(comparison: ComparedStates | ClusterProblem) -> DiffAnswer | ClusterProblem:
    """Return the differences without the compared states; a problem stays."""
    if isinstance(comparison, ClusterProblem):
        return comparison
    before, after, _ = comparison
    changes, names = [*comparison.changes()], comparison.known_connectors()
    return DiffAnswer(before.side, after.side, changes, after.plan.topics, names, comparison.plans)
