"""Kafka's own OpenAPI descriptions of its REST API, checked against each `/compat/{release}`.

Schemathesis generates valid and invalid requests from a description and sends them over a socket.
Answers must have the described types and shape. A request that Kafka's servers cannot parse gets
their 500, with a complete answer.
"""

import asyncio
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
)

from tests.conftest import PROVE, examples, sampled
from tests.patience import PATIENCE_S
from tests.rest.openapi import kafkas_description
from tests.rest.running_plane import SINK, SOURCE, running_plane_of

RELEASES = ("3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9")
EXAMPLES = examples(6, proved=10)
"""Requests for each operation and mode; in `make test`, the same in every run."""

FILES = {"/in.txt": ["one", "two"]}
CONNECTORS = {
    "source": {"connector.class": SOURCE, "topic": "t", "file": "/in.txt"},
    "sink": {"connector.class": SINK, "topics": "t", "file": "/out.txt"},
    "größe/ü %": {"connector.class": SOURCE, "topic": "u", "file": "/in.txt"},
}

SchemaCase = schemathesis.Case[Any]
Amend = Callable[[dict[str, Any]], None]


def _nullable(schema: str, name: str) -> Amend:
    def amend(schemas: dict[str, Any]) -> None:
        described = schemas[schema]["properties"][name]
        schemas[schema]["properties"][name] = {"nullable": True, "allOf": [described]}

    return amend


def _of_any_type(schema: str, name: str) -> Amend:
    def amend(schemas: dict[str, Any]) -> None:
        schemas.get(schema, {"properties": {name: {}}})["properties"][name] = {"type": "object"}

    return amend


AMENDED: tuple[tuple[Amend, str], ...] = (
    (_nullable("ServerInfo", "kafka_cluster_id"), "a log in memory has no cluster id"),
    (_nullable("ConfigKeyInfo", "default_value"), "null where there is no default"),
    (_nullable("ConfigValueInfo", "value"), "null where there is no value"),
    (_nullable("ConfigInfo", "definition"), "null for a key that nobody has defined"),
    (
        _of_any_type("ConnectorOffset", "partition"),
        "numbers and texts occur; the description has objects only",
    ),
    (_of_any_type("ConnectorOffset", "offset"), "numbers and texts occur, as in the partition"),
)
"""Deviations from Kafka's description, with reasons; workers share all but the first."""


def described(file: Path) -> schemathesis.BaseSchema:
    """Kafka's description of a release, with its errors corrected."""
    document = yaml.safe_load(file.read_text(encoding="utf-8"))
    for amend, _ in AMENDED:
        amend(document["components"]["schemas"])
    return schemathesis.openapi.from_dict(document)


@pytest.mark.shared
@pytest.mark.parametrize("release", sampled(RELEASES, "3.9"))
async def test_answers_are_as_described(release: str, shared: Path) -> None:
    """Every operation conforms to the description, for valid and invalid requests."""
    schema = described(kafkas_description(shared, release))
    async with running_plane_of(release, files=FILES) as world:
        await asyncio.to_thread(_create, world.url)
        await world.settle()
        statuses = await asyncio.to_thread(_ask_everything, schema, world.url)
    assert {HTTPStatus.OK, HTTPStatus.CREATED, HTTPStatus.NOT_FOUND} <= statuses


def _create(url: str) -> None:
    for name, config in CONNECTORS.items():
        body: Any = {"name": name, "config": config}
        requests.post(f"{url}/connectors", json=body, timeout=PATIENCE_S).raise_for_status()


def _ask_everything(schema: schemathesis.BaseSchema, url: str) -> set[int]:
    """Send all requests, deletions last; return the statuses that occurred."""
    statuses: set[int] = set()
    with requests.Session() as session:

        def ask(case: SchemaCase) -> None:
            answer = case.call(base_url=url, session=session, timeout=PATIENCE_S)
            statuses.add(answer.status_code)
            _check(case, answer)

        operations = [
            result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)
        ]
        for operation in sorted(operations, key=lambda operation: operation.method == "delete"):
            for cases in _drawn(operation):
                _for_each(cases, ask)
    return statuses


def _drawn(
    operation: schemathesis.APIOperation[Any, Any, Any, Any],
) -> Iterator[st.SearchStrategy[SchemaCase]]:
    """Valid requests, and invalid ones if there is a body; most name existing connectors."""
    names = st.sampled_from([None, *CONNECTORS])
    yield st.builds(_with_connector, operation.as_strategy(), names)
    if operation.path.endswith("/connectors") or "/config" in operation.path:
        yield st.builds(_with_connector, operation.as_strategy().map(_configured), names)
    if len(operation.body):
        wrong = operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)
        yield st.builds(_with_connector, wrong, names)


def _with_connector(case: SchemaCase, name: str | None) -> SchemaCase:
    if name is not None and "connector" in case.path_parameters:
        case.path_parameters["connector"] = name
    return case


def _configured(case: SchemaCase) -> SchemaCase:
    """Return a request whose valid config includes the generated keys."""
    body: Any = case.body
    match body:
        case {"config": dict(drawn)}:
            case.body = body | {"config": drawn | CONNECTORS["source"]}
        case dict():
            case.body = body | CONNECTORS["source"]
    return case


def _for_each(cases: st.SearchStrategy[SchemaCase], ask: Callable[[SchemaCase], None]) -> None:
    bounded = settings(
        max_examples=EXAMPLES,
        derandomize=not PROVE,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    bounded(given(cases)(ask))()


def _check(case: SchemaCase, answer: schemathesis.Response) -> None:
    """Check that an answer is as described, or one of Connect's errors."""
    if answer.status_code < HTTPStatus.BAD_REQUEST:
        if answer.content:
            checks = [content_type_conformance, response_schema_conformance]
            case.validate_response(answer, checks=checks)
        return
    kind = answer.headers.get("content-type", ["application/json"])[0]
    if kind != "application/json":  # the server's own page about a path that it cannot read
        assert (answer.status_code, kind) == (
            HTTPStatus.BAD_REQUEST,
            "text/html;charset=iso-8859-1",
        )
    elif answer.content:
        error = answer.json()
        assert set(error) == {"error_code", "message"}
        assert error["error_code"] == answer.status_code
