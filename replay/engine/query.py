"""Queries for states: the input of both engines."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from replay.engine.local_engine import LocalEngine
from replay.engine.read_plan import ReadPlan
from replay.progress import NoProgress, ProgressListener


class StateQuery(NamedTuple):
    """Query for the states of some releases at the cut of a plan."""

    local: LocalEngine
    """Engine of the queried archive."""
    plan: ReadPlan
    profiles: Sequence[Profile]


class StateEngine(Protocol):
    """Answers queries on any number of clusters."""

    def states(self, queries: Sequence[StateQuery]) -> list[list[ClusterState]]:
        """Return, for each query, the state of each release.

        Raises:
            ArchiveCorrupt: a file is missing or damaged.
        """
        ...


class InProcessEngine:
    """Engine without a JVM; answers one query after the other."""

    def __init__(self, progress: ProgressListener | None = None) -> None:
        self._progress = progress or NoProgress()

    def states(self, queries: Sequence[StateQuery]) -> list[list[ClusterState]]:
        """Return, for each query, the state of each release."""
        self._progress.begin(
            "reading", sum(part.rows for query in queries for part in query.plan.busy)
        )
        advance = self._progress.advance
        return [query.local.states(query.plan, query.profiles, advance) for query in queries]
