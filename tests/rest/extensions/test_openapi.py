"""`GET /openapi.json`: a public validator accepts it, and real answers conform to it."""

from importlib.metadata import version
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import validate

from controlplane.core.releases.profiles import PROFILES, Profile
from controlplane.observe import silent
from controlplane.rest.app import App
from controlplane.rest.middleware_stack import MiddlewareStack
from controlplane.rest.security.middleware import Protection
from controlplane.settings import Configuration
from tests.rest.served_history import client_of
from tests.rest.settled_cluster import at_rest

pytestmark = pytest.mark.slow

ENDLESS = "/watch"
OPEN = {"connector": "orders", "task": "0", "plugin": "FileStreamSource", "logger": "root"}
QUERIES = {"/diff": "?from=config@0", "/connectors/{connector}/history": "?records=true"}
OFFSETS = {"offsets": [{"partition": {"filename": "/in.txt"}, "offset": {"position": 7}}]}


async def document(client: httpx.AsyncClient, **query: str) -> dict[str, Any]:
    """Return the OpenAPI document of a service."""
    answered = await client.get("/openapi.json", params=query)
    assert answered.status_code == httpx.codes.OK
    openapi: dict[str, Any] = answered.json()
    return openapi


def operations(openapi: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all operations of an OpenAPI document."""
    return [operation for path in openapi["paths"].values() for operation in path.values()]


def faults(
    openapi: dict[str, Any], operation: dict[str, Any], answered: httpx.Response
) -> list[str]:
    """Contradictions between an answer and its description."""
    responses = operation["responses"]
    response = responses.get(str(answered.status_code), responses["default"])
    if not answered.content:
        # The body that is described for a command without a body is that of its dry run.
        names = {parameter["name"] for parameter in operation.get("parameters", ())}
        is_of_dry_run = "dry_run" in names and "requestBody" not in operation
        is_plain = "content" not in response or is_of_dry_run
        return [] if is_plain else ["no body where one is described"]
    if "content" not in response:
        return ["a body where none is described"]
    schema = response["content"]["application/json"]["schema"]
    validator = OAS31Validator({**schema, "components": openapi["components"]})
    return [
        f"{error.json_path}: {error.message}" for error in validator.iter_errors(answered.json())
    ]


@pytest.mark.parametrize(
    "release", ["kip", *sorted({profile.release for profile in PROFILES})[::8]]
)
async def test_a_public_validator_accepts_the_document_of_every_release(release: str) -> None:
    """Each operation has a unique id and describes its answers."""
    async with at_rest() as scene:
        openapi = await document(scene.client, profile=release)
    validate(openapi)
    ids = [operation["operationId"] for operation in operations(openapi)]
    assert len(ids) == len({*ids})
    assert all(len(operation["responses"]) > 1 for operation in operations(openapi))
    assert openapi["info"]["version"] == version("controlplane")
    assert "servers" not in openapi  # the paths begin at the root
    assert ("/health" in openapi["paths"]) is Profile.of(release).rest_health


async def test_a_document_below_a_mount_names_it() -> None:
    """Clients that are generated from the document call paths below the mount."""
    async with at_rest() as scene:
        transport = httpx.ASGITransport(scene.plane.app, root_path="/connect")
        async with httpx.AsyncClient(transport=transport, base_url="http://[::1]") as client:
            openapi = await document(client)
    validate(openapi)
    assert openapi["servers"] == [{"url": "/connect"}]


async def test_metrics_are_described_where_they_are_served() -> None:
    """The service describes metrics; an application without a server has none."""
    async with at_rest() as scene:
        assert "/metrics" not in (await document(scene.client))["paths"]
        protection = Protection.from_configuration(Configuration(), Configuration())
        front = MiddlewareStack(protection, Profile.of("kip"), silent())
        transport = httpx.ASGITransport(front.application(scene.plane.service))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            openapi = await document(client)
            validate(openapi)
            assert openapi["paths"]["/metrics"]["get"]["operationId"] == "getMetrics"
            assert (await client.get("/metrics")).status_code == httpx.codes.OK


@pytest.mark.parametrize("release", ["kip", "2.8", "3.9", "4.3"])
async def test_answers_keep_to_their_schemas(release: str) -> None:
    """Every endpoint for reading answers as described."""
    async with at_rest() as scene:
        await scene.client.put("/connectors/nobody/pause")
        openapi = await document(scene.client, profile=release)
        reads = {
            path: methods["get"] for path, methods in openapi["paths"].items() if "get" in methods
        }
        for path in reads.keys() - {ENDLESS}:
            for connector in ("orders", "sink", "copies", "nobody"):
                target = path.format(**OPEN | {"connector": quote(connector)})
                query = QUERIES.get(path, "")
                query += f"{'&' if query else '?'}profile={release}"
                answered = await scene.client.get(f"{target}{query}")
                assert faults(openapi, reads[path], answered) == [], target
        expanded = await scene.client.get("/connectors?expand=info&expand=status")
        assert faults(openapi, reads["/connectors"], expanded) == []


CHANGES: tuple[tuple[str, str, Any], ...] = (
    ("POST", "/connectors", {"name": "new", "config": {"connector.class": "FileStreamSource"}}),
    ("PUT", "/connectors/{connector}/pause", None),
    ("PUT", "/connectors/{connector}/resume", None),
    ("PATCH", "/connectors/{connector}/config", {"batch.size": "5"}),
    ("POST", "/connectors/{connector}/restart", None),
    ("PUT", "/connectors/{connector}/stop", None),
    ("PATCH", "/connectors/{connector}/offsets", OFFSETS),
    ("DELETE", "/connectors/{connector}/offsets", None),
    ("PUT", "/connectors/{connector}/topics/reset", None),
    ("PUT", "/admin/loggers/{logger}", {"level": "INFO"}),
    ("DELETE", "/connectors/{connector}", None),
)


@pytest.mark.parametrize("dry", [True, False])
async def test_answers_of_commands_keep_to_their_schemas(*, dry: bool) -> None:
    """Answers fit the OpenAPI document, for a command that is done and for a dry run."""
    async with at_rest() as scene:
        openapi = await document(scene.client)
        for method, path, body in CHANGES:
            target = path.format(**OPEN) + ("?dry_run=true" if dry else "")
            answered = await scene.client.request(method, target, json=body)
            operation = openapi["paths"][path][method.lower()]
            assert faults(openapi, operation, answered) == [], (target, answered.text)


async def test_a_read_only_service_describes_dry_runs() -> None:
    """A read-only service that plans lists every command, with `dry_run=true` as required."""
    async with at_rest() as scene:
        service = scene.plane.service._replace(commands=None)
        async with client_of(App(service)) as client:
            assert "/connectors/{connector}/pause" not in (await document(client))["paths"]
        async with client_of(App(service._replace(planner=scene.plane))) as client:
            openapi = await document(client)
            validate(openapi)
            assert openapi["paths"].keys() == (await document(scene.client))["paths"].keys()
            for method, path, body in CHANGES:
                operation = openapi["paths"][path][method.lower()]
                if path.startswith("/connectors"):
                    names = {row["name"] for row in operation["parameters"] if row.get("required")}
                    assert "dry_run" in names
                    assert operation["responses"].keys() == {"200", "default"}
                target = path.format(**OPEN) + "?dry_run=true"
                answered = await client.request(method, target, json=body)
                assert faults(openapi, operation, answered) == [], (target, answered.text)
