"""Background maintenance of a log: snapshots, which shorten the next start, and retention."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated

import msgspec
from msgspec import Meta

from controlplane.core.state import ClusterState
from controlplane.logs.log import LogError, ReadableLog
from controlplane.notices import Notices
from controlplane.projection.retention import RetentionSettings, retain
from controlplane.projection.snapshot_writer import SnapshotSettings, keep_snapshots

CLOSING_SHARE = 10
"""Divisor of `tail_records` when a log is closed: more snapshots shorten the next start."""


class UpkeepSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the maintenance: schedule, snapshots, retention."""

    interval_ms: int = 60_000
    """Time between two runs: an idle run costs a few short reads."""

    closing_ms: Annotated[int, Meta(ge=0)] = 5_000
    """Time limit for the last snapshots when the log is closed; 0: none are stored. The next start
    then reads every record after the previous snapshots, as after a crash."""

    snapshots: SnapshotSettings = SnapshotSettings()
    retention: RetentionSettings = RetentionSettings()


async def run_upkeep(
    log: ReadableLog, state: ClusterState, now_ms: int, settings: UpkeepSettings
) -> None:
    """Store the snapshots that are due, and remove expired records.

    Raises:
        LogError: the log cannot be read or written.
    """
    await keep_snapshots(log, state, settings.snapshots)
    await retain(log, state, now_ms, settings.retention)


async def repeat_upkeep(
    log: ReadableLog,
    state: Callable[[], ClusterState | None],
    now_ms: Callable[[], int],
    settings: UpkeepSettings,
    notices: Notices,
) -> None:
    """Maintain a log until this is cancelled (`repeat_run`).

    While `state` returns None, the log belongs to another writer, and is not changed.
    """

    async def run() -> None:
        present = state()
        if present is not None:
            await run_upkeep(log, present, now_ms(), settings)

    await repeat_run(run, settings, notices)


async def repeat_run(
    run: Callable[[], Awaitable[object]], settings: UpkeepSettings, notices: Notices
) -> None:
    """Run a maintenance until this is cancelled; report failures, and retry after the interval."""
    while True:
        try:
            await run()
        except LogError as failure:
            notices.warning("log_upkeep_failed", reason=str(failure))
        await asyncio.sleep(settings.interval_ms / 1_000)


async def store_last_snapshots(
    log: ReadableLog,
    state: Callable[[], ClusterState | None],
    settings: UpkeepSettings,
    notices: Notices,
) -> None:
    """Store the last snapshots of a log that is being closed, within `closing_ms`.

    They include the last record: nothing is written any more, so no record can come late. A failure
    is only reported. This may be cancelled at any time.
    """
    tail_records = max(1, settings.snapshots.tail_records // CLOSING_SHARE)
    eager = msgspec.structs.replace(settings.snapshots, tail_records=tail_records, lateness_ms=0)
    present = state()
    if settings.closing_ms and present is not None:
        try:
            async with asyncio.timeout(settings.closing_ms / 1_000):
                await keep_snapshots(log, present, eager)
        except LogError as failure:
            notices.warning("log_upkeep_failed", reason=str(failure))
        except TimeoutError:
            limit = f"upkeep.closing.ms={settings.closing_ms}"
            reason = f"the last snapshots were not done within {limit}: the next start is slower"
            notices.warning("log_upkeep_failed", reason=reason)
