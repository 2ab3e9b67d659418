"""Questions, many at once: what both engines are asked."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from controlplane.core.profiles import Profile
from controlplane.core.state import ClusterState
from replay.engine.local import Local
from replay.engine.plan import Plan
from replay.progress import Progress, Unseen


class Asked(NamedTuple):
    """What workers of some releases know at the cut of a plan."""

    local: Local
    """Whose archive, and how it is read."""
    plan: Plan
    profiles: Sequence[Profile]


class Engine(Protocol):
    """Answers questions about any number of clusters."""

    def states(self, asked: Sequence[Asked]) -> list[list[ClusterState]]:
        """For each question what each release knows.

        Raises:
            ArchiveCorrupt: a file is missing or damaged.
        """
        ...


class InProcess:
    """The engine without a JVM, one question after the other."""

    def __init__(self, progress: Progress | None = None) -> None:
        self._progress = progress or Unseen()

    def states(self, asked: Sequence[Asked]) -> list[list[ClusterState]]:
        """For each question what each release knows."""
        self._progress.begin("reading", sum(part.rows for one in asked for part in one.plan.busy))
        advance = self._progress.advance
        return [one.local.states(one.plan, one.profiles, advance) for one in asked]
