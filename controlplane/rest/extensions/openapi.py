"""`GET /openapi.json`: the table of endpoints as an OpenAPI document."""

from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

from controlplane.rest.endpoints.query_parameters import (
    AS_OF,
    DRY_RUN,
    PROFILE,
    parameters,
    path_of,
)
from controlplane.rest.endpoints.router import Endpoint
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

_METRICS = "/metrics"


def document(
    endpoints: Iterable[Endpoint],
    *,
    mount: str = "",
    metrics: bool = False,
    read_only: bool = False,
) -> dict[str, Any]:
    """Return the document. `metrics`: a layer in front of the application serves `/metrics`.

    `mount`: encoded path below which clients reach the endpoints; a root has none.
    `read_only`: commands are answered as a dry run only.
    """
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        path, names = path_of(endpoint.template)
        shown = _operation(endpoint, path, names, only_plans=read_only and endpoint.changes)
        paths.setdefault(path, {})[endpoint.method.lower()] = shown
    if metrics:
        operation = OPERATIONS["GET", _METRICS]
        answers = _answers(operation, "text/plain")
        paths[_METRICS] = {"get": _operation_object(operation, [], answers)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Kafka Connect's control plane",
            "version": version("controlplane"),
            "description": (
                "Connect's REST API, and this service's own endpoints. Beneath /compat/{release} "
                "the service answers as that release of Kafka does."
            ),
        },
        **({"servers": [{"url": mount}]} if mount else {}),
        "paths": paths,
        "components": {"schemas": SCHEMAS},
    }


def _operation(
    endpoint: Endpoint, path: str, names: Iterable[str], *, only_plans: bool
) -> dict[str, Any]:
    operation = OPERATIONS[endpoint.method, path]
    common = (AS_OF if endpoint.method == "GET" else DRY_RUN, PROFILE)
    own = parameters(endpoint.method, endpoint.template)
    in_path = [{"name": name, "in": "path", "required": True, "schema": TEXT} for name in names]
    in_query: list[dict[str, Any]] = [
        {"name": name, "in": "query", "schema": TEXT} for name in (*own, *common)
    ]
    if only_plans:
        operation = operation._replace(answers={})
        in_query = [row | _ONLY_TRUE if row["name"] == DRY_RUN else row for row in in_query]
    has_key = endpoint.changes and not only_plans
    parameter_list = [*in_path, *in_query, *([_KEY] if has_key else [])]
    answers = _answers(operation, endpoint.media_type, plans=endpoint.changes)
    shown = _operation_object(operation, parameter_list, answers)
    if endpoint.reads_body:
        schema = operation.body or ANY
        shown["requestBody"] = {"content": {JSON: {"schema": schema}}}
    return shown


def _operation_object(
    operation: Operation, parameter_list: list[Any], answers: dict[str, Any]
) -> dict[str, Any]:
    """Return OpenAPI's Operation Object of an operation with these parameters."""
    return {
        "operationId": operation.id,
        "summary": operation.summary,
        "parameters": parameter_list,
        "responses": answers,
    }


def _answers(operation: Operation, media: str, *, plans: bool = False) -> dict[str, Any]:
    """Return the answers by status. A command with `dry_run=true` is answered with its plan.

    A command whose usual answer has no body may send the plan under 200 as well.
    """
    bodies = dict(operation.answers)
    if plans:
        schema = bodies.get(OK)
        bodies[OK] = ref("Plan") if schema is None else {"anyOf": [schema, ref("Plan")]}
    answers: dict[str, Any] = {}
    for status, schema in sorted(bodies.items()):
        is_plan = plans and status == OK
        answers[str(status)] = {"description": _PLANNED if is_plan else _MEANING[status]}
        if schema is not None:
            answers[str(status)]["content"] = {media: {"schema": schema}}
    error = {
        "description": "The error, with its reason",
        "content": {JSON: {"schema": ref("Error")}},
    }
    return {**answers, "default": error}


_PLANNED = "The answer; with dry_run=true, the plan of the command"
_MEANING = {
    OK: "The answer",
    CREATED: "Created",
    ACCEPTED: "Accepted; the workers follow",
    NO_CONTENT: "Done",
    INTERNAL_ERROR: "The service failed",
    UNAVAILABLE: "The service is still starting",
}
_ONLY_TRUE = {
    "required": True,
    "schema": {"enum": ["true"]},
    "description": "This service only reads its log: it answers with the plan of a command.",
}
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "schema": TEXT,
    "description": "Requests with the same key get the same outcome; the command runs once.",
}
