"""State of a log as the controller needs it, and the topics that a command depends on."""

from collections.abc import Iterable
from typing import Protocol

from controlplane.core.commands import AnyCommand
from controlplane.core.entry import Position
from controlplane.core.order import Ends
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.core.topics.source_partitions import topics_of


class LogView(Protocol):
    """Reads one log and folds it; a `Follower` does so as the log grows."""

    @property
    def ends(self) -> Ends:
        """Up to where the log has been read, by topic and partition."""
        ...

    async def state(self, profile: Profile) -> ClusterState:
        """State for a worker of this release; read from the log on first use.

        Raises:
            LogUnavailable: the log cannot be read.
        """
        ...

    def present(self, profile: Profile) -> ClusterState | None:
        """The same as `state`, where this release has been asked for before; else None."""
        ...

    async def follow(self, topics: Iterable[str]) -> None:
        """Read these topics as well from now on; return as soon as what lies in them is folded.

        Those that are read already, or are not there, make no difference.

        Raises:
            LogUnavailable: the log cannot be read.
        """
        ...

    async def passed(self, positions: Iterable[Position]) -> None:
        """Return as soon as the records at these positions have been folded."""
        ...

    async def wait_for(self, ends: Ends) -> None:
        """Return as soon as every record before these ends has been folded."""
        ...


def topics_concerned(state: ClusterState, command: AnyCommand) -> set[str]:
    """The offsets topics that a decision looks at: those of the present config and of the wanted.

    A reader finds a connector's own topic by its config, and so it finds it too late.
    """
    present = state.config.connectors.get(getattr(command, "connector", ""))
    configs = (present, getattr(command, "config", None))
    return {topic for config in configs if config for topic in topics_of(state, config)}
