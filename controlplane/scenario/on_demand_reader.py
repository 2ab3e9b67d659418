"""Reading that happens when it is asked for, and at no other time."""

from collections.abc import Iterable, Mapping, Sequence

from controlplane.core.entry import Position
from controlplane.core.fold import Fold
from controlplane.core.order import Ends, entries_of, in_order
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.logs.log import ReadableLog


class OnDemandReader:
    """Reader of one worker; each call reads the log to its end.

    As with a worker that runs, what has been read once is not read again, whatever compaction does
    to it since. What is new is folded in the one order.
    """

    def __init__(self, log: ReadableLog, fold: Fold) -> None:
        self._log = log
        self._fold = fold
        self._ends: dict[str, Sequence[int]] = {}

    @property
    def ends(self) -> Mapping[str, Sequence[int]]:
        """Up to where the log has been read, by topic and partition."""
        return dict(self._ends)

    async def read(self) -> ClusterState:
        """Read to the end; what is known then."""
        ends = await self._log.ends(await self._log.topics())
        batches = [batch async for batch in self._log.read(ends, self._ends, ends)]
        self._fold.apply_all(in_order(entries_of(batches)))
        for topic, parts in ends.items():
            for partition, end in enumerate(parts):
                self._fold.advance(topic, partition, end)
        self._ends = dict(ends)
        return self._fold.snapshot()

    async def state(self, profile: Profile) -> ClusterState:
        """State at the end of the log; a worker reads as one release only."""
        assert profile is self._fold.profile
        return await self.read()

    def present(self, profile: Profile) -> ClusterState:
        """State at the last read."""
        assert profile is self._fold.profile
        return self._fold.snapshot()

    async def follow(self, topics: Iterable[str]) -> None:
        """Nothing to be done: every topic is read."""
        del topics

    async def passed(self, positions: Iterable[Position]) -> None:
        """Read what has been written: there is nothing to wait for."""
        del positions
        await self.read()

    async def wait_for(self, ends: Ends) -> None:
        """Read to the end, which is no earlier than these."""
        del ends
        await self.read()
