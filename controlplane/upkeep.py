"""What keeps a log handy while it is used: snapshots, which keep starts short, and retention."""

import asyncio
from collections.abc import Callable

import msgspec

from controlplane.core.state import ClusterState
from controlplane.follower import Notices
from controlplane.logs.log import LogError, ReadableLog
from controlplane.retention import RetentionSettings, retain
from controlplane.snapshots.keeping import SnapshotSettings, keep_snapshots


class UpkeepSettings(msgspec.Struct, frozen=True, kw_only=True):
    """When a log is looked after, and what is kept."""

    interval_ms: int = 60_000
    """Time between two looks: each costs a few short reads where nothing is to be done."""

    snapshots: SnapshotSettings = SnapshotSettings()
    retention: RetentionSettings = RetentionSettings()


async def look_after(
    log: ReadableLog, state: ClusterState, now_ms: int, settings: UpkeepSettings
) -> None:
    """Make the snapshots that are due, and remove what has been there for long enough.

    Raises:
        LogError: the log cannot be read or written just now.
    """
    await keep_snapshots(log, state, settings.snapshots)
    await retain(log, state, now_ms, settings.retention)


async def keep_looking_after(
    log: ReadableLog,
    state: Callable[[], ClusterState],
    now_ms: Callable[[], int],
    settings: UpkeepSettings,
    notices: Notices,
) -> None:
    """Look after a log from now on, until this is cancelled. Its failures are told, and pass."""
    while True:
        try:
            await look_after(log, state(), now_ms(), settings)
        except LogError as failure:
            notices.warning("log_not_looked_after", reason=str(failure))
        await asyncio.sleep(settings.interval_ms / 1_000)
