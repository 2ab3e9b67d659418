"""Connect's messages for timeouts and failed writes."""

import pytest

from controlplane.controller.messages import not_written, timed_out
from controlplane.core.commands import (
    AlterOffsets,
    AnyCommand,
    CreateConnector,
    DeleteConnector,
    FenceTasks,
    OffsetChange,
    PatchConfig,
    PauseConnector,
    PublishTasks,
    PutConfig,
    ResetOffsets,
    RestartConnector,
    ResumeConnector,
    SetLoggerLevel,
    StopConnector,
)
from controlplane.core.releases.profiles import Profile
from tests.controller.scene import NOW_MS

NEWEST, OLD = Profile.of("3.7"), Profile.of("3.6")
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


@pytest.mark.parametrize(("command", "stage"), STAGES, ids=lambda command: type(command).__name__)
def test_the_timeout_message_names_the_stage(command: AnyCommand, stage: str) -> None:
    """The message names the worker's stage and its start, or the wait for other requests."""
    sentence = (
        "Request timed out. The worker is currently {}, which began at 2023-11-14T22:13:20.000Z."
    )
    assert timed_out(command, NEWEST, NOW_MS, begun=True) == sentence.format(stage)
    waiting = "waiting for earlier requests to be completed"
    assert timed_out(command, NEWEST, NOW_MS, begun=False) == sentence.format(waiting)
    assert timed_out(command, OLD, NOW_MS, begun=True) == "Request timed out"


CONFIG_FAILED = "Error writing connector configuration to Kafka"
TARGET_FAILED = "Error writing target state to Kafka"
RESTART_FAILED = (
    "Error writing restart request for {connectorName='orders', onlyFailed=true, "
    "includeTasks=false} to Kafka"
)
FAILURES: list[tuple[AnyCommand, str]] = [
    (CreateConnector("orders", SOURCE), CONFIG_FAILED),
    (PutConfig("orders", SOURCE), CONFIG_FAILED),
    (PatchConfig("orders", {"a": "b"}), CONFIG_FAILED),
    (DeleteConnector("orders"), "Error removing connector configuration from Kafka"),
    (PauseConnector("orders"), TARGET_FAILED),
    (ResumeConnector("orders"), TARGET_FAILED),
    (StopConnector("orders"), TARGET_FAILED),
    (RestartConnector("orders", only_failed=True), RESTART_FAILED),
    (PublishTasks("orders", ()), "Error writing task configurations to Kafka"),
    (FenceTasks("orders"), "Error writing task count record to Kafka"),
    (SetLoggerLevel("org.apache", "DEBUG"), "Error writing logger level to Kafka"),
]


@pytest.mark.parametrize(
    ("command", "message"), FAILURES, ids=lambda command: type(command).__name__
)
def test_failed_writes_are_named(command: AnyCommand, message: str) -> None:
    """The message is that of the store that writes the record (`KafkaConfigBackingStore`)."""
    assert not_written(command) == message
