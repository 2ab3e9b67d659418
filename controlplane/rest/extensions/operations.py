"""Operations of `GET /openapi.json`: ids, summaries, bodies and answers."""

from collections.abc import Mapping
from typing import NamedTuple

from controlplane.rest.errors import (
    ACCEPTED,
    CREATED,
    INTERNAL_ERROR,
    NO_CONTENT,
    OK,
    UNAVAILABLE,
)
from controlplane.rest.extensions.schemas import MAP, TEXT, JsonSchema, listed, mapped, ref

Answers = Mapping[int, JsonSchema | None]
"""Schema of the body by status; None: there is no body."""

_NOTHING: Answers = {NO_CONTENT: None}
_ACCEPTED: Answers = {ACCEPTED: None}
_WRITTEN: Answers = {OK: ref("Connector"), CREATED: ref("Connector")}


class Operation(NamedTuple):
    """An operation of the document, without its path and its parameters."""

    id: str
    summary: str
    answers: Answers
    body: JsonSchema | None = None


def _read(name: str, summary: str, schema: JsonSchema) -> Operation:
    return Operation(name, summary, {OK: schema})


_C = "/connectors/{connector}"

OPERATIONS: Mapping[tuple[str, str], Operation] = {
    ("GET", "/"): _read("getServer", "The release and the cluster", ref("Server")),
    ("GET", "/health"): Operation(
        "getHealth",
        "Health of this worker (KIP-1017)",
        {OK: ref("Health"), INTERNAL_ERROR: ref("Health"), UNAVAILABLE: ref("Health")},
    ),
    ("GET", "/metrics"): _read("getMetrics", "Metrics for Prometheus", TEXT),
    ("GET", "/connectors"): _read(
        "listConnectors",
        "The connectors; expand=status and expand=info add details",
        ref("Connectors"),
    ),
    ("POST", "/connectors"): Operation(
        "createConnector",
        "Create a connector, with state and offsets (KIP-980, KIP-995)",
        _WRITTEN,
        ref("Creation"),
    ),
    ("GET", _C): _read("getConnector", "A connector with its config and tasks", ref("Connector")),
    ("DELETE", _C): Operation("deleteConnector", "Delete a connector; its offsets stay", _NOTHING),
    ("GET", f"{_C}/config"): _read("getConfig", "The config of a connector", ref("Config")),
    ("PUT", f"{_C}/config"): Operation(
        "putConfig",
        "Write a config; create the connector if it is missing",
        _WRITTEN,
        ref("Config"),
    ),
    ("PATCH", f"{_C}/config"): Operation(
        "patchConfig",
        "Change some keys of a config (KIP-477)",
        {OK: ref("Connector")},
        ref("Config"),
    ),
    ("GET", f"{_C}/status"): _read(
        "getStatus", "The reported status of a connector and its tasks", ref("Status")
    ),
    ("GET", f"{_C}/tasks"): _read("listTasks", "The tasks with their configs", listed(ref("Task"))),
    ("GET", f"{_C}/tasks-config"): _read(
        "getTaskConfigs", "The configs of all tasks, by task", ref("TaskConfigs")
    ),
    ("GET", f"{_C}/tasks/{{task}}/status"): _read(
        "getTaskStatus", "The reported status of one task", ref("TaskStatus")
    ),
    ("POST", f"{_C}/tasks/{{task}}/restart"): Operation(
        "restartTask", "Restart one task", _NOTHING
    ),
    ("POST", f"{_C}/tasks"): Operation(
        "publishTasks",
        "Publish task configs; a request among workers",
        _NOTHING,
        listed(ref("Config")),
    ),
    ("PUT", f"{_C}/fence"): Operation(
        "fenceTasks", "Fence older tasks; a request among workers (KIP-618)", _NOTHING
    ),
    ("GET", f"{_C}/offsets"): _read(
        "getOffsets", "The committed offsets of a connector (KIP-875)", ref("Offsets")
    ),
    ("PATCH", f"{_C}/offsets"): Operation(
        "alterOffsets",
        "Alter offsets of a stopped connector (KIP-875)",
        {OK: ref("Message")},
        ref("Offsets"),
    ),
    ("DELETE", f"{_C}/offsets"): Operation(
        "resetOffsets",
        "Reset all offsets of a stopped connector",
        {OK: ref("Message"), NO_CONTENT: None},
    ),
    ("GET", f"{_C}/topics"): _read(
        "getTopics", "Topics that a connector has used (KIP-558)", ref("Topics")
    ),
    ("PUT", f"{_C}/topics/reset"): Operation(
        "resetTopics", "Forget the topics that a connector has used", {OK: None, ACCEPTED: None}
    ),
    ("PUT", f"{_C}/pause"): Operation("pauseConnector", "Pause a connector (KIP-52)", _ACCEPTED),
    ("PUT", f"{_C}/resume"): Operation("resumeConnector", "Resume a connector (KIP-52)", _ACCEPTED),
    ("PUT", f"{_C}/stop"): Operation(
        "stopConnector", "Stop a connector: it gives up its tasks (KIP-875)", _NOTHING
    ),
    ("POST", f"{_C}/restart"): Operation(
        "restartConnector",
        "Restart a connector; includeTasks=true: with its tasks (KIP-745)",
        {ACCEPTED: ref("Status"), NO_CONTENT: None},
    ),
    ("POST", f"{_C}/undo"): Operation(
        "undo", "Restore a connector as of to=MOMENT", {**_NOTHING, OK: ref("Connector")}
    ),
    ("GET", f"{_C}/history"): _read(
        "getHistory", "Every change of a connector, with its record", ref("History")
    ),
    ("GET", f"{_C}/progress"): _read(
        "getProgress",
        "Lag of a sink's consumer group, or the last change of each source offset",
        ref("Progress"),
    ),
    ("GET", "/diff"): _read(
        "getDifferences",
        "Differences between from=MOMENT and as_of=MOMENT, fact by fact",
        ref("Differences"),
    ),
    ("GET", "/targets"): _read(
        "listTargets", "Requested target states of the connectors, reached or not", ref("Targets")
    ),
    ("GET", "/commands"): _read(
        "listCommands", "Audit trail: caller, command, time and outcome", ref("Commands")
    ),
    ("GET", "/watch"): _read("watch", "Changes as they happen, as server-sent events", TEXT),
    ("GET", "/openapi.json"): _read("getOpenApi", "This document", MAP),
    ("GET", "/connector-plugins"): _read(
        "listPlugins", "The available plugins", listed(ref("Plugin"))
    ),
    ("GET", "/connector-plugins/{plugin}/config"): _read(
        "getPluginConfig", "The keys that a plugin defines (KIP-769)", listed(ref("Key"))
    ),
    ("PUT", "/connector-plugins/{plugin}/config/validate"): Operation(
        "validateConfig",
        "Validate a config",
        {OK: ref("Validation")},
        ref("Config"),
    ),
    ("GET", "/admin/loggers"): _read(
        "listLoggers", "The loggers and their levels (KIP-495)", mapped(ref("Logger"))
    ),
    ("GET", "/admin/loggers/{logger}"): _read("getLogger", "The level of a logger", ref("Logger")),
    ("PUT", "/admin/loggers/{logger}"): Operation(
        "setLogger",
        "Set the level of a logger; scope=cluster: on all workers (KIP-976)",
        {OK: {"anyOf": [listed(TEXT), ref("Plan")]}, NO_CONTENT: None},
        ref("Level"),
    ),
}
"""Operations by method and path."""
