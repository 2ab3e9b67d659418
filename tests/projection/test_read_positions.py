"""Waiting until a log has been read to its end, or has failed for good."""

import asyncio
from collections.abc import AsyncIterator, Iterable

import pytest

from controlplane.core import views
from controlplane.core.entry import Batch, Entry
from controlplane.core.order import Ends
from controlplane.logs.log import LogNotUsable
from controlplane.logs.memory import MemoryLog
from controlplane.projection.follower import Follower
from controlplane.projection.limits import FollowerLimits
from tests.outages import Cable, until
from tests.patience import PATIENCE_S
from tests.projection.test_follower import KIP, PARTITIONS, QUICK, connector, record


@pytest.fixture
async def log() -> MemoryLog:
    """An empty log with Connect's topics."""
    made = MemoryLog()
    for topic, partitions in PARTITIONS.items():
        await made.create_topic(topic, partitions)
    return made


class TailOnlyLog(Cable):
    """A log that allows only tails once it is followed."""

    followed = False

    async def read(
        self, topics: Iterable[str], start: Ends | None = None, stop: Ends | None = None
    ) -> AsyncIterator[Batch]:
        assert not self.followed
        async for batch in self.log.read(topics, start, stop):
            yield batch


@pytest.mark.parametrize("markers", [0, 3])
async def test_a_tail_alone_reaches_the_end(log: MemoryLog, markers: int) -> None:
    """A tail alone reaches an end after transaction markers, which are not delivered.

    The state has the same end, too.
    """
    cable = TailOnlyLog(log)
    async with Follower(cable, limits=QUICK) as follower:
        await follower.state(KIP)
        cable.followed = True
        await log.append([connector("orders", name="orders")])
        for _ in range(markers):
            await log.add_marker("connect-configs", 0)
        ends = await log.ends(PARTITIONS)
        assert ends["connect-configs"] == [1 + markers]
        async with asyncio.timeout(PATIENCE_S):
            await follower.wait_for(ends)
        assert follower.ends["connect-configs"] == (1 + markers,)
        state = await follower.state(KIP)
        assert views.connectors(state) == ["orders"]
        assert state.ends_by_topic["connect-configs"] == [1 + markers]


async def test_a_second_caller_waits_for_a_topic_that_is_followed_already(log: MemoryLog) -> None:
    """A topic that another caller has requested is awaited until its records are folded."""
    await log.create_topic("own", 1)
    await log.append([record("own", '["orders",{}]', '{"row":1}')])
    async with Follower(
        log, limits=FollowerLimits(topics_poll_ms=60_000, gather_ms=50)
    ) as follower:
        await follower.state(KIP)
        first = asyncio.ensure_future(follower.follow(["own"]))
        await until(lambda: "own" in follower.ends)
        assert follower.ends["own"] == (0,)
        await asyncio.wait_for(follower.follow(["own"]), PATIENCE_S)
        assert follower.ends["own"] == (1,)
        assert "own" in (await follower.state(KIP)).offsets
        await first
        await asyncio.wait_for(follower.follow(["own"]), PATIENCE_S)


async def test_waiters_get_the_error_of_an_unusable_log(log: MemoryLog) -> None:
    """Waiters outlast an outage; a log without the topic gives them an error."""
    cable = Cable(log)
    async with Follower(cable, limits=QUICK) as follower:
        waiting = asyncio.ensure_future(follower.wait_for({"connect-configs": [1]}))
        cable.cut.set()
        await log.append([record("connect-status", "x", "{}")])
        await until(lambda: follower.failure is not None)
        assert not waiting.done()
        cable.log = MemoryLog()
        cable.cut.clear()
        with pytest.raises(LogNotUsable, match="connect-configs"):
            await asyncio.wait_for(waiting, PATIENCE_S)


@pytest.mark.parametrize("exactly_once", [True, False])
async def test_a_follower_reads_the_own_topics_that_its_workers_see(
    log: MemoryLog, *, exactly_once: bool
) -> None:
    """An aborted config names no offsets topic for workers with exactly-once support."""
    for topic in ("committed", "aborted"):
        await log.create_topic(topic, 1)
        await log.append([record(topic, '["orders",{}]', '{"row":1}')])
    await log.put(
        [
            Entry(
                "connect-configs",
                0,
                offset,
                1_000,
                b"connector-orders",
                b'{"properties":{"offsets.storage.topic":"%s"}}' % topic,
                aborted=topic == b"aborted",
            )
            for offset, topic in enumerate([b"committed", b"aborted"])
        ]
    )
    async with Follower(log, limits=QUICK, exactly_once=exactly_once) as follower:
        state = await follower.state(KIP)
        then = await follower.state_at("config@1", KIP)
    expected = "committed" if exactly_once else "aborted"
    for ends in (state.ends_by_topic, then.state.ends_by_topic):
        assert {*ends} & {"committed", "aborted"} == {expected}
