"""State of a log as the controller needs it."""

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from typing import Protocol

from controlplane.core.entry import Position
from controlplane.core.order import Ends
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.logs.log import LogUnavailable


class LogView(Protocol):
    """Reads one log and folds it; a `Follower` does so as the log grows."""

    @property
    def ends(self) -> Ends:
        """End offsets up to which the log has been read, by topic and partition."""
        ...

    async def state(self, profile: Profile) -> ClusterState:
        """State for a worker of this release; read from the log on first use.

        Raises:
            LogError: the log cannot be read.
        """
        ...

    def present(self, profile: Profile) -> ClusterState | None:
        """State for a worker of this release; None: it is not loaded."""
        ...

    async def follow(self, topics: Iterable[str]) -> None:
        """Read these topics as well from now on; return once their records are folded.

        Topics that are followed already or are missing have no effect.

        Raises:
            LogError: the log cannot be read.
        """
        ...

    def wait_for_records(self, positions: Sequence[Position]) -> Awaitable[None]:
        """Return as soon as the records at these positions have been folded."""
        ...

    def wait_for(self, ends: Ends) -> Awaitable[None]:
        """Return as soon as every record before these ends has been folded."""
        ...


async def follow_in_time(reader: LogView, topics: Iterable[str], patience_ms: int) -> None:
    """Let a reader follow topics; wait at most `patience_ms`, even during an outage of the log.

    Raises:
        LogUnavailable: the topics are not read in time.
        LogError: the log cannot be read.
    """
    patience_s = patience_ms / 1_000
    try:
        async with asyncio.timeout(patience_s):
            await reader.follow(topics)
    except TimeoutError:
        raise LogUnavailable(f"New topics were not read within {patience_s:g} s") from None
