"""What a writer needs of whoever reads its log."""

from collections.abc import Iterable
from typing import Protocol

from controlplane.core.entry import Position
from controlplane.core.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.logs.log import Ends


class Reader(Protocol):
    """Reads one log and folds it; a `Follower` does so as the log grows."""

    @property
    def ends(self) -> Ends:
        """Up to where the log has been read, by topic and partition."""
        ...

    async def state(self, profile: Profile) -> ClusterState:
        """What a worker of this release knows; read from the log on first use.

        Raises:
            LogUnavailable: the log cannot be read.
        """
        ...

    def present(self, profile: Profile) -> ClusterState | None:
        """The same as `state`, where this release has been asked for before; else None."""
        ...

    async def passed(self, positions: Iterable[Position]) -> None:
        """Return as soon as the records at these positions have been folded."""
        ...

    async def wait_for(self, ends: Ends) -> None:
        """Return as soon as every record before these ends has been folded."""
        ...
