"""What keeps a log handy while it is used: snapshots, which keep starts short, and retention."""

import asyncio
from collections.abc import Callable
from typing import Annotated

import msgspec
from msgspec import Meta

from controlplane.core.state import ClusterState
from controlplane.follower import Notices
from controlplane.logs.log import LogError, ReadableLog
from controlplane.retention import RetentionSettings, retain
from controlplane.snapshots.keeping import SnapshotSettings, keep_snapshots

CLOSING_SHARE = 10
"""When a log is closed, a snapshot pays after so many times fewer records than while it is open:
nobody waits for it, and somebody will for what it saves."""


class UpkeepSettings(msgspec.Struct, frozen=True, kw_only=True):
    """When a log is looked after, and what is kept."""

    interval_ms: int = 60_000
    """Time between two looks: each costs a few short reads where nothing is to be done."""

    closing_ms: Annotated[int, Meta(ge=0)] = 5_000
    """How long the last snapshots may take when the log is closed, 0: none are made then. What is
    not done by then is read by whoever opens the log next, as after a crash."""

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


async def look_after_at_last(
    log: ReadableLog, state: ClusterState, settings: UpkeepSettings, notices: Notices
) -> None:
    """Make the snapshots that spare whoever opens the log next, if there is time for them.

    Up to the last record: nobody writes any more, so none of ours comes late. May be cancelled at
    any time; that they cannot be written is told, and nothing else.
    """
    tail_records = max(1, settings.snapshots.tail_records // CLOSING_SHARE)
    eager = msgspec.structs.replace(settings.snapshots, tail_records=tail_records, lateness_ms=0)
    if settings.closing_ms:
        try:
            async with asyncio.timeout(settings.closing_ms / 1_000):
                await keep_snapshots(log, state, eager)
        except LogError as failure:
            notices.warning("log_not_looked_after", reason=str(failure))
        except TimeoutError:
            reason = f"its snapshots take more than upkeep.closing.ms={settings.closing_ms}"
            notices.warning("log_not_looked_after", reason=reason)
