"""Retention of the trail: which records of commands are removed after some time, and which stay."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from controlplane.attached.attached_plane import AttachedPlane
from controlplane.attached.command_trail import ClusterIdentity, Trail
from controlplane.attached.execution import AttachedSurroundings
from controlplane.core.commands import CommandRequest
from controlplane.core.plan import Outcome, Plan
from controlplane.logs.log import EmbeddedLog, LogUnavailable, ReadableLog, Record
from controlplane.logs.memory import MemoryLog
from controlplane.logs.sqlite import SqliteLog
from controlplane.projection.retention import DAY_MS, FOREVER, RetentionSettings
from controlplane.projection.upkeep import UpkeepSettings
from controlplane.rest.errors import WorkerAnswer
from tests.attached.test_attached_plane import LIMITS, PAUSE, SteeredLog, accept, steered
from tests.attached.test_follow_up import TOPICS
from tests.outages import until
from tests.patience import PATIENCE_S
from tests.worker.worker_fixture import RecordedNotices

TOPIC = TOPICS.commands
IDENTITY = ClusterIdentity(None, TOPICS.config)
DEFAULT = RetentionSettings()


@pytest.fixture(params=["memory", "sqlite"])
async def log(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[EmbeddedLog]:
    """Empty log for a trail, of either kind."""
    log: EmbeddedLog
    log = MemoryLog() if request.param == "memory" else await SqliteLog.open(tmp_path / "trail.db")
    yield log
    await log.close()


async def opened(log: EmbeddedLog) -> Trail:
    """Trail in a log, as a process that starts reads it."""
    return await Trail.open(log, TOPIC, IDENTITY, 0)


def request(key: str, day: int) -> CommandRequest:
    """Request for a pause, with an idempotency key."""
    at_ms = day * DAY_MS
    return CommandRequest(command=PAUSE, command_id=key, at_ms=at_ms, principal="ada", keyed=True)


async def run(trail: Trail, key: str, day: int, *, finishes: bool = True) -> None:
    """Record a command on a day."""
    await trail.accepted(request(key, day), Plan(()), {})
    if finishes:
        await trail.finished(request(key, day), day * DAY_MS, Outcome(), {})


async def offsets_in(log: ReadableLog) -> list[int]:
    """Return the offsets of the trail's records."""
    return [entry.offset async for batch in log.read([TOPIC]) for entry in batch.entries()]


async def test_expired_commands_are_removed(log: EmbeddedLog) -> None:
    """Commands of the last 30 days stay, also for the next process."""
    trail = await opened(log)
    for key, day in {"a": 0, "b": 69, "c": 70, "d": 99}.items():
        await run(trail, key, day)
    assert await trail.retain(100 * DAY_MS, DEFAULT) == 4
    assert await offsets_in(log) == [4, 5, 6, 7]
    assert await trail.retain(100 * DAY_MS, DEFAULT) == 0
    assert [*(await opened(log)).commands] == ["c", "d"]


async def test_an_unfinished_command_stays(log: EmbeddedLog) -> None:
    """An unfinished command and all later records stay, until the command has ended."""
    trail = await opened(log)
    await run(trail, "a", 0)
    await run(trail, "b", 0, finishes=False)
    await run(trail, "c", 0)
    assert await trail.retain(100 * DAY_MS, DEFAULT) == 2
    assert await offsets_in(log) == [2, 3, 4]
    trail = await opened(log)
    assert [key for key, trace in trail.commands.items() if trace.unfinished] == ["b"]
    await trail.finished(request("b", 0), 99 * DAY_MS, Outcome(), {})
    assert await trail.retain(100 * DAY_MS, DEFAULT) == 3


async def test_a_record_that_the_trail_has_not_read_stays(log: EmbeddedLog) -> None:
    """A commit may be in the log before the trail has folded it."""
    trail = await opened(log)
    await run(trail, "a", 0)
    await log.append([Record(TOPIC, 0, 0, b"b", b"{}")])
    assert await trail.retain(100 * DAY_MS, DEFAULT) == 2
    assert await offsets_in(log) == [2]


async def test_unlimited_retention_removes_nothing(log: EmbeddedLog) -> None:
    """The setting is that of an embedded log."""
    trail = await opened(log)
    await run(trail, "a", 0)
    assert await trail.retain(100 * DAY_MS, RetentionSettings(commands_ms=FOREVER)) == 0
    assert await offsets_in(log) == [0, 1]


class DayClock:
    """Clock that a test sets to a day."""

    def __init__(self) -> None:
        self.day = 0

    def __call__(self) -> int:
        return self.day * DAY_MS


def surroundings(clock: DayClock) -> AttachedSurroundings:
    """Surroundings of a plane that runs its upkeep all the time."""
    upkeep = UpkeepSettings(interval_ms=1)
    return AttachedSurroundings(RecordedNotices(), clock, limits=LIMITS, upkeep=upkeep)


def plane_of(
    cluster: SteeredLog, around: AttachedSurroundings
) -> AbstractAsyncContextManager[AttachedPlane]:
    """Plane of a cluster and its trail."""
    return AttachedPlane.open(
        cluster.client, cluster.planner, cluster.follow_up, cluster.trail, around
    )


async def pause(cluster: SteeredLog, around: AttachedSurroundings, key: str) -> object:
    """Open a plane, pause a connector with a key, and return the answer."""
    async with plane_of(cluster, around) as plane:
        answer = await plane.carry_out(PAUSE, principal="ada", key=key, profile=None)
        await until(lambda: not cluster.trail.commands[key].unfinished)
    return answer


async def test_a_plane_removes_expired_commands_and_knows_the_others(log: EmbeddedLog) -> None:
    """A key of the last 30 days gets its first answer after a restart, and is not sent again."""
    clock = DayClock()
    around = surroundings(clock)
    async with steered(accept) as steered_log:
        cluster = steered_log._replace(trail=await opened(log))
        await pause(cluster, around, "a")
        clock.day = 20
        first = await pause(cluster, around, "b")
        clock.day = 31
        await pause(cluster, around, "c")
        async with plane_of(cluster, around):
            async with asyncio.timeout(PATIENCE_S):
                while await log.starts([TOPIC]) != {TOPIC: [2]}:  # noqa: ASYNC110 - no event
                    await asyncio.sleep(0.005)
        cluster = cluster._replace(trail=await opened(log))
        assert [*cluster.trail.commands] == ["b", "c"]
        assert len(cluster.sent) == 3
        again = await pause(cluster, around, "b")
        assert len(cluster.sent) == 3
        assert isinstance(first, WorkerAnswer)
        assert again == first


class FullLog(MemoryLog):
    """Log whose first removal of records fails."""

    def __init__(self) -> None:
        super().__init__()
        self.removals = 0

    async def trim(self, topic: str, below: Sequence[int]) -> int:
        """Fail once; then remove as the log does."""
        self.removals += 1
        if self.removals == 1:
            raise LogUnavailable("disk is full")
        return await super().trim(topic, below)


async def test_a_failed_removal_is_reported_and_repeated() -> None:
    """The plane runs on, and tries again after the interval."""
    log, notices = FullLog(), RecordedNotices()
    around = surroundings(DayClock())._replace(notices=notices)
    async with steered(accept) as steered_log:
        cluster = steered_log._replace(trail=await opened(log))
        async with plane_of(cluster, around):
            await until(lambda: log.removals > 1)
    assert [words["reason"] for words in notices.of("log_upkeep_failed")] == ["disk is full"]
