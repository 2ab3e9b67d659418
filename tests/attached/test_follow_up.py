"""Follow-up of a command: the records that a comparison reads, and those that it waits for."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from controlplane.attached.follow_up import LogFollowUp
from controlplane.attached.settings import ConnectSettings
from controlplane.core.entry import Batch
from controlplane.core.order import Ends
from controlplane.core.plan import Draft, Plan, Step
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Topics
from controlplane.logs.log import LogUnavailable, Record
from controlplane.logs.memory import MemoryLog
from controlplane.projection.follower import Follower
from controlplane.projection.limits import FollowerLimits
from tests.patience import PATIENCE_S

TOPICS = Topics()
PARTITIONS = {TOPICS.config: 1, TOPICS.offsets: 2, TOPICS.status: 1}
PROFILE = Profile.of("3.9.1")
ORIGIN = "found out at its start"
"""Origin of the release of a planner."""
SLOW = FollowerLimits(gather_ms=PATIENCE_S * 1_000)
"""A gather window that no test waits for: each wait for a command's records must skip it."""

KEY, VALUE = b'["orders",{"file":"f"}]', b'{"position":1}'
PLAN = Plan((Step("write", (Draft(TOPICS.offsets, KEY, VALUE),)),))


class QuickLog(MemoryLog):
    """Log in memory with ends from leaders; it keeps the topics whose ends were asked for.

    While `is_cut`, no tail returns a record.
    """

    def __init__(self) -> None:
        super().__init__()
        self.topics_asked: list[tuple[str, ...]] = []
        self.is_cut = False

    async def tail(self, topics: Iterable[str], start: Ends) -> AsyncIterator[Batch]:
        """Yield the records from the start on, unless the log is cut off."""
        async for batch in super().tail(topics, start):
            if self.is_cut:
                raise LogUnavailable("the log is cut off")
            yield batch

    async def ends_from_leaders(self, topics: Iterable[str]) -> Ends:
        """Present ends of topics."""
        self.topics_asked.append(tuple(topics))
        return await self.ends(self.topics_asked[-1])


@asynccontextmanager
async def followed(profile: Profile = PROFILE) -> AsyncIterator[tuple[LogFollowUp, QuickLog]]:
    """Follow-up of an empty log of a cluster of this release."""
    log = QuickLog()
    for topic, count in PARTITIONS.items():
        await log.create_topic(topic, count)
    async with Follower(log, topics=TOPICS, limits=SLOW) as follower:
        await follower.state(profile)
        follow_up = LogFollowUp(follower, log, profile, ConnectSettings())
        with follower.pinned(profile), follow_up.open():
            yield follow_up, log


async def test_only_the_config_topic_is_read_to_its_end() -> None:
    """Records as planned are compared without the ends of the other topics."""
    async with followed() as (follow_up, log):
        since = follow_up.ends
        await log.append([Record(TOPICS.offsets, 1, 1, KEY, VALUE)])
        with follow_up.hastened():
            assert await follow_up.folded(PLAN, since)
        comparison = await follow_up.compared(PLAN, since, "orders")
        assert comparison is not None
        assert comparison.as_planned
        assert log.topics_asked == [(TOPICS.config,)]


async def test_a_change_by_others_is_seen() -> None:
    """A config record after the planned ones, and before the comparison, is a difference."""
    async with followed() as (follow_up, log):
        since = follow_up.ends
        await log.append([Record(TOPICS.offsets, 1, 1, KEY, VALUE)])
        with follow_up.hastened():
            assert await follow_up.folded(PLAN, since)
        target = Record(TOPICS.config, 0, 2, b"target-state-orders", b'{"state":"PAUSED"}')
        await log.append([target])
        comparison = await follow_up.compared(PLAN, since, "orders")
        assert comparison is not None
        assert comparison.differences == ("config@0 (target-state-orders) was not planned",)


async def test_missing_records_are_read_to_the_end_of_their_topics() -> None:
    """Planned records that have not been folded yet are waited for before the comparison."""
    async with followed() as (follow_up, log):
        since = follow_up.ends
        await log.append([Record(TOPICS.offsets, 1, 1, KEY, VALUE)])
        comparison = await follow_up.compared(PLAN, since, "orders")
        assert comparison is not None
        assert comparison.as_planned
        assert log.topics_asked == [(TOPICS.config, TOPICS.offsets)]
