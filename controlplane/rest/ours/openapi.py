"""`GET /openapi.json`: every endpoint as OpenAPI tells of them, made from the table of routes."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from controlplane.rest.queries import parameters


class Described(Protocol):
    """What is told of an endpoint."""

    @property
    def method(self) -> str:
        """By which it is asked."""
        ...

    @property
    def template(self) -> tuple[str, ...]:
        """Its path; `{}` is open."""
        ...

    @property
    def takes(self) -> str:
        """The type of what it answers."""
        ...

    @property
    def reads_body(self) -> bool:
        """Whether it is sent something."""
        ...

    @property
    def changes(self) -> bool:
        """Whether it does something."""
        ...


_OPEN = {
    "connectors": "connector",
    "tasks": "task",
    "loggers": "logger",
    "connector-plugins": "plugin",
}
"""What an open segment holds, by the segment in front of it."""

_SUMMARIES: Mapping[tuple[str, str], str] = {
    ("GET", "/"): "The release and the cluster",
    ("GET", "/health"): "Whether this worker can answer (KIP-1017)",
    ("GET", "/connectors"): "The connectors; expand=status and expand=info tell more",
    ("POST", "/connectors"): "Create a connector, with state and offsets (KIP-980, KIP-995)",
    ("GET", "/connectors/{connector}"): "A connector with its config and tasks",
    ("DELETE", "/connectors/{connector}"): "Delete a connector; its offsets stay",
    ("GET", "/connectors/{connector}/config"): "The config of a connector",
    ("PUT", "/connectors/{connector}/config"): "Write a config, and create what is not there",
    ("PATCH", "/connectors/{connector}/config"): "Change some keys of a config (KIP-477)",
    ("GET", "/connectors/{connector}/status"): "What is reported of a connector and its tasks",
    ("GET", "/connectors/{connector}/tasks"): "The tasks with their configs",
    ("GET", "/connectors/{connector}/offsets"): "How far a connector has come (KIP-875)",
    ("PATCH", "/connectors/{connector}/offsets"): "Alter offsets of a stopped connector (KIP-875)",
    ("DELETE", "/connectors/{connector}/offsets"): "Reset all offsets of a stopped connector",
    ("GET", "/connectors/{connector}/topics"): "Topics that a connector has used (KIP-558)",
    ("PUT", "/connectors/{connector}/topics/reset"): "Forget which topics it has used",
    ("PUT", "/connectors/{connector}/pause"): "Pause a connector (KIP-52)",
    ("PUT", "/connectors/{connector}/resume"): "Let it run",
    ("PUT", "/connectors/{connector}/stop"): "Stop it: it gives up its tasks (KIP-875)",
    ("POST", "/connectors/{connector}/restart"): "Restart it, with its tasks if asked (KIP-745)",
    ("POST", "/connectors/{connector}/undo"): "Put it back as it was at to=MOMENT",
    ("GET", "/connectors/{connector}/history"): "Every change of a connector, with its record",
    ("GET", "/diff"): "What differs between from=MOMENT and as_of=MOMENT, fact by fact",
    ("GET", "/targets"): "What connectors were told to be, reported or not",
    ("GET", "/commands"): "Who asked for what, when, and what became of it",
    ("GET", "/watch"): "Changes as they happen, as server-sent events",
    ("GET", "/openapi.json"): "This",
    ("GET", "/metrics"): "Metrics for Prometheus",
}


def described(endpoints: Iterable[Described]) -> dict[str, Any]:
    """The document."""
    paths: dict[str, dict[str, Any]] = {}
    for one in endpoints:
        path, names = _path(one.template)
        paths.setdefault(path, {})[one.method.lower()] = _operation(one, path, names)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Kafka Connect's control plane",
            "version": "1",
            "description": (
                "Connect's REST API as the KIPs have it. Beneath /compat/{release} the same is "
                "answered as that release of Kafka does."
            ),
        },
        "paths": paths,
        "components": {"schemas": {"Error": _ERROR}},
    }


_ERROR = {
    "type": "object",
    "required": ["error_code", "message"],
    "properties": {
        "error_code": {"type": "integer"},
        "message": {"type": ["string", "null"]},
    },
}


def _path(template: tuple[str, ...]) -> tuple[str, list[str]]:
    """The path with names for what is open, and these names."""
    names: list[str] = []
    parts: list[str] = []
    for before, part in zip(("", *template), template, strict=False):
        if part == "{}":
            names.append(_OPEN.get(before, "name"))
            parts.append(f"{{{names[-1]}}}")
        else:
            parts.append(part)
    return "/" + "/".join(parts), names


def _operation(one: Described, path: str, names: Iterable[str]) -> dict[str, Any]:
    place = one.method, path
    usual = ("as_of" if one.method == "GET" else "dry_run", "profile")
    told: dict[str, Any] = {
        "summary": _SUMMARIES.get(place, f"{one.method} {path}"),
        "parameters": [
            *({"name": name, "in": "path", "required": True, "schema": _TEXT} for name in names),
            *(
                {"name": name, "in": "query", "schema": _TEXT}
                for name in parameters(one.method, one.template)
            ),
            *({"name": name, "in": "query", "schema": _TEXT} for name in usual),
            *([_KEY] if one.changes else []),
        ],
        "responses": {
            "2XX": {"description": "It is so", "content": {one.takes: {}}},
            "default": {
                "description": "Why not",
                "content": {"application/json": {"schema": _ERROR_REFERENCE}},
            },
        },
    }
    if one.reads_body:
        told["requestBody"] = {"content": {"application/json": {}}}
    return told


_TEXT = {"type": "string"}
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "schema": _TEXT,
    "description": "The same key again gets the same outcome; the command is carried out once.",
}
_ERROR_REFERENCE = {"$ref": "#/components/schemas/Error"}
