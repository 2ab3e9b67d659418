"""Offsets topics of connectors that the user may not read: the follower reads all other topics."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from controlplane.core import views
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.logs.log import LogNotUsable, Record
from controlplane.projection.follower import Follower
from controlplane.projection.loader import load
from controlplane.projection.past_states import load_at
from controlplane.projection.readable_offsets import check_source_offsets
from tests.outages import FollowerNotices, until
from tests.patience import PATIENCE_S
from tests.projection.test_follower import KIP, NEW, PARTITIONS, QUICK, connector, record
from tests.projection.unreadable_logs import PartlyReadableLog, refusal

NOT_FOLLOWED = f"topic_not_followed: {refusal('own')}"


def offset(position: int) -> Record:
    """Record of an offset in the connector's own topic."""
    return record("own", '["orders",{"file":"a"}]', f'{{"position":{position}}}')


def positions(state: ClusterState) -> list[object]:
    """Positions of the offsets that a state has of the connector."""
    return [row.offset and row.offset["position"] for row in views.source_offsets(state, "orders")]


@pytest.fixture
async def log() -> AsyncIterator[PartlyReadableLog]:
    """A log with a connector whose own offsets topic the user may not read."""
    log = PartlyReadableLog()
    for topic, partitions in (PARTITIONS | {"own": 1}).items():
        await log.create_topic(topic, partitions)
    await log.append([connector("orders", name="orders", offsets_storage_topic="own"), offset(1)])
    log.refused.add("own")
    yield log
    await log.close()


async def test_the_follower_goes_on_without_the_topic(log: PartlyReadableLog) -> None:
    """Records of other topics are folded, and a notice names the topic once."""
    notices = FollowerNotices()
    async with Follower(log, limits=QUICK, notices=notices) as follower:
        assert positions(await follower.state(KIP)) == []
        await notices.failed.wait()
        for name in ("late", "later"):
            await log.append([connector(name, name=name)])
            await follower.wait_for(await log.ends(["connect-configs"]))
        assert views.connectors(await follower.state(NEW)) == ["late", "later", "orders"]
        assert follower.failure is None
    assert notices.events == [NOT_FOLLOWED]


async def test_a_granted_right_takes_effect(log: PartlyReadableLog) -> None:
    """The topic is followed from its first record on, as soon as the user may read it."""
    notices = FollowerNotices()
    async with Follower(log, limits=QUICK, notices=notices) as follower:
        await follower.state(KIP)
        await notices.failed.wait()
        log.refused.clear()
        await until(lambda: "own" in follower.ends)
        await follower.wait_for(await log.ends(["own"]))
        assert positions(await follower.state(KIP)) == [1]
        await log.append([offset(2)])
        await follower.wait_for(await log.ends(["own"]))
        assert positions(await follower.state(KIP)) == [2]
    assert notices.events == [NOT_FOLLOWED]


async def test_a_revoked_right_ends_only_this_topic(log: PartlyReadableLog) -> None:
    """The offsets of the topic leave the state; a new record in it is no failure."""
    log.refused.clear()
    notices = FollowerNotices()
    async with Follower(log, limits=QUICK, notices=notices) as follower:
        assert positions(await follower.state(KIP)) == [1]
        log.refused.add("own")
        await until(lambda: "own" not in follower.ends and follower.failure is None)
        await log.append([offset(2), connector("late", name="late")])
        await follower.wait_for(await log.ends(["connect-configs"]))
        state = await follower.state(KIP)
        assert positions(state) == []
        assert views.connectors(state) == ["late", "orders"]
    assert notices.events.count(NOT_FOLLOWED) == 1


async def test_a_later_config_names_the_topic(log: PartlyReadableLog) -> None:
    """A config that names an unreadable topic does not end the tail."""
    await log.append([record("connect-configs", "connector-orders", None)])
    notices = FollowerNotices()
    async with Follower(log, limits=QUICK, notices=notices) as follower:
        await follower.state(KIP)
        await log.append([connector("orders", name="orders", offsets_storage_topic="own")])
        await notices.failed.wait()
        assert views.connectors(await follower.state(KIP)) == ["orders"]
        assert follower.failure is None
    assert notices.events == [NOT_FOLLOWED]


async def test_a_requested_topic_that_may_not_be_read_is_ignored(log: PartlyReadableLog) -> None:
    """The request returns at once; the topic is followed once the user may read it."""
    async with Follower(log, limits=QUICK) as follower:
        await follower.state(KIP)
        async with asyncio.timeout(PATIENCE_S):
            await follower.follow(["own"])
        assert "own" not in follower.ends
        assert follower.failure is None
        log.refused.clear()
        await until(lambda: "own" in follower.ends)


@pytest.mark.parametrize("topic", PARTITIONS)
async def test_connects_own_topics_must_be_readable(log: PartlyReadableLog, topic: str) -> None:
    """No state is given without one of Connect's own topics."""
    log.refused = {topic}
    with pytest.raises(LogNotUsable, match=refusal(topic)):
        async with Follower(log, limits=QUICK) as follower:
            await follower.state(KIP)


async def test_states_are_loaded_without_the_topic(log: PartlyReadableLog) -> None:
    """Loads of the present and of the past leave the topic out."""
    assert views.connectors((await load(log, KIP)).snapshot()) == ["orders"]
    assert views.connectors((await load_at(log, "config@0", KIP)).snapshot()) == ["orders"]
    async with Follower(log, limits=QUICK) as follower:
        assert views.connectors((await follower.state_at("config@0", KIP)).state) == ["orders"]


@pytest.mark.parametrize("profile", [KIP, NEW], ids=lambda profile: profile.release)
async def test_missing_offsets_are_noticed(log: PartlyReadableLog, profile: Profile) -> None:
    """A state without offsets in an unreadable topic differs from one of a source without any."""
    state = (await load(log, profile)).snapshot()
    with pytest.raises(LogNotUsable, match=refusal("own")):
        await check_source_offsets(log, state, "orders")
    await check_source_offsets(log, state, "others")
    log.refused.clear()
    await check_source_offsets(log, (await load(log, profile)).snapshot(), "orders")
