"""What an asker is told when it takes too long: Connect's sentence, with the stage that lasts."""

import pytest

from controlplane.controller.wording import timed_out
from controlplane.core.commands import (
    AlterOffsets,
    AnyCommand,
    CreateConnector,
    DeleteConnector,
    OffsetChange,
    PatchConfig,
    PauseConnector,
    PublishTasks,
    PutConfig,
    ResetOffsets,
    ResumeConnector,
    SetLoggerLevel,
    StopConnector,
)
from tests.controller.scene import NOW_MS

SOURCE = {"connector.class": "lab.Source"}

WRITING = "writing a config for connector orders to the config topic"
TARGET = "writing a target state for connector orders to the config topic"
OFFSETS = "modifying offsets for connector orders"
STAGES: list[tuple[AnyCommand, str]] = [
    (CreateConnector("orders", SOURCE), WRITING),
    (PutConfig("orders", SOURCE), WRITING),
    (PatchConfig("orders", {"a": "b"}), WRITING),
    (DeleteConnector("orders"), "removing the config for connector orders from the config topic"),
    (PauseConnector("orders"), TARGET),
    (ResumeConnector("orders"), TARGET),
    (StopConnector("orders"), TARGET),
    (AlterOffsets("orders", (OffsetChange({"p": 1}, {"row": 1}),)), OFFSETS),
    (ResetOffsets("orders"), OFFSETS),
    (PublishTasks("orders", ()), "writing to the config topic"),
    (SetLoggerLevel("org.apache", "DEBUG"), "writing to the config topic"),
]


@pytest.mark.parametrize(("command", "stage"), STAGES, ids=lambda one: type(one).__name__)
def test_the_stage_is_told(command: AnyCommand, stage: str) -> None:
    """What the worker does that lasts so long, and since when; or that it waits for others."""
    sentence = (
        "Request timed out. The worker is currently {}, which began at 2023-11-14T22:13:20.000Z."
    )
    assert timed_out(command, NOW_MS, begun=True) == sentence.format(stage)
    waiting = "waiting for earlier requests to be completed"
    assert timed_out(command, NOW_MS, begun=False) == sentence.format(waiting)
