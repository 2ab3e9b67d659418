"""`dry_run=true`: every changing request shows its plan and changes nothing."""

import hmac
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx
import pytest

from controlplane.core.context import Context, DecisionSettings
from controlplane.core.releases.profiles import Profile
from controlplane.logger_levels import Loggers
from controlplane.projection.change_feed import ChangeFeed
from controlplane.projection.follower import Follower
from controlplane.read_only.read_only_service import ReadOnlyPlanner
from controlplane.rest.app import App
from controlplane.rest.endpoints.router import ENDPOINTS, find
from controlplane.rest.service import compose
from tests.rest.probes.runtime import KEY
from tests.rest.running_plane import JSON
from tests.rest.served_history import catalogue, client_of
from tests.rest.settled_cluster import FILE, Scene, at_rest


class DryRunCase(NamedTuple):
    """A request, and the expected plan: keys of records, or kinds of actions."""

    method: str
    path: str
    does: list[str]
    body: Any = None
    query: Mapping[str, str] = {}


_SOURCE_OFFSETS = {"offsets": [{"partition": {"filename": "a.txt"}, "offset": {"position": 3}}]}
_SINK_OFFSETS = {
    "offsets": [
        {
            "partition": {"kafka_topic": "lines", "kafka_partition": 0},
            "offset": {"kafka_offset": 1},
        }
    ]
}
_OFFSET = '["copies",{"filename":"a.txt"}]'

CASES = (
    DryRunCase("POST", "connectors", ["connector-new"], {"name": "new", "config": FILE}),
    DryRunCase("PUT", "connectors/orders/config", ["connector-orders"], FILE),
    DryRunCase("PATCH", "connectors/orders/config", ["connector-orders"], {"topic": "rows"}),
    DryRunCase("DELETE", "connectors/orders", ["connector-orders", "target-state-orders"]),
    DryRunCase("PUT", "connectors/orders/pause", ["target-state-orders"]),
    DryRunCase("PUT", "connectors/copies/resume", ["target-state-copies"]),
    DryRunCase("PUT", "connectors/orders/stop", ["commit-orders", "target-state-orders"]),
    DryRunCase("POST", "connectors/orders/restart", ["restart-instances"]),
    DryRunCase(
        "POST",
        "connectors/orders/restart",
        ["restart-connector-orders"],
        query={"includeTasks": "true"},
    ),
    DryRunCase("POST", "connectors/orders/tasks/0/restart", ["restart-instances"]),
    DryRunCase("PATCH", "connectors/copies/offsets", [_OFFSET], _SOURCE_OFFSETS),
    DryRunCase("PATCH", "connectors/sink/offsets", ["alter-group"], _SINK_OFFSETS),
    DryRunCase("DELETE", "connectors/copies/offsets", [_OFFSET]),
    DryRunCase("DELETE", "connectors/sink/offsets", ["delete-group"]),
    DryRunCase("PUT", "connectors/orders/topics/reset", ["status-topic-lines:connector-orders"]),
    DryRunCase("PUT", "admin/loggers/lab", [], {"level": "DEBUG"}),
    DryRunCase(
        "PUT", "admin/loggers/lab", ["logger-cluster-lab"], {"level": "DEBUG"}, {"scope": "cluster"}
    ),
    DryRunCase("POST", "connectors/orders/tasks", ["task-orders-0", "commit-orders"], [FILE]),
    DryRunCase("PUT", "connectors/orders/fence", ["tasks-fencing-orders"]),
    DryRunCase("POST", "connectors/copies/undo", ["target-state-copies"], query={"to": "config@7"}),
)


async def _send_signed(client: httpx.AsyncClient, case: DryRunCase, **query: str) -> httpx.Response:
    """Send a request with a worker's signature."""
    request = client.build_request(
        case.method, f"/{case.path}", json=case.body, params={**case.query, **query}
    )
    signed = hmac.digest(KEY, request.content, "sha256")
    request.headers["x-connect-authorization"] = b64encode(signed).decode()
    request.headers["x-connect-request-signature-algorithm"] = "HmacSHA256"
    return await client.send(request)


async def test_a_dry_run_changes_nothing() -> None:
    """Every changing endpoint shows the plan of its change."""
    async with at_rest() as scene:
        before = await scene.changeable_state()
        for case in CASES:
            answer = await _send_signed(scene.client, case, dry_run="true")
            assert answer.status_code == 200, (case, answer.text)
            assert _keys_and_actions(answer.json()) == case.does, case
            assert await scene.changeable_state() == before, case


def _keys_and_actions(plan: Any) -> list[str]:
    steps = plan["steps"]
    actions = [step["action"]["action"] for step in steps if "action" in step]
    return [record["key"] for step in steps for record in step["records"]] + actions


def test_no_endpoint_is_left_out() -> None:
    """Every changing endpoint but validation has a case."""
    changing = {
        (row.method, "/".join(row.template)) for row in ENDPOINTS if row.method != "GET"
    } - {("PUT", "connector-plugins/{}/config/validate")}
    profile = Profile.of("kip")
    covered = set()
    for case in CASES:
        methods, _ = find(tuple(case.path.split("/")), f"/{case.path}", profile)
        covered.add((case.method, "/".join(methods[case.method].template)))
    assert covered == changing


# --- read-only services -------------------------------------------------------------------------


@asynccontextmanager
async def only_read(scene: Scene) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a read-only service on the log of another service."""
    profile = Profile.of("kip")
    worker = DecisionSettings(key_converter=JSON, value_converter=JSON)
    context = Context(profile=profile, worker=worker, plugins=catalogue())
    async with Follower(scene.plane.log) as follower:
        service = compose(
            follower,
            scene.plane.log,
            context,
            watching=ChangeFeed(follower, scene.plane.log, profile),
            planner=ReadOnlyPlanner(follower, context),
            loggers=Loggers(lambda: 0),
        )
        async with client_of(App(service)) as client:
            yield client


async def test_a_read_only_service_plans_the_same() -> None:
    """A read-only service shows the same plan; it assumes an empty consumer group, and says so."""
    async with at_rest() as scene, only_read(scene) as client:
        before = await scene.changeable_state()
        for case in CASES:
            written = (await _send_signed(scene.client, case, dry_run="true")).json()
            planned = (await _send_signed(client, case, dry_run="true")).json()
            if (case.method, case.path) == ("DELETE", "connectors/sink/offsets"):
                nothing = "consumer group connect-sink has committed nothing"
                assert nothing in planned["assumed"], case
            else:
                assert planned["steps"] == written["steps"], case
        assert await scene.changeable_state() == before


@pytest.mark.parametrize(
    ("query", "status", "says"),
    [
        ({}, 405, "This service only reads its log"),
        ({"dry_run": "false"}, 405, ". dry_run=true shows what would be written"),
        ({"dry_run": "yes"}, 400, "dry_run=yes is neither true nor false"),
        ({"dry_run": "true", "as_of": "config@0"}, 400, "as_of= asks for the past"),
    ],
)
async def test_a_read_only_service_refuses_changes_with_reasons(
    query: dict[str, str], status: int, says: str
) -> None:
    """Each unsuitable query of a change gets its own status and message."""
    async with at_rest() as scene, only_read(scene) as client:
        answer = await client.put("/connectors/orders/stop", params=query)
        assert (answer.status_code, says in answer.json()["message"]) == (status, True)


async def test_a_read_only_service_plans_as_a_release_beneath_compat() -> None:
    """Beneath `/compat` a dry run shows the release's plan; other requests get 405."""
    async with at_rest() as scene, only_read(scene) as client:
        stop = "/compat/3.9/connectors/orders/stop"
        assert (await client.put(stop, params={"dry_run": "true"})).json()["profile"] == "3.9.2"
        older = await client.put(stop.replace("3.9", "3.4"), params={"dry_run": "true"})
        assert older.json()["message"] == "HTTP 404 Not Found"
        for query in ({}, {"dry_run": "false"}):
            refused = await client.put(stop, params=query)
            assert refused.json() == {"error_code": 405, "message": "HTTP 405 Method Not Allowed"}
        unknown = await client.put(stop.replace("orders", "nix"), params={"dry_run": "true"})
        assert unknown.json() == {"error_code": 404, "message": "Unknown connector nix"}


@pytest.mark.parametrize("dry_run", ["", "yes", "1"])
async def test_other_values_of_dry_run_are_refused(dry_run: str) -> None:
    """Each changing endpoint answers 400, names `dry_run=`, and changes nothing."""
    async with at_rest() as scene:
        before = await scene.changeable_state()
        for case in CASES:
            answer = await _send_signed(scene.client, case, dry_run=dry_run)
            assert (answer.status_code, "dry_run=" in answer.json()["message"]) == (400, True)
        assert await scene.changeable_state() == before


async def test_a_dry_run_with_as_of_is_refused() -> None:
    """Each changing endpoint answers 400, names `as_of=`, and changes nothing."""
    async with at_rest() as scene:
        before = await scene.changeable_state()
        for case in CASES:
            answer = await _send_signed(scene.client, case, as_of="config@0")
            assert (answer.status_code, "as_of=" in answer.json()["message"]) == (400, True), case
        assert await scene.changeable_state() == before
