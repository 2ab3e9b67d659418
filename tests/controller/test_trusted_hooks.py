"""Plans that trust hooks: a dry run that cannot change another system."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import pytest

from controlplane.core.commands import (
    AlterOffsets,
    AnyCommand,
    CreateConnector,
    OffsetChange,
    ResetOffsets,
)
from controlplane.core.configdef.key_definition import ConfigKey
from controlplane.core.plan import Offsets, Plan, Rejected
from controlplane.core.plugins import Plugins
from controlplane.core.records import Target
from controlplane.logs.memory import MemoryLog
from controlplane.plugins import catalogued, described
from tests.controller.scene import plane_on

FIRST = (OffsetChange({"table": "t"}, {"row": 1}),)
CONFIG = {"connector.class": f"{__name__}.Outside", "name": "orders"}


class Outside:
    """A connector that keeps its offsets in another system, and refuses ours."""

    kind: ClassVar[Literal["source", "sink"]] = "source"
    version: ClassVar[str] = "1"
    config: ClassVar[Sequence[ConfigKey]] = ()
    calls = 0

    @staticmethod
    def alter_offsets(config: Mapping[str, Any], offsets: Offsets) -> bool:
        """Change the outside system and refuse."""
        del config, offsets
        Outside.calls += 1
        raise ValueError("no such table")


def plugins() -> Plugins:
    """A catalogue with this class."""
    return catalogued(more=[described(Outside)])


COMMANDS: list[AnyCommand] = [
    AlterOffsets("orders", FIRST),
    ResetOffsets("orders"),
    CreateConnector("new", {**CONFIG, "name": "new"}, initial_offsets=FIRST),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: type(command).__name__)
async def test_a_hook_is_believed(command: AnyCommand) -> None:
    """The hook is not called; the plan assumes its consent and says so once."""
    Outside.calls = 0
    async with plane_on(MemoryLog(), plugins=plugins()) as plane:
        await plane.execute(CreateConnector("orders", CONFIG, Target.STOPPED))
        plan = await plane.plan(command, believe_hooks=True)
        assert isinstance(plan, Plan)
        message = f"alterOffsets of {__name__}.Outside accepts these offsets; it was not called"
        assert plan.assumed == (message,)
        assert Outside.calls == 0
        assert isinstance(await plane.plan(command), Rejected)
        assert Outside.calls == 1


async def test_kafkas_own_hooks_are_called_in_any_case() -> None:
    """Kafka's own hooks only compute, so the plan calls them and assumes nothing."""
    config = {"connector.class": "FileStreamSource", "file": "f", "topic": "t"}
    async with plane_on(MemoryLog(), plugins=plugins()) as plane:
        await plane.execute(CreateConnector("lines", config, Target.STOPPED))
        decision = await plane.plan(AlterOffsets("lines", FIRST), believe_hooks=True)
        assert isinstance(decision, Rejected)
        right = (OffsetChange({"filename": "f"}, {"position": 1}),)
        plan = await plane.plan(AlterOffsets("lines", right), believe_hooks=True)
        assert isinstance(plan, Plan)
        assert plan.assumed == ()
