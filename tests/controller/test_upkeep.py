"""Upkeep of the log: snapshots shorten the next start, and retention removes old commands."""

import asyncio
from itertools import count
from pathlib import Path

from controlplane.core.commands import PauseConnector, ResumeConnector
from controlplane.core.fold import Fold
from controlplane.core.fold.snapshot_codec import kind_of
from controlplane.core.releases.profiles import Profile
from controlplane.logs.snapshots import snapshot_store_of
from controlplane.logs.sqlite import SqliteLog
from controlplane.plane import Settings
from controlplane.projection.retention import RetentionSettings
from controlplane.projection.snapshot_writer import SnapshotSettings
from controlplane.projection.upkeep import UpkeepSettings
from tests.controller.scene import (
    COMMANDS,
    CONFIG,
    NOW_MS,
    configured,
    plane_on,
    wait_for_connectors,
)
from tests.patience import PATIENCE_S

OFTEN = SnapshotSettings(tail_records=5, lateness_ms=0)


async def test_snapshots_are_made(tmp_path: Path) -> None:
    """An open plane makes snapshots of its log; the next plane has the same state."""
    log = await SqliteLog.open(tmp_path / "state.db")
    settings = Settings(upkeep=UpkeepSettings(interval_ms=1, snapshots=OFTEN))
    minutes = count(NOW_MS, 60_000)
    async with plane_on(log, settings, now_ms=lambda: next(minutes)) as plane:
        await log.append([configured("orders")])
        await wait_for_connectors(plane, "orders")
        for _ in range(10):
            await plane.execute(PauseConnector("orders"))
            await plane.execute(ResumeConnector("orders"))
        shelf, kind = snapshot_store_of(log), kind_of(Fold(Profile.of("kip")), CONFIG)
        assert shelf is not None
        async with asyncio.timeout(PATIENCE_S):
            while not await shelf.stored(CONFIG, kind):  # noqa: ASYNC110 - no event reports it
                await asyncio.sleep(0.005)
        config = plane.state.config
    async with plane_on(log) as plane:
        assert plane.state.config == config
    await log.close()


async def test_old_commands_are_removed(tmp_path: Path) -> None:
    """Retention cuts the beginning of the command topic, and leaves Connect's topics alone."""
    log = await SqliteLog.open(tmp_path / "state.db")
    upkeep = UpkeepSettings(interval_ms=1, retention=RetentionSettings(commands_ms=1_000))
    hours = count(NOW_MS, 3_600_000)
    async with plane_on(log, Settings(upkeep=upkeep), now_ms=lambda: next(hours)) as plane:
        await log.append([configured("orders")])
        await wait_for_connectors(plane, "orders")
        await plane.execute(PauseConnector("orders"))
        async with asyncio.timeout(PATIENCE_S):
            while (await log.starts([COMMANDS]))[COMMANDS] == [0]:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
    assert (await log.starts([CONFIG]))[CONFIG] == [0]
    await log.close()
