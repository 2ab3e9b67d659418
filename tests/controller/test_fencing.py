"""A plane whose log another writer has taken over: it only reads, and can claim the log again."""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import pytest

from controlplane.controller import NoExternalSystems
from controlplane.core import views
from controlplane.core.commands import (
    AlterOffsets,
    CommandRequest,
    FenceTasks,
    OffsetChange,
    PauseConnector,
    ResumeConnector,
    StopConnector,
)
from controlplane.core.entry import Position
from controlplane.core.plan import (
    AnyAction,
    FenceProducers,
    HookOutcome,
    HookSuccess,
    Plan,
    Step,
)
from controlplane.core.plugins import Plugin
from controlplane.core.records import Target
from controlplane.core.state import ClusterState
from controlplane.logs.log import Fenced, LogUnavailable, Record
from controlplane.logs.memory import MemoryLog
from controlplane.logs.offset_rules import check_epoch
from controlplane.plane import ControlPlane, Settings
from controlplane.plugins import catalogued
from controlplane.projection.retention import RetentionSettings
from controlplane.projection.upkeep import UpkeepSettings
from tests.controller.scene import (
    COMMANDS,
    CONFIG,
    NOW_MS,
    configured,
    plane_on,
    raw,
    written_texts,
)
from tests.outages import until
from tests.patience import PATIENCE_S

STOP, PAUSE, RESUME = (kind("orders") for kind in (StopConnector, PauseConnector, ResumeConnector))


class NoticeEvents:
    """Logger that records the names of events and their facts."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Mapping[str, Any]]] = []

    def info(self, event: str, **facts: Any) -> None:
        self.events.append((event, facts))

    warning = info

    def of(self, event: str) -> list[Mapping[str, Any]]:
        """The facts of each event of this name."""
        return [facts for name, facts in self.events if name == event]


class Fragile(MemoryLog):
    """A log that refuses claims while it is unavailable."""

    away = False

    async def claim(self) -> int:
        if self.away:
            raise LogUnavailable("the log is away")
        return await super().claim()


class Overtaken(MemoryLog):
    """A log that another writer claims right after the next append, if `claim_follows`."""

    claim_follows = False

    async def append(
        self, records: Sequence[Record], epoch: int | None = None
    ) -> Sequence[Position]:
        positions = await super().append(records, epoch)
        if self.claim_follows:
            self.claim_follows = False
            await self.claim()
        return positions

    async def check_writable(self, epoch: int | None = None) -> None:
        check_epoch(epoch, self._epoch)


class NotedActions(NoExternalSystems):
    """External systems that note the actions, and do nothing."""

    def __init__(self) -> None:
        self.performed: list[AnyAction] = []

    async def perform(self, action: AnyAction) -> None:
        self.performed.append(action)


def unfinished(plane: ControlPlane) -> list[str]:
    """The ids of commands that have not ended."""
    return [name for name, trace in plane.state.commands.items() if trace.unfinished]


@pytest.fixture
async def log() -> Fragile:
    """A log in which `orders` is configured."""
    made = Fragile()
    for topic in (CONFIG, "connect-offsets", "connect-status"):
        await made.create_topic(topic, 1)
    await made.append([configured("orders")])
    return made


async def test_a_fenced_plane_reads_on(log: Fragile) -> None:
    """The fenced plane reports this once, follows the log, and answers reads and dry runs."""
    lines = NoticeEvents()
    async with plane_on(log, notices=lines) as first, plane_on(log) as second:
        with pytest.raises(Fenced, match="another writer"):
            await first.execute(STOP)
        assert isinstance(first.failure, Fenced)
        await second.execute(PAUSE)
        async with asyncio.timeout(PATIENCE_S):
            while views.target(first.state, "orders") is not Target.PAUSED:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        with pytest.raises(Fenced, match="another writer"):
            await first.execute(RESUME)
        assert isinstance(await first.plan(RESUME), Plan)
    (fenced_notice,) = lines.of("log_fenced")
    assert "another writer has taken over" in fenced_notice["reason"]
    assert [notice["outcome"] for notice in lines.of("command")] == ["unfinished", "not begun"]


async def test_a_known_key_is_answered_by_a_fenced_plane(log: Fragile) -> None:
    """A fenced plane answers the key of an ended command."""
    async with plane_on(log) as plane:
        ended = await plane.execute(STOP, key="k")
        await log.claim()
        with pytest.raises(Fenced):
            await plane.execute(RESUME)
        assert await plane.execute(STOP, key="k") == ended


async def test_a_fenced_plane_calls_no_hook(log: Fragile) -> None:
    """A fenced plane calls no hook: it may change another system, and no record would follow."""
    called = []

    def hook(config: Mapping[str, Any], offsets: Any) -> HookOutcome:
        called.append(offsets)
        return HookSuccess(definite=True)

    await log.append([configured("hooked")])
    plugins = catalogued(
        more=[Plugin(class_name="lab.Source", type="source", version="1", hook=hook)]
    )
    alter = AlterOffsets("hooked", (OffsetChange({"p": 1}, {"o": 1}),))
    async with plane_on(log, plugins=plugins) as plane:
        await plane.execute(StopConnector("hooked"))
        await log.claim()
        with pytest.raises(Fenced):
            await plane.execute(PAUSE)
        with pytest.raises(Fenced):
            await plane.execute(alter)
        assert not called
        await plane.claim()
        await plane.execute(alter)
        assert len(called) == 1


async def test_a_fenced_plane_fences_no_producers() -> None:
    """A newer writer may have started tasks; the older one notices before it fences them."""
    log, outside = Overtaken(), NotedActions()
    await log.create_topic(CONFIG, 1)
    count = raw(CONFIG, "tasks-fencing-orders", '{"task-count":2}')
    commit = raw(CONFIG, "commit-orders", '{"tasks":0}')
    await log.append([configured("orders"), commit, count, commit])
    plugins = catalogued(more=[Plugin(class_name="lab.Source", type="source", version="1")])
    settings = Settings(exactly_once=True)
    async with plane_on(log, settings, outside=outside, plugins=plugins) as plane:
        log.claim_follows = True
        with pytest.raises(Fenced):
            await plane.execute(FenceTasks("orders"))
        assert outside.performed == []
        await plane.claim()  # completes the command
        assert outside.performed == [
            FenceProducers("orders", ("connect-cluster-orders-0", "connect-cluster-orders-1"))
        ]


async def test_two_planes_claim_in_turn(log: Fragile) -> None:
    """Two planes claim the log in turn; each one then writes and knows the other's records."""
    lines = NoticeEvents()
    ids = count()
    first_plane = plane_on(log, notices=lines, new_id=lambda: f"{next(ids)}")
    async with first_plane as first, plane_on(log, new_id=lambda: f"{next(ids)}") as second:
        with pytest.raises(Fenced):
            await first.execute(STOP)
        await second.execute(PAUSE)
        await first.claim()
        assert first.failure is None
        assert views.target(first.state, "orders") is Target.PAUSED
        await first.execute(RESUME)
        with pytest.raises(Fenced):
            await second.execute(STOP)
        await second.claim()
        assert views.target(second.state, "orders") is Target.STARTED
        await second.execute(STOP)
    assert len(lines.of("log_fenced")) == len(lines.of("log_claimed")) == 1


async def test_a_claim_completes_a_fenced_command(log: Fragile) -> None:
    """A stop that was fenced after its first step is completed by the next claim, with its key."""
    takes_over = True

    async def stepped(_asked: CommandRequest, done: Step) -> None:
        if done.name == "tasks" and takes_over:
            await log.claim()

    async with plane_on(log, stepped=stepped) as plane:
        with pytest.raises(Fenced):
            await plane.execute(STOP, key="k")
        assert unfinished(plane) == ["k"]
        takes_over = False
        await plane.claim()
        assert unfinished(plane) == []
        assert views.target(plane.state, "orders") is Target.STOPPED
        ended = await written_texts(log, CONFIG, COMMANDS)
        await plane.execute(STOP, key="k")
        assert await written_texts(log, CONFIG, COMMANDS) == ended


async def test_a_claim_waits_for_commands_under_way(log: Fragile) -> None:
    """A claim waits for started commands; they write nothing after it."""
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def stepped(_asked: CommandRequest, done: Step) -> None:
        if done.name == "tasks" and not go_on.is_set():
            reached.set()
            await go_on.wait()

    await log.append([configured("users")])
    async with plane_on(log, stepped=stepped) as plane:
        stopping = asyncio.create_task(plane.execute(STOP, key="k"))
        await reached.wait()
        await log.claim()
        with pytest.raises(Fenced):
            await plane.execute(PauseConnector("users"))
        claiming = asyncio.create_task(plane.claim())
        await asyncio.sleep(0.05)
        assert not claiming.done()
        go_on.set()
        with pytest.raises(Fenced):
            await stopping
        await claiming
        assert views.target(plane.state, "orders") is Target.STOPPED


async def test_a_cancelled_claim_cancels_no_command(log: Fragile) -> None:
    """A command under way goes on after the claim that waits for it has been cancelled."""
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def stepped(_asked: CommandRequest, done: Step) -> None:
        if done.name == "tasks" and not go_on.is_set():
            reached.set()
            await go_on.wait()

    await log.append([configured("users")])
    async with plane_on(log, stepped=stepped) as plane:
        stopping = asyncio.create_task(plane.execute(STOP))
        await reached.wait()
        await log.claim()
        with pytest.raises(Fenced):
            await plane.execute(PauseConnector("users"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(plane.claim(), 0.01)
        await asyncio.sleep(0)
        assert not stopping.done()
        go_on.set()
        with pytest.raises(Fenced):
            await stopping


async def test_a_claim_while_the_log_is_away(log: Fragile) -> None:
    """A failed claim leaves the plane fenced until a later one succeeds."""
    async with plane_on(log) as plane:
        await log.claim()
        with pytest.raises(Fenced):
            await plane.execute(STOP)
        log.away = True
        with pytest.raises(LogUnavailable, match="away"):
            await plane.claim()
        with pytest.raises(Fenced):
            await plane.execute(STOP)
        log.away = False
        await plane.claim()
        await plane.execute(STOP)


async def test_the_writer_need_not_claim(log: Fragile) -> None:
    """A claim of the current writer changes nothing."""
    async with plane_on(log) as plane:
        log.away = True
        await plane.claim()
        await plane.execute(STOP)


async def test_a_fenced_plane_leaves_the_log_alone(
    log: Fragile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fenced plane removes no old commands: that is up to the new writer."""
    own_state = ControlPlane._own_state
    states: list[ClusterState | None] = []

    def noted(plane: ControlPlane) -> ClusterState | None:
        states.append(own_state(plane))
        return states[-1]

    monkeypatch.setattr(ControlPlane, "_own_state", noted)
    upkeep = UpkeepSettings(interval_ms=1, retention=RetentionSettings(commands_ms=1_000))
    hours = count(NOW_MS, 3_600_000)
    async with plane_on(log, Settings(upkeep=upkeep), now_ms=lambda: next(hours)) as plane:
        await log.claim()
        with pytest.raises(Fenced):
            await plane.execute(STOP)
        async with plane_on(log, now_ms=lambda: next(hours)) as second:
            await second.execute(STOP)
            states.clear()
            # One state may be of the new writer. The next ones follow whole runs of the upkeep.
            await until(lambda: len(states) > 3)
            assert (await log.starts([COMMANDS]))[COMMANDS] == [0]
