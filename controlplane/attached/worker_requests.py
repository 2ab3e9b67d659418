"""Requests of Connect's REST API for commands: the inverse of `rest.endpoints.command_requests`."""

from collections.abc import Mapping
from typing import Any

from controlplane.attached.connect_client import ConnectRequest
from controlplane.core import commands
from controlplane.core.commands import AnyCommand, OffsetChange
from controlplane.core.java import json_codec
from controlplane.core.plan import Reason, Rejected
from controlplane.rest.endpoints.entities import TARGETS
from controlplane.worker_api import PATH_MAX, connector_path

_TARGETING: Mapping[type, str] = {
    commands.PauseConnector: "pause",
    commands.ResumeConnector: "resume",
    commands.StopConnector: "stop",
    commands.ResetTopics: "topics/reset",
}
"""Last part of the path of commands without a body, all sent with PUT."""


_NO_PATH = (
    "The name of the connector or of its class cannot be part of a worker's URL: "
    "it is too long, or contains half a surrogate pair"
)


def request_of(command: AnyCommand) -> ConnectRequest | None:
    """Request of a command; None: no single request does it, or only workers send it."""
    match command:
        case commands.SetLoggerLevel(namespace=namespace, level=level):
            path = connector_path(namespace).replace("/connectors/", "/admin/loggers/", 1)
            return ConnectRequest("PUT", path, {"scope": "cluster"}, _json({"level": level}))
        case commands.CreateConnector():
            return ConnectRequest("POST", "/connectors", body=_json(_creation(command)))
        case commands.PutConfig(connector=name, config=config):
            return ConnectRequest("PUT", connector_path(name, "config"), body=_json(config))
        case commands.PatchConfig(connector=name, patch=patch):
            return ConnectRequest("PATCH", connector_path(name, "config"), body=_json(patch))
        case commands.DeleteConnector(connector=name):
            return ConnectRequest("DELETE", connector_path(name))
        case commands.RestartConnector(connector=name):
            return ConnectRequest("POST", connector_path(name, "restart"), _flags(command))
        case commands.RestartTask(connector=name, task=task):
            return ConnectRequest("POST", connector_path(name, "tasks", str(task), "restart"))
        case commands.AlterOffsets(connector=name, offsets=offsets):
            body = _json({"offsets": [_offset(change) for change in offsets]})
            return ConnectRequest("PATCH", connector_path(name, "offsets"), body=body)
        case commands.ResetOffsets(connector=name):
            return ConnectRequest("DELETE", connector_path(name, "offsets"))
    part = _TARGETING.get(type(command))
    if part is None:
        return None
    return ConnectRequest("PUT", connector_path(command.connector, part))


def validation_request(connector_class: str, config: commands.Config) -> ConnectRequest:
    """Request that validates a config with the classes of the cluster."""
    path = connector_path(connector_class, "config", "validate")
    path = path.replace("/connectors/", "/connector-plugins/", 1)
    return ConnectRequest("PUT", path, body=_json(config))


def path_refusal(command: AnyCommand) -> Rejected | None:
    """Return the refusal of a command whose requests cannot name its connector; else None.

    A creation without offsets has the name in its body, so a worker decides about it.
    """
    match command:
        case commands.CreateConnector(initial_offsets=None):
            return None
        case commands.ConnectorCommand(connector=name):
            return name_refusal(name)
    return None


def name_refusal(name: str) -> Rejected | None:
    """Return the refusal of a name that cannot be part of a worker's URL; None: it can be."""
    try:
        is_short = len(connector_path(name)) <= PATH_MAX
    except UnicodeEncodeError:
        is_short = False
    return None if is_short else Rejected(Reason.INVALID, _NO_PATH)


def _creation(command: commands.CreateConnector) -> dict[str, Any]:
    body: dict[str, Any] = {"name": command.connector, "config": command.config}
    if command.initial_state is not None:
        body["initial_state"] = TARGETS[command.initial_state]
    return body


def _flags(command: commands.RestartConnector) -> dict[str, str]:
    """Query parameters that are true (KIP-745); false is the default, and left out."""
    flags = {"includeTasks": command.include_tasks, "onlyFailed": command.only_failed}
    return {name: "true" for name, is_set in flags.items() if is_set}


def _offset(change: OffsetChange) -> dict[str, Any]:
    return {"partition": change.partition, "offset": change.offset}


def _json(value: Any) -> bytes:
    return json_codec.encode(value)
