"""`GET /openapi.json`: the table of endpoints as an OpenAPI document."""

from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

from controlplane.rest.endpoints.query_parameters import parameters
from controlplane.rest.endpoints.table import Endpoint
from controlplane.rest.errors import (
    ACCEPTED,
    CREATED,
    INTERNAL_ERROR,
    JSON,
    NO_CONTENT,
    OK,
    UNAVAILABLE,
)
from controlplane.rest.extensions.operations import OPERATIONS, Operation
from controlplane.rest.extensions.schemas import ANY, SCHEMAS, TEXT, ref
from controlplane.rest.http.request_targets import path_of

_METRICS = "/metrics"


def described(endpoints: Iterable[Endpoint], *, metrics: bool = False) -> dict[str, Any]:
    """Return the document. `metrics`: a layer in front of the application serves `/metrics`."""
    paths: dict[str, dict[str, Any]] = {}
    for one in endpoints:
        path, names = path_of(one.template)
        paths.setdefault(path, {})[one.method.lower()] = _operation(one, path, names)
    if metrics:
        told = OPERATIONS["GET", _METRICS]
        paths[_METRICS] = {"get": _told(told, [], _answers(told, "text/plain"))}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Kafka Connect's control plane",
            "version": version("controlplane"),
            "description": (
                "Connect's REST API as the KIPs have it. Beneath /compat/{release} the same is "
                "answered as that release of Kafka does."
            ),
        },
        "paths": paths,
        "components": {"schemas": SCHEMAS},
    }


def _operation(one: Endpoint, path: str, names: Iterable[str]) -> dict[str, Any]:
    operation = OPERATIONS[one.method, path]
    usual = ("as_of" if one.method == "GET" else "dry_run", "profile")
    own = parameters(one.method, one.template)
    in_path = [{"name": name, "in": "path", "required": True, "schema": TEXT} for name in names]
    in_query = [{"name": name, "in": "query", "schema": TEXT} for name in (*own, *usual)]
    answers = _answers(operation, one.takes, plans=one.changes)
    asked = [*in_path, *in_query, *([_KEY] if one.changes else [])]
    told = _told(operation, asked, answers)
    if one.reads_body:
        schema = operation.body or ANY
        told["requestBody"] = {"content": {JSON: {"schema": schema}}}
    return told


def _told(operation: Operation, asked: list[Any], answers: dict[str, Any]) -> dict[str, Any]:
    return {
        "operationId": operation.id,
        "summary": operation.summary,
        "parameters": asked,
        "responses": answers,
    }


def _answers(operation: Operation, media: str, *, plans: bool = False) -> dict[str, Any]:
    """Return the answers by status. A command with `dry_run=true` is answered with its plan.

    A command whose usual answer has no body may send the plan under 200 as well.
    """
    bodies = dict(operation.answers)
    if plans:
        usual = bodies.get(OK)
        bodies[OK] = ref("Plan") if usual is None else {"anyOf": [usual, ref("Plan")]}
    told: dict[str, Any] = {}
    for status, schema in sorted(bodies.items()):
        is_plan = plans and status == OK
        told[str(status)] = {"description": _PLANNED if is_plan else _MEANING[status]}
        if schema is not None:
            told[str(status)]["content"] = {media: {"schema": schema}}
    error = {
        "description": "The error, with its reason",
        "content": {JSON: {"schema": ref("Error")}},
    }
    return {**told, "default": error}


_PLANNED = "The answer; with dry_run=true the plan of the command"
_MEANING = {
    OK: "The answer",
    CREATED: "Created",
    ACCEPTED: "Accepted; the workers follow",
    NO_CONTENT: "Done",
    INTERNAL_ERROR: "The service cannot do its work",
    UNAVAILABLE: "The service is still starting",
}
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "schema": TEXT,
    "description": "The same key again gets the same outcome; the command is carried out once.",
}
