"""A plane writes snapshots when it closes: the next start reads only later records."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from controlplane.core.commands import CreateConnector, PauseConnector
from controlplane.core.entry import Batch
from controlplane.core.order import Ends
from controlplane.logs.log import LogUnavailable
from controlplane.logs.sqlite import SqliteLog
from controlplane.logs.sqlite.snapshots import SqliteSnapshotStore
from controlplane.plane import ControlPlane, Settings
from controlplane.projection.snapshot_writer import SnapshotSettings
from controlplane.projection.upkeep import CLOSING_SHARE, UpkeepSettings
from tests.controller.scene import connector, plane_on
from tests.patience import PATIENCE_S

CONNECTORS = 20
RECORDS = 3 * CONNECTORS
"""Records of all creations. Each has three: config, accepted, finished."""

ENOUGH = SnapshotSettings(tail_records=CLOSING_SHARE * CONNECTORS)
"""A snapshot limit that closing reaches, but running does not."""

Begin = Callable[[], Awaitable[None]]


class Shelf(SqliteSnapshotStore):
    """Snapshot store that waits for `first` before it begins a snapshot."""

    first: Begin

    async def begin(self, topic: str, kind: str) -> int:
        await self.first()
        return await super().begin(topic, kind)


class ReadCountingLog(SqliteLog):
    """A log that records which of its records are read."""

    read_so_far: set[tuple[str, int, int]]

    async def read(
        self, topics: Iterable[str], start: Ends | None = None, stop: Ends | None = None
    ) -> AsyncIterator[Batch]:
        async for batch in super().read(topics, start, stop):
            self.read_so_far |= {(batch.topic, batch.partition, offset) for offset in batch.offsets}
            yield batch

    def before_snapshots(self, first: Begin) -> None:
        """Run `first` before each snapshot is written."""
        self._snapshots = Shelf(self._pool, self._need_writer)
        self._snapshots.first = first


class PlaneNotices:
    """Logger that records the events of a plane."""

    def __init__(self) -> None:
        self.reasons: list[Any] = []

    def info(self, event: str, **facts: Any) -> None:
        """Ignore an informational event: only warnings have a reason."""

    def warning(self, event: str, **facts: Any) -> None:
        self.reasons.append((event, facts["reason"]))


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[ReadCountingLog]:
    """An empty log that records which of its records are read."""
    opened = await ReadCountingLog.open(tmp_path / "state.db")
    assert isinstance(opened, ReadCountingLog)
    opened.read_so_far = set()
    yield opened
    await opened.close()


def settings(closing_ms: int = 1_000 * PATIENCE_S) -> Settings:
    """Settings of the upkeep of the log; by default a busy machine completes its snapshots."""
    return Settings(upkeep=UpkeepSettings(snapshots=ENOUGH, closing_ms=closing_ms))


async def lived(log: ReadCountingLog, settings: Settings, **overrides: Any) -> None:
    """Open a plane, create some connectors, and close it."""
    async with plane_on(log, settings, **overrides) as plane:
        for number in range(CONNECTORS):
            await plane.execute(connector(f"c-{number}"))


async def read_at_start(log: ReadCountingLog) -> int:
    """Number of records that the next plane reads; its state must be complete."""
    log.read_so_far.clear()
    ids = count(CONNECTORS)
    async with plane_on(log, settings(), new_id=lambda: f"later-{next(ids)}") as plane:
        assert len(plane.state.config.connectors) == CONNECTORS
        assert len(plane.state.commands) == CONNECTORS
        return len(log.read_so_far)


async def test_closing_snapshots_hold_all_records(log: ReadCountingLog) -> None:
    """The snapshots hold all records, including the last one."""
    await lived(log, settings())
    assert await read_at_start(log) == 0


async def test_a_cancelled_plane_writes_its_snapshots(log: ReadCountingLog) -> None:
    """A cancelled plane writes its snapshots before it ends, as on a signal."""
    ready = asyncio.Event()

    async def serves() -> None:
        async with plane_on(log, settings()) as plane:
            for number in range(CONNECTORS):
                await plane.execute(connector(f"c-{number}"))
            ready.set()
            await asyncio.Event().wait()

    service = asyncio.create_task(serves())
    await ready.wait()
    service.cancel()
    with pytest.raises(asyncio.CancelledError):
        await service
    assert await read_at_start(log) == 0


async def test_few_records_give_no_snapshot(log: ReadCountingLog) -> None:
    """Closing writes no snapshot for a few records: it would cost more than reading them."""
    await lived(log, settings())
    ids = count()
    async with plane_on(log, settings(), new_id=lambda: f"one-{next(ids)}") as plane:
        await plane.execute(PauseConnector("c-1"))
    log.read_so_far.clear()
    async with plane_on(log, settings()):
        assert len(log.read_so_far) == 3


async def test_closing_snapshots_can_be_turned_off(log: ReadCountingLog) -> None:
    """`upkeep.closing.ms=0` makes no snapshots: the next plane reads the whole log."""
    await lived(log, settings(closing_ms=0))
    assert await read_at_start(log) == RECORDS


async def test_a_failed_snapshot_is_reported(log: ReadCountingLog) -> None:
    """A failed snapshot is reported, and closing succeeds."""

    async def full() -> None:
        raise LogUnavailable("the disk is full")

    heard = PlaneNotices()
    log.before_snapshots(full)
    await lived(log, settings(), notices=heard)
    assert heard.reasons == [("log_upkeep_failed", "the disk is full")]
    assert await read_at_start(log) == RECORDS


async def test_slow_snapshots_are_dropped(log: ReadCountingLog) -> None:
    """Snapshots that take longer than the limit are dropped."""

    async def never() -> None:
        await asyncio.Event().wait()

    heard = PlaneNotices()
    log.before_snapshots(never)
    await lived(log, settings(closing_ms=1), notices=heard)
    limit = "upkeep.closing.ms=1"
    reason = f"the last snapshots were not done within {limit}: the next start is slower"
    assert heard.reasons == [("log_upkeep_failed", reason)]
    log.before_snapshots(full_speed)
    assert await read_at_start(log) == RECORDS


async def full_speed() -> None:
    """Do nothing: the next snapshots are written without a delay."""


async def test_a_cancellation_ends_the_wait_for_snapshots(log: ReadCountingLog) -> None:
    """A cancellation ends the wait for the closing snapshots: the plane closes without them."""
    begun = asyncio.Event()

    async def waiting() -> None:
        begun.set()
        await asyncio.Event().wait()

    log.before_snapshots(waiting)
    closing = asyncio.create_task(lived(log, settings(closing_ms=600_000)))
    await begun.wait()
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    log.before_snapshots(full_speed)
    assert await read_at_start(log) == RECORDS
    async with plane_on(log, settings(), new_id=lambda: "again") as plane:
        await plane.execute(CreateConnector("another", {"connector.class": "lab.Source"}))


@pytest.mark.parametrize("steps", range(1, 6))
async def test_a_cancellation_of_the_end_is_not_lost(steps: int) -> None:
    """A time-out or Ctrl-C while a plane closes also ends the code behind its block."""
    opened = ControlPlane.open("memory:")
    await opened.__aenter__()
    closing = asyncio.ensure_future(opened.__aexit__(None, None, None))
    for _ in range(steps):
        await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait([closing])
    assert closing.cancelled()
