"""Follower of a log that is replaced by another one: its topics were deleted and created again."""

import asyncio
import math
from collections.abc import AsyncIterator, Iterable, Mapping

import msgspec
import pytest

from controlplane.core import views
from controlplane.core.entry import Batch
from controlplane.core.order import Ends
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.logs.log import LogNotUsable, LogUnavailable, Record
from controlplane.logs.memory import MemoryLog
from controlplane.projection.change_feed import ChangeFeed
from controlplane.projection.follower import Follower
from controlplane.projection.past_states import PastStates
from tests.outages import Cable, FollowerNotices, until
from tests.patience import PATIENCE_S
from tests.projection.test_follower import KIP, NEW, PARTITIONS, QUICK, connector


class CountingCable(Cable):
    """A cable that counts the requests for the topics of its log."""

    requests = 0

    async def topics(self) -> Mapping[str, int]:
        """Return the topics, and count the request."""
        self.requests += 1
        return await super().topics()


class UnreadableCable(Cable):
    """A cable that carries records only for a number of reads."""

    reads_left = math.inf

    async def read(
        self, topics: Iterable[str], start: Ends | None = None, stop: Ends | None = None
    ) -> AsyncIterator[Batch]:
        """Read the log, unless no read is left."""
        self.reads_left -= 1
        if self.reads_left < 0:
            raise LogUnavailable("the records are out of reach")
        async for batch in super().read(topics, start, stop):
            yield batch


async def empty_log() -> MemoryLog:
    """An empty log with Connect's three topics."""
    log = MemoryLog()
    for topic, partitions in PARTITIONS.items():
        await log.create_topic(topic, partitions)
    return log


@pytest.fixture
async def log() -> AsyncIterator[MemoryLog]:
    """An empty log with Connect's three topics."""
    log = await empty_log()
    yield log
    await log.close()


async def exchange(cable: Cable, notices: FollowerNotices, other: MemoryLog) -> None:
    """Replace the log behind the cable; return once the follower follows the other one."""
    cable.cut.set()
    await notices.failed.wait()
    cable.log = other
    cable.cut.clear()
    await notices.back.wait()


async def test_a_follower_starts_anew_on_another_log(log: MemoryLog) -> None:
    """A log that ends before the follower's position is another log: the follower starts anew."""
    cable, notices, other = Cable(log), FollowerNotices(), MemoryLog()
    await log.append([connector("first", name="first"), connector("second", name="second")])
    for topic, partitions in PARTITIONS.items():
        await other.create_topic(topic, partitions)
    await other.append([connector("third", name="third")])
    async with Follower(cable, limits=QUICK, notices=notices) as follower:
        await follower.state(KIP)
        cable.cut.set()
        await notices.failed.wait()
        cable.log = other
        cable.cut.clear()
        await notices.back.wait()
        assert views.connectors(await follower.state(KIP)) == ["third"]
    await other.close()


async def test_a_topic_with_fewer_partitions_is_another_one(log: MemoryLog) -> None:
    """No position is beyond an end, but the positions of some partitions lead nowhere."""
    cable, notices, other = Cable(log), FollowerNotices(), MemoryLog()
    for topic in PARTITIONS:
        await other.create_topic(topic, 1)
    await other.append([connector("third", name="third")])
    async with Follower(cable, limits=QUICK, notices=notices) as follower:
        await follower.state(KIP)
        async with asyncio.timeout(PATIENCE_S):
            await exchange(cable, notices, other)
        assert {len(parts) for parts in follower.ends.values()} == {1}
        assert views.connectors(await follower.state(KIP)) == ["third"]
    await other.close()


async def test_watches_end_when_the_log_is_replaced(log: MemoryLog) -> None:
    """An open watch ends with the reason; a new watch follows the other log."""
    cable, notices, other = Cable(log), FollowerNotices(), MemoryLog()
    await log.append([connector("first", name="first"), connector("second", name="second")])
    for topic, partitions in PARTITIONS.items():
        await other.create_topic(topic, partitions)
    async with Follower(cable, limits=QUICK, notices=notices) as follower:
        watching = ChangeFeed(follower, cable, KIP)
        waits = asyncio.ensure_future(anext(watching.changes()))
        await until(lambda: watching.watchers == 1)
        cable.cut.set()
        await notices.failed.wait()
        cable.log = other
        cable.cut.clear()
        with pytest.raises(LogNotUsable, match="watch again"):
            await waits
        anew = watching.changes({})
        await other.append([connector("third", name="third")])
        assert (await anext(anew)).change.connector == "third"
        await anew.aclose()
        assert watching.watchers == 0
    await other.close()


async def test_observers_learn_of_another_log(log: MemoryLog) -> None:
    """An observer is told once that offsets now mean other records."""
    cable, notices, other = Cable(log), FollowerNotices(), MemoryLog()
    await log.append([connector("first", name="first")])
    for topic, partitions in PARTITIONS.items():
        await other.create_topic(topic, partitions)
    broken: list[str] = []
    async with Follower(cable, limits=QUICK, notices=notices) as follower:
        await follower.state(KIP)
        with follower.observed(lambda _: None, lambda: broken.append("another log")):
            cable.cut.set()
            await notices.failed.wait()
            cable.log = other
            cable.cut.clear()
            await notices.back.wait()
    assert broken == ["another log"]


async def test_a_lost_topic_causes_no_busy_loop(log: MemoryLog) -> None:
    """A requested topic that the other log lacks is polled, and followed once it exists."""
    cable, notices, other = CountingCable(log), FollowerNotices(), await empty_log()
    await log.create_topic("own", 1)
    await log.append([connector("first", name="first")])
    slow = msgspec.structs.replace(QUICK, topics_poll_ms=100)
    async with Follower(cable, limits=slow, notices=notices) as follower:
        await follower.follow(["own"])
        await exchange(cable, notices, other)
        before = cable.requests
        await asyncio.sleep(0.2)
        assert cable.requests - before < 20
        await other.create_topic("own", 1)
        await until(lambda: "own" in follower.ends)
    await other.close()


async def test_a_deleted_topic_is_forgotten(log: MemoryLog) -> None:
    """A requested topic that is deleted is no longer read; watches of the others go on."""
    cable, notices, other = Cable(log), FollowerNotices(), await empty_log()
    await log.create_topic("own", 1)
    await log.append([Record("own", 0, 1_000, b'["orders",{"page":1}]', b'{"row":1}')])
    async with Follower(cable, limits=QUICK, notices=notices) as follower:
        await follower.state(KIP)
        await follower.follow(["own"])
        assert "own" in (await follower.state(KIP)).offsets
        watching = ChangeFeed(follower, cable, KIP).changes()
        change = asyncio.ensure_future(anext(watching))
        await asyncio.sleep(0)
        with follower.observed(lambda _: None, lambda: notices.events.append("broken off")):
            cable.log = other
            await until(lambda: "own" not in follower.ends)
            await follower.wait_for_records(await other.append([connector("late", name="late")]))
        state = await follower.state(KIP)
        assert (views.connectors(state), "own" in state.offsets) == (["late"], False)
        assert (await change).change.connector == "late"
        await watching.aclose()
    assert notices.events == []
    await other.close()


async def test_a_missing_status_topic_is_reported_once(log: MemoryLog) -> None:
    """A failure at each attempt is reported once, and its end once."""
    cable, notices, other = CountingCable(log), FollowerNotices(), MemoryLog()
    await other.create_topic("connect-configs", 1)
    slow = msgspec.structs.replace(QUICK, interruption_poll_ms=500)
    async with Follower(cable, limits=slow, notices=notices) as follower:
        cable.cut.set()
        await log.append([connector("unread")])  # the tail notices the outage
        await until(lambda: follower.failure is not None)
        cable.log = other
        cable.cut.clear()
        await until(lambda: "connect-offsets" in str(follower.failure))
        attempts = cable.requests
        await until(lambda: cable.requests > attempts + 10)
        for topic, partitions in PARTITIONS.items():
            await other.create_topic(topic, partitions)
        await notices.back.wait()
    assert [event.partition(":")[0] for event in notices.events] == [
        "log_not_followed",
        "log_not_followed",
        "log_followed_again",
    ]
    await other.close()


async def test_a_pinned_release_always_has_a_state(log: MemoryLog) -> None:
    """A pinned release keeps its state until that of the other log is loaded; it stays pinned."""
    cable, notices, other = UnreadableCable(log), FollowerNotices(), await empty_log()
    await log.append([connector("first", name="first"), connector("second", name="second")])
    await other.append([connector("third", name="third")])
    limits = msgspec.structs.replace(QUICK, profiles_kept=1)
    async with Follower(cable, limits=limits, notices=notices) as follower:

        def names() -> list[str]:
            state = follower.present(KIP)
            assert state is not None
            return views.connectors(state)

        await follower.state(KIP)
        with follower.pinned(KIP):
            cable.cut.set()
            await notices.failed.wait()
            cable.log, cable.reads_left = other, 2  # for the topics, but not for a load
            cable.cut.clear()
            await until(lambda: "out of reach" in str(follower.failure))
            assert names() == ["first", "second"]
            cable.reads_left = math.inf
            await notices.back.wait()
            assert names() == ["third"]
            await follower.state(NEW)
            await follower.wait_for_records(await other.append([connector("d", name="d")]))
            assert names() == ["d", "third"]
        assert follower.present(KIP) is None
    await other.close()


class ReplacedPast(PastStates):
    """Past states of a log that is replaced once, while a state is loaded from it."""

    def __init__(self, cable: Cable, other: MemoryLog) -> None:
        super().__init__(cable)
        self._cable, self._other = cable, other

    async def _load(self, profile: Profile, cut: Ends) -> ClusterState:
        state = await super()._load(profile, cut)
        if self._cable.log is not self._other:
            self._cable.log = self._other
            self.forget()
        return state


async def test_a_state_of_the_old_log_is_not_cached_for_the_new_one() -> None:
    """A past state that is loaded during a replacement answers no later query."""
    old, other = await empty_log(), await empty_log()
    await old.append([connector("old", name="old")])
    await other.append([connector("new", name="new")])
    past, ends = ReplacedPast(Cable(old), other), await old.ends(PARTITIONS)
    await past.state("config@0", KIP, ends)
    state = (await past.state("config@0", KIP, ends)).state
    assert views.connectors(state) == ["new"]
