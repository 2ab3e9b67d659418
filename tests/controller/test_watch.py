"""Watching: a watcher that reads too slowly gets an error instead of losing changes unnoticed."""

import asyncio

import pytest

from controlplane.core.commands import StopConnector
from controlplane.core.releases.profiles import Profile
from controlplane.logs.memory import MemoryLog
from controlplane.projection.change_feed import (
    CHANGES_WAITING,
    MISSED_AT_ONCE,
    MISSED_READS,
    ChangeFeed,
    TooSlow,
)
from controlplane.projection.follower import Follower
from tests.controller.scene import CONFIG, configured, plane_on, raw
from tests.outages import GatedLog, until
from tests.patience import PATIENCE_S

STATES = ("PAUSED", "STARTED")


@pytest.mark.slow
async def test_unread_changes_are_limited() -> None:
    """Unread changes wait up to a limit; then the watcher gets an error about missing changes."""
    log = MemoryLog()
    taken = 0

    async def watch() -> None:
        nonlocal taken
        async for change in plane.watch():
            assert change.after == STATES[taken % 2]
            taken += 1
            await go_on.wait()

    go_on = asyncio.Event()
    await log.create_topic(CONFIG, 1)
    await log.append([configured("orders"), configured("users")])
    async with plane_on(log) as plane:
        watcher = asyncio.create_task(watch())
        await asyncio.sleep(0)
        for number in range(CHANGES_WAITING + 3):
            state = f'{{"state":"{STATES[number % 2]}"}}'
            await log.append([raw(CONFIG, "target-state-orders", state)])
        await plane.execute(StopConnector("users"))  # all changes have been read by now
        go_on.set()
        with pytest.raises(TooSlow):
            await watcher
    assert taken == CHANGES_WAITING + 1


async def test_watching_ends_with_the_plane() -> None:
    """Running, unstarted and late watches all end."""
    log = MemoryLog()
    async with plane_on(log) as plane:
        before, watching = plane.watch(), asyncio.ensure_future(anext(plane.watch(), "ended"))
        await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE_S):
        assert await watching == "ended"
        assert await anext(before, "ended") == "ended"
        assert [change async for change in plane.watch()] == []


@pytest.mark.parametrize(
    ("records", "served"), [(2, MISSED_READS + 2), (MISSED_AT_ONCE + 1, MISSED_READS)]
)
async def test_reads_of_missed_changes_take_turns(records: int, served: int) -> None:
    """Slow watchers that missed many records keep their turns; a next one waits for the end."""
    log, kip = MemoryLog(), Profile.of("kip")
    await log.create_topic(CONFIG, 1)
    names = [f"connector-{number}" for number in range(records)]
    await log.append([configured(name) for name in names])
    async with Follower(log) as follower, asyncio.timeout(PATIENCE_S):
        feed = ChangeFeed(follower, log, kip)
        watchers = [feed.changes({}) for _ in range(MISSED_READS + 2)]
        first = [asyncio.ensure_future(anext(watcher)) for watcher in watchers]
        done = [await change for change in first[:served]]
        await asyncio.sleep(0.1)
        assert {event.change.connector for event in done} == {names[0]}
        assert len([change for change in first if change.done()]) == served
        for watcher in watchers[:served]:
            await watcher.aclose()
        for watcher, change in zip(watchers[served:], first[served:], strict=True):
            connectors = [(await change).change.connector]
            while connectors[-1] != names[-1]:
                connectors.append((await anext(watcher)).change.connector)
            assert list(dict.fromkeys(connectors)) == names
            await watcher.aclose()
    await log.close()


async def test_a_watcher_that_missed_nothing_reads_nothing() -> None:
    """A watcher at the present position needs no turn, and does not read the log."""
    log, kip = MemoryLog(), Profile.of("kip")
    await log.create_topic(CONFIG, 1)
    await log.append([configured("orders")])
    gated = GatedLog(log)
    async with Follower(gated) as follower, asyncio.timeout(PATIENCE_S):
        feed, state = ChangeFeed(follower, gated, kip), await follower.state(kip)
        gated.may_be_read.clear()
        watcher = feed.changes(state.ends_by_topic)
        change = asyncio.ensure_future(anext(watcher))
        await until(lambda: feed.watchers == 1)
        await log.append([configured("users")])
        assert (await change).change.connector == "users"
        await watcher.aclose()
    await log.close()


async def test_a_watcher_that_joins_within_a_group_misses_nothing() -> None:
    """A watch that begins while records are folded together reports all of them."""
    log, kip = MemoryLog(), Profile.of("kip")
    await log.create_topic(CONFIG, 1)
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def wait(*_: object) -> None:
        begun.set()
        await go_on.wait()

    async with Follower(log) as follower, asyncio.timeout(PATIENCE_S):
        feed, names = ChangeFeed(follower, log, kip), ["a", "b", "c"]
        await follower.state(kip)
        with follower.subscribed(kip, wait, begun.clear):
            await log.append([configured(name) for name in names])
            await begun.wait()
            watcher = feed.changes()
            change = asyncio.ensure_future(anext(watcher))
            await asyncio.sleep(0)
            go_on.set()
            connectors = [(await change).change.connector]
            while connectors[-1] != "c":
                connectors.append((await anext(watcher)).change.connector)
            assert list(dict.fromkeys(connectors)) == names
        await watcher.aclose()
    await log.close()
