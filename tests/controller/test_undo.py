"""Execution of undo, on the log of a control plane, with a crash after each step."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from itertools import count
from typing import Any

import pytest

from controlplane.core import views
from controlplane.core.commands import (
    AlterOffsets,
    CreateConnector,
    DeleteConnector,
    OffsetChange,
    PauseConnector,
    PutConfig,
    RestoreConnector,
    ResumeConnector,
    StopConnector,
)
from controlplane.core.decide.undo import restoration
from controlplane.core.plan import Plan
from controlplane.core.records import Target
from controlplane.core.state import ClusterState
from controlplane.logs.memory import MemoryLog
from controlplane.plane import ControlPlane, Refusal
from tests.controller.scene import CONFIG, Crash, crash_after, entries, plane_on

OLD: Mapping[str, Any] = {"connector.class": "lab.Source", "topic": "old", "name": "orders"}
NEW: Mapping[str, Any] = {**OLD, "topic": "new"}

IDS = count(1)
"""Ids of commands, shared by all planes of a test, which share one log."""

ConnectorShape = tuple[Mapping[str, Any] | None, Target | None]


def opened(log: MemoryLog, **overrides: Any) -> AbstractAsyncContextManager[ControlPlane]:
    """A further control plane on this log."""
    return plane_on(log, new_id=lambda: f"command-{next(IDS)}", **overrides)


def shape(plane: ControlPlane) -> ConnectorShape:
    """Config and target state of the connector."""
    config = plane.state.config.connectors.get("orders")
    return config, views.target(plane.state, "orders")


@pytest.fixture
async def log() -> MemoryLog:
    """A log in which `orders` was created, paused, reconfigured and deleted."""
    made = MemoryLog()
    async with opened(made) as plane:
        await plane.execute(CreateConnector("orders", OLD))
        await plane.execute(PauseConnector("orders"))
        await plane.execute(PutConfig("orders", NEW))
        await plane.execute(DeleteConnector("orders"))
    return made


MOMENTS: Mapping[str, ConnectorShape] = {
    "config@0": (OLD, Target.STARTED),
    "config@1": (OLD, Target.PAUSED),
    "config@2": (NEW, Target.PAUSED),
}


async def undo(plane: ControlPlane, moment: str) -> RestoreConnector:
    """Command that restores `orders` to a moment."""
    return restoration(await plane.state_at(moment), "orders")


@pytest.mark.parametrize("moment", MOMENTS)
async def test_an_undo_restores_a_deleted_connector(log: MemoryLog, moment: str) -> None:
    """A deleted connector is restored; the plan has the same records as the execution."""
    async with opened(log) as plane:
        command = await undo(plane, moment)
        plan = await plane.plan(command)
        assert isinstance(plan, Plan)
        before = len(await entries(log, [CONFIG]))
        assert (await plane.execute(command)).created
        assert shape(plane) == MOMENTS[moment]
        written = (await entries(log, [CONFIG]))[before:]
        planned = [(record.key, record.value) for step in plan.steps for record in step.records]
        assert [(entry.key, entry.value) for entry in written] == planned


async def test_an_undo_can_be_undone(log: MemoryLog) -> None:
    """An undo can be undone."""
    async with opened(log) as plane:
        for moment in (*MOMENTS, *reversed(list(MOMENTS))):
            await plane.execute(await undo(plane, moment))
            assert shape(plane) == MOMENTS[moment]


@pytest.mark.parametrize(("now", "then"), [("config@2", "config@0"), ("config@0", "config@2")])
async def test_a_crash_at_any_step_is_completed(log: MemoryLog, now: str, then: str) -> None:
    """After a crash at any step, the next process completes the undo."""
    async with opened(log) as plane:
        await plane.execute(await undo(plane, now))
        plan = await plane.plan(await undo(plane, then))
    assert isinstance(plan, Plan)
    assert len(plan.steps) > 1
    for step in plan.steps:
        async with opened(log) as plane:
            await plane.execute(await undo(plane, now))
            command = await undo(plane, then)
        with pytest.raises(Crash):
            async with opened(log, stepped=crash_after(step.name)) as plane:
                await plane.execute(command)
        async with opened(log) as plane:
            assert shape(plane) == MOMENTS[then]


FILE: Mapping[str, Any] = {
    "connector.class": "FileStreamSource",
    "file": "f",
    "topic": "t",
    "name": "orders",
}


def at_position(position: int) -> AlterOffsets:
    """Command that sets the position in the connector's file."""
    return AlterOffsets("orders", (OffsetChange({"filename": "f"}, {"position": position}),))


def offsets_shape(state: ClusterState) -> tuple[ConnectorShape, list[Mapping[str, Any] | None]]:
    """Config, target state and offsets of the connector."""
    config = state.config.connectors.get("orders")
    offsets = [offset.offset for offset in views.source_offsets(state, "orders")]
    return (config, views.target(state, "orders")), offsets


@pytest.mark.parametrize("now", [Target.STARTED, Target.PAUSED, Target.STOPPED])
async def test_undo_of_offsets_survives_a_crash_at_any_step(now: Target) -> None:
    """The connector is stopped, altered and started; the next process completes a crashed undo."""
    log = MemoryLog()
    async with opened(log) as plane:
        await plane.execute(CreateConnector("orders", FILE, Target.STOPPED))
        await plane.execute(at_position(1))
        await plane.execute(ResumeConnector("orders"))
        then = plane.state
    command = restoration(then, "orders", offsets=True)
    steps = ["stop-tasks", "stop-state", "offsets-write", "resume-state"]
    if now is Target.STOPPED:
        steps = steps[2:]
    for step in steps:
        async with opened(log) as plane:
            await plane.execute(StopConnector("orders"))
            await plane.execute(at_position(9))
            await plane.execute(RestoreConnector("orders", FILE, now))
            plan = await plane.plan(command)
            assert isinstance(plan, Plan)
            assert [planned_step.name for planned_step in plan.steps] == steps
        with pytest.raises(Crash):
            async with opened(log, stepped=crash_after(step)) as plane:
                await plane.execute(command)
        async with opened(log) as plane:
            assert offsets_shape(plane.state) == offsets_shape(then)


async def test_an_undo_without_its_offsets_is_refused(log: MemoryLog) -> None:
    """The whole restoration is refused if the offsets cannot be restored."""
    async with opened(log) as plane:
        await plane.execute(await undo(plane, "config@0"))
        command = RestoreConnector(
            "orders", NEW, Target.PAUSED, (OffsetChange({"p": 1}, {"o": 1}),)
        )
        before = await entries(log, [CONFIG])
        with pytest.raises(Refusal, match="depend on its type"):
            await plane.execute(command)
        assert await entries(log, [CONFIG]) == before
