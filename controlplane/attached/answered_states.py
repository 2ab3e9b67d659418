"""States for reads: they have the records of every command that has been answered.

The records of a command are usually folded some milliseconds after the worker's answer. If they are
expected so soon, the answer is passed on first, and a read waits for the fold instead.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from controlplane.attached.idle_signal import IdleSignal
from controlplane.core.order import Ends
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.logs.log import LogError
from controlplane.projection.follower import Follower
from controlplane.projection.past_states import PastState


class AnsweredStates:
    """States of a follower (`rest.service.States`), after the records of all answered commands."""

    def __init__(self, follower: Follower, idle: IdleSignal) -> None:
        """`idle`: a read that waits begins an idle moment, so that the fold goes on at once."""
        self._follower = follower
        self._idle = idle
        self._folding: set[asyncio.Future[None]] = set()
        self._answered = 0

    @contextmanager
    def folding(self) -> Iterator[None]:
        """Fold the records of an answered command within the block; reads wait for its end."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._folding.add(ended)
        self._answered += 1
        try:
            yield
        finally:
            self._folding.discard(ended)
            ended.set_result(None)

    @property
    def failure(self) -> LogError | None:
        """Reason why the log is not followed at present; None if it is followed."""
        return self._follower.failure

    @property
    def moves(self) -> int:
        """Counter that changes whenever the log is read further, or a command is answered.

        So an answer that was cached before a command is not valid after it.
        """
        return self._follower.moves + self._answered

    @property
    def ends(self) -> Ends:
        """End offsets up to which the log has been read."""
        return self._follower.ends

    async def state(self, profile: Profile) -> ClusterState:
        """Return the present state; see `Follower.state`."""
        await self._settled()
        return await self._follower.state(profile)

    async def state_at(self, moment: str, profile: Profile) -> PastState:
        """Return the state at a moment of the past; see `Follower.state_at`."""
        await self._settled()
        return await self._follower.state_at(moment, profile)

    async def _settled(self) -> None:
        """Wait for the folds that are under way. Each has its own time limit."""
        if self._folding:
            self._idle.begin()
            await asyncio.wait([*self._folding])
