"""Follow-up of a command in the cluster's log: reading on, and the records since a point."""

import asyncio
from collections.abc import Iterable, Sequence

from controlplane.attached.plan_comparison import Comparison, compare, topics_of
from controlplane.attached.settings import ConnectSettings
from controlplane.core.entry import Entry
from controlplane.core.order import Ends
from controlplane.core.plan import Plan
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.logs.log import LogError, LogUnavailable, ReadableLog
from controlplane.projection.follower import Follower


class LogFollowUp:
    """Reads the cluster's log behind commands; the follower folds it meanwhile."""

    def __init__(
        self,
        follower: Follower,
        log: ReadableLog,
        profile: Profile,
        limits: ConnectSettings,
    ) -> None:
        self._follower = follower
        self._log = log
        self._profile = profile
        self._limits = limits

    @property
    def present(self) -> ClusterState:
        """State that has been folded so far."""
        state = self._follower.present(self._profile)
        assert state is not None  # loaded and pinned when the plane was opened
        return state

    @property
    def ends(self) -> Ends:
        """End offsets up to which the log has been folded."""
        return self._follower.ends

    async def read_on(self) -> bool:
        """Wait until everything in the log now is folded; False: it takes too long."""
        try:
            async with asyncio.timeout(self._limits.read_on_ms / 1_000):
                await self._follower.wait_for(await self._log.ends(self._follower.ends))
        except (TimeoutError, LogError):
            return False
        return True

    async def state_at_end(self) -> ClusterState:
        """State at the present end of the log.

        Raises:
            LogUnavailable: the log cannot be read to its end in time.
        """
        if not await self.read_on():
            raise LogUnavailable("The topics of the cluster cannot be read to their end")
        return self.present

    async def compared(self, plan: Plan, since: Ends, connector: str) -> Comparison | None:
        """Compare a plan with the records since a point, once its records are there.

        Missing records are waited for during `records_ms`. None: the log cannot be read.
        """
        deadline = asyncio.get_running_loop().time() + self._limits.records_ms / 1_000
        while True:
            try:
                comparison = await self.compared_now(plan, since, connector)
            except LogError:
                return None
            is_over = asyncio.get_running_loop().time() > deadline
            if not comparison.missing or is_over:
                return comparison
            await asyncio.sleep(self._limits.retry_ms / 1_000)

    async def compared_now(self, plan: Plan, since: Ends, connector: str) -> Comparison:
        """Compare a plan with the records that are in the log since a point.

        Raises:
            LogError: the log cannot be read.
        """
        topics = self.present.topics
        entries = await self._entries(topics_of(plan, topics), since)
        return compare(plan, entries, topics, connector)

    async def configs_since(self, since: Ends, connector: str) -> Sequence[Entry]:
        """Config records of a connector since a point, tombstones included."""
        topic, key = self.present.topics.config, f"connector-{connector}".encode()
        return [entry for entry in await self._entries([topic], since) if entry.key == key]

    async def _entries(self, topics: Iterable[str], since: Ends) -> list[Entry]:
        there = await self._log.topics()
        topics = [topic for topic in topics if topic in there]
        start = {topic: since[topic] for topic in topics if topic in since}
        entries: list[Entry] = []
        async for batch in self._log.read(topics, start):
            entries += (entry for entry in batch.entries() if not entry.aborted)
        return entries
