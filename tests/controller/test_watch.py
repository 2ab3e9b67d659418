"""Watching: a watcher that reads too slowly gets an error instead of losing changes unnoticed."""

import asyncio

import pytest

from controlplane.core.commands import StopConnector
from controlplane.logs.memory import MemoryLog
from controlplane.projection.change_feed import CHANGES_WAITING, TooSlow
from tests.controller.scene import CONFIG, configured, plane_on, raw
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
