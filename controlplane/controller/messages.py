"""Messages for commands that do not end in time, or cannot be written; most are Connect's.

Kafka: `HerderRequestHandler`, `Stage`, `KafkaConfigBackingStore`, `RestartRequest`.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

from controlplane.core import commands
from controlplane.core.commands import AnyCommand
from controlplane.core.decide import CONFIG_NOT_WRITTEN, TASKS_NOT_WRITTEN
from controlplane.core.releases.profiles import Profile
from controlplane.logs.log import Fenced

_WRITING = "writing a config for connector {0.connector} to the config topic"
_REMOVING = "removing the config for connector {0.connector} from the config topic"
_TARGET = "writing a target state for connector {0.connector} to the config topic"
_OFFSETS = "modifying offsets for connector {0.connector}"

_STAGES: Mapping[type, str] = {
    commands.CreateConnector: _WRITING,
    commands.PutConfig: _WRITING,
    commands.PatchConfig: _WRITING,
    commands.DeleteConnector: _REMOVING,
    commands.PauseConnector: _TARGET,
    commands.ResumeConnector: _TARGET,
    commands.StopConnector: _TARGET,
    commands.AlterOffsets: _OFFSETS,
    commands.ResetOffsets: _OFFSETS,
}

FENCED = (
    "Failed to write to config topic; this may be due to a transient error and the request can be "
    "safely retried"
)
"""Message of a leader that another leader has fenced (`PrivilegedWriteException`)."""


def fenced_text(failure: Fenced) -> str:
    """Message of a service that another process has fenced, with the remedy."""
    remedy = "restart it, or send commands to the new writer"
    return f"{failure}. This service only reads from now on: {remedy}"


_TARGET_FAILED = "Error writing target state to Kafka"

_FAILURES: Mapping[type, str] = {
    commands.CreateConnector: CONFIG_NOT_WRITTEN,
    commands.PutConfig: CONFIG_NOT_WRITTEN,
    commands.PatchConfig: CONFIG_NOT_WRITTEN,
    commands.DeleteConnector: "Error removing connector configuration from Kafka",
    commands.PauseConnector: _TARGET_FAILED,
    commands.ResumeConnector: _TARGET_FAILED,
    commands.StopConnector: _TARGET_FAILED,
    commands.PublishTasks: TASKS_NOT_WRITTEN,
    commands.FenceTasks: "Error writing task count record to Kafka",
    commands.SetLoggerLevel: "Error writing logger level to Kafka",
}


def timed_out(command: AnyCommand, profile: Profile, since_ms: int, *, begun: bool) -> str:
    """Message of a timeout; `since_ms`: epoch milliseconds at which the present stage began."""
    if not profile.rest_timeouts_name_stage:
        return "Request timed out"
    stage = _STAGES.get(type(command), "writing to the config topic").format(command)
    if not begun:
        stage = "waiting for earlier requests to be completed"
    instant = datetime.fromtimestamp(since_ms / 1_000, UTC).isoformat(timespec="milliseconds")
    began = instant.replace("+00:00", "Z")
    return f"Request timed out. The worker is currently {stage}, which began at {began}."


def not_written(command: AnyCommand) -> str:
    """Message of an outage during a write. The write may have succeeded, or may succeed later."""
    if isinstance(command, commands.RestartConnector):
        return f"Error writing {_restart_request(command)} to Kafka"
    return _FAILURES.get(type(command), "Error writing to Kafka")


def _restart_request(command: commands.RestartConnector) -> str:
    """Text of a restart request in Java (`RestartRequest#toString`, KIP-745)."""
    only_failed, include_tasks = (
        str(flag).lower() for flag in (command.only_failed, command.include_tasks)
    )
    return (
        f"restart request for {{connectorName='{command.connector}', onlyFailed={only_failed}, "
        f"includeTasks={include_tasks}}}"
    )
