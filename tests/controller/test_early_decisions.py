"""Decisions while the end of the log is asked for: they are used only on an unchanged state."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest

from controlplane.controller import decision
from controlplane.core import decide as deciding
from controlplane.core.commands import (
    AlterOffsets,
    AnyCommand,
    CreateConnector,
    OffsetChange,
    ResetOffsets,
)
from controlplane.core.order import Ends
from controlplane.core.records import Target
from controlplane.logs.memory import MemoryLog
from controlplane.plane import ControlPlane
from tests.controller.scene import OFFSETS, offset_values, plane_on, raw

CONFIG = {
    "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
    "file": "f",
    "topic": "t",
}
STOPPED = CreateConnector("orders", CONFIG, Target.STOPPED)
ALTER = AlterOffsets("orders", (OffsetChange({"filename": "f"}, {"position": 2}),))
RESET = ResetOffsets("orders")
FOREIGN = raw(OFFSETS, '["orders",{"filename":"g"}]', '{"position":9}')


class SlowEndLog(MemoryLog):
    """Log that answers a request for its ends after other tasks have run, and after `before`."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Callable[[], Awaitable[Any]] | None = None

    async def ends(self, topics: Iterable[str]) -> Ends:
        """Ends of the topics, after `before`."""
        await asyncio.sleep(0)
        if self.before is not None:
            before, self.before = self.before, None
            await before()
        return await super().ends(topics)


class DecisionCount:
    """Counts decisions, and keeps the number of offsets in the state of each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.offsets: list[int] = []
        monkeypatch.setattr(decision, "decide", self._decide)

    def _decide(self, state: Any, *arguments: Any, **settings: Any) -> Any:
        self.offsets.append(sum(len(topic.values) for topic in state.offsets.values()))
        return deciding.decide(state, *arguments, **settings)


@pytest.mark.parametrize("command", [ALTER, RESET], ids=["alter", "reset"])
async def test_an_unchanged_state_needs_one_decision(
    monkeypatch: pytest.MonkeyPatch, command: AnyCommand
) -> None:
    """No record has come meanwhile, so the early decision is the decision."""
    async with plane_on(SlowEndLog()) as plane:
        await plane.execute(STOPPED)
        decisions = DecisionCount(monkeypatch)
        await plane.execute(command)
    assert decisions.offsets == [0]


async def test_a_foreign_record_during_the_request_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reset also removes an offset that was written after its early decision."""
    log = SlowEndLog()
    async with plane_on(log) as plane:
        await plane.execute(STOPPED)
        decisions = DecisionCount(monkeypatch)
        log.before = lambda: log.append([FOREIGN])
        await plane.execute(RESET)
        assert offset_values(plane) == []
    assert decisions.offsets == [0, 1]


async def test_an_early_decision_serves_only_its_own_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An equal command that runs next is decided anew: the first one may have changed the state."""
    async with plane_on(SlowEndLog()) as plane:
        await plane.execute(STOPPED)
        await plane.execute(ALTER)
        decisions = DecisionCount(monkeypatch)
        await plane.execute(RESET)
        await plane.execute(RESET)
        assert offset_values(plane) == []
    assert decisions.offsets == [1, 0]


async def test_commands_side_by_side_are_decided_once_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each command changes the state of the others, so early decisions would be in vain."""
    names = [f"c{number}" for number in range(4)]
    async with plane_on(SlowEndLog()) as plane:
        await _create(plane, names)
        decisions = DecisionCount(monkeypatch)
        await asyncio.gather(*(plane.execute(ResetOffsets(name)) for name in names))
    assert len(decisions.offsets) == len(names)


async def _create(plane: ControlPlane, names: Iterable[str]) -> None:
    for name in names:
        await plane.execute(CreateConnector(name, CONFIG, Target.STOPPED))
