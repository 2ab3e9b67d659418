"""Commands over HTTP: idempotency, dry runs, dialects, and mounting in other programs."""

from urllib.parse import quote

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from controlplane.core import views
from controlplane.core.commands import StopConnector
from controlplane.core.records import Target
from controlplane.core.releases.profiles import RELEASES
from controlplane.rest.errors import NOTICE
from tests.rest.plane import ORDERS, orders_plane

NEW = {"name": "new", "config": ORDERS}


async def test_a_connector_is_created_stopped_reset_and_deleted() -> None:
    """A connector is created and stopped, its offsets are reset, and it is deleted."""
    async with orders_plane() as (_, client):
        created = await client.post("/connectors", json=NEW)
        assert created.status_code == 201
        assert created.headers["location"] == "http://connect/connectors/new"
        assert created.json()["type"] == "source"
        assert (await client.put("/connectors/new/stop")).status_code == 204
        assert (await client.delete("/connectors/new/offsets")).status_code == 204
        assert (await client.delete("/connectors/new")).status_code == 204
        gone = await client.get("/connectors/new")
        assert (gone.status_code, gone.json()["message"]) == (404, "Connector new not found")


async def test_each_release_answers_as_itself() -> None:
    """3.4 cannot stop, 3.5 cannot alter offsets, 3.9 describes a reset.

    The `Location` stays beneath the release's path.
    """
    async with orders_plane() as (_, client):
        assert (await client.put("/compat/3.4/connectors/orders/stop")).status_code == 404
        assert (await client.put("/compat/3.9/connectors/orders/stop")).status_code == 204
        assert (await client.delete("/compat/3.5/connectors/orders/offsets")).status_code == 405
        reset = await client.delete("/compat/3.9/connectors/orders/offsets")
        assert "have been reset successfully" in reset.json()["message"]
        created = await client.post("/compat/3.9/connectors", json=NEW)
        assert created.headers["location"] == "http://connect/compat/3.9/connectors/new"
        assert (await client.get(created.headers["location"])).status_code == 200


@pytest.mark.parametrize("release", ["3.8", "3.9", "4.1", "4.3"])
async def test_the_connector_is_looked_up_before_a_null_patch(
    release: str,
) -> None:
    """A worker looks up the connector before it reads the patch."""
    at, headers = f"/compat/{release}/connectors", {"Content-Type": "application/json"}
    async with orders_plane() as (_, client):
        nobody = await client.patch(f"{at}/nobody/config", content="null", headers=headers)
        assert nobody.status_code == 404
        assert nobody.json()["message"] == "Connector nobody not found"
        existing = await client.patch(f"{at}/orders/config", content="null", headers=headers)
        assert existing.status_code == 500
        assert existing.json()["message"].endswith('because "patch" is null')


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("a+b&c", "a+b&c"),
        ("a b", "a%20b"),
        ("a/b", "a/b"),
        ("a%2Fb", "a%2Fb"),
        ("50%", "50%25"),
        ("ä|", "%C3%A4%7C"),
    ],
)
async def test_a_location_is_escaped_as_by_the_release(name: str, escaped: str) -> None:
    """A `Location` escapes the same characters as the release; at the root it can be requested."""
    config = ORDERS | {"name": name}
    async with orders_plane() as (_, client):
        for release in ("2.3", "3.9", "4.3"):
            base = f"/compat/{release}"
            created = await client.post(f"{base}/connectors", json={"name": name, "config": config})
            assert created.headers["location"] == f"http://connect{base}/connectors/{escaped}"
            await client.delete(f"/connectors/{quote(name, safe='')}")
        created = await client.post("/connectors", json={"name": name, "config": config})
        assert (await client.get(created.headers["location"])).json()["name"] == name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a{b}", "The template variable 'b' has no value"),
        ("a}b", "java.net.URISyntaxException: Illegal character in path at index 13: "),
        ("a{b", 'Invalid syntax in the template "/connectors/a{b". '),
    ],
)
async def test_a_name_with_braces_has_no_location_in_a_release(name: str, message: str) -> None:
    """A worker creates the connector, and then fails to build the `Location`."""
    config = ORDERS | {"name": name}
    async with orders_plane() as (_, client):
        created = await client.post("/compat/3.9/connectors", json={"name": name, "config": config})
        assert created.status_code == 500
        assert created.json()["message"].startswith(message)
        assert name in (await client.get("/connectors")).json()


async def test_an_old_release_writes_its_own_form() -> None:
    """A worker of 3.4 writes the target state PAUSED without `state.v2`."""
    async with orders_plane() as (_, client):
        for release, value in (("3.4", '{"state":"PAUSED"}'), ("3.9", '"state.v2":"PAUSED"')):
            plan = await client.put(f"/compat/{release}/connectors/orders/pause?dry_run=true")
            (step,) = plan.json()["steps"]
            assert value in step["records"][0]["value"]


async def test_unknown_releases_are_reported() -> None:
    """An invalid release in the path gets 400; a future release gets an answer with a notice."""
    async with orders_plane() as (_, client):
        nonsense = await client.get("/compat/9x/connectors")
        assert (nonsense.status_code, nonsense.json()["error_code"]) == (400, 400)
        assert "unknown release '9x'" in nonsense.json()["message"]
        newer = await client.get("/compat/9.0/connectors")
        assert "release 9.0 is not known" in newer.headers["x-controlplane-notice"]


async def test_a_dry_run_writes_nothing() -> None:
    """A dry run answers the records in order, or the refusal."""
    async with orders_plane() as (plane, client):
        before = plane.state
        plan = await client.put("/connectors/orders/stop?dry_run=true")
        assert plan.status_code == 200
        keys = [record["key"] for step in plan.json()["steps"] for record in step["records"]]
        assert keys == ["commit-orders", "target-state-orders"]
        assert plan.json()["commit_point"] == "state"
        refused = await client.delete("/connectors/nix?dry_run=true")
        assert (refused.status_code, refused.json()["message"]) == (404, "Connector nix not found")
        assert plane.state is before


async def test_an_idempotency_key_runs_one_command() -> None:
    """A repeated key gets the first answer; another command with the key gets a conflict."""
    async with orders_plane() as (plane, client):
        key = {"idempotency-key": "deploy-7"}
        first = await client.post("/connectors", json=NEW, headers=key)
        second = await client.post("/connectors", json=NEW, headers=key)
        assert (first.status_code, first.json()) == (second.status_code, second.json())
        other = await client.put("/connectors/new/pause", headers=key)
        assert other.status_code == 409
        assert "deploy-7" in other.json()["message"]
        await client.delete("/connectors/new")
        third = await client.post("/connectors", json=NEW, headers=key)
        assert third.status_code == first.status_code
        assert third.json()["config"].items() <= first.json()["config"].items()
        assert "new" not in views.connectors(plane.state)


async def test_an_empty_idempotency_key_is_refused() -> None:
    """An empty idempotency key is refused: all clients without a key would share it."""
    async with orders_plane() as (plane, client):
        before = plane.state
        answer = await client.put("/connectors/orders/pause", headers={"idempotency-key": ""})
        assert (answer.status_code, answer.json()["message"]) == (
            400,
            "Idempotency-Key is empty: leave it out, or use a new key",
        )
        assert plane.state is before


async def test_commands_with_as_of_are_refused() -> None:
    """The answer is 400, and its message names `as_of=`."""
    async with orders_plane() as (_, client):
        answer = await client.put("/connectors/orders/pause?as_of=config@0")
        assert answer.status_code == 400
        assert "as_of=" in answer.json()["message"]


async def test_the_principal_is_recorded() -> None:
    """The principal is anonymous without authentication."""
    async with orders_plane() as (plane, client):
        await client.put("/connectors/orders/pause")
        (*_, trace) = plane.state.commands.values()
        assert trace.accepted is not None
        assert trace.accepted.principal == "anonymous"


async def test_the_application_works_beneath_any_path() -> None:
    """The application works beneath any path; `Location` contains the path."""
    async with orders_plane() as (plane, _):
        outer = Starlette(routes=[Mount("/connect", plane.app)])
        transport = httpx.ASGITransport(outer)
        async with httpx.AsyncClient(transport=transport, base_url="http://outer") as client:
            created = await client.post("/connect/connectors", json=NEW)
            assert created.headers["location"] == "http://outer/connect/connectors/new"
            names = (await client.get("/connect/compat/3.9/connectors")).json()
            assert sorted(names) == ["new", "orders"]
            assert (await client.put("/connect/connectors/new/pause")).status_code == 202
        assert plane.state.config.targets["new"] is Target.PAUSED


@pytest.mark.parametrize("tenant", ["größe 5%", "日本", "%63onnect"])
async def test_a_mount_may_need_escapes(tenant: str) -> None:
    """A mount may have a path that URLs escape; `Location` contains the escaped path."""
    async with orders_plane() as (plane, _):
        outer = Starlette(routes=[Mount("/{tenant}", plane.app)])
        transport = httpx.ASGITransport(outer)
        mount = f"http://outer/{quote(tenant)}"
        async with httpx.AsyncClient(transport=transport) as client:
            created = await client.post(f"{mount}/connectors", json=NEW)
            assert created.headers["location"] == f"{mount}/connectors/new"
            assert (await client.get(f"{mount}/connectors/new")).status_code == 200
            described = (await client.get(f"{mount}/openapi.json")).json()
            assert described["servers"] == [{"url": f"/{quote(tenant)}"}]


@pytest.mark.parametrize("root_path", ["/connect", "/connect/"])
async def test_a_proxy_may_remove_the_mount(root_path: str) -> None:
    """A request without the prefix in `root_path` is answered, also if it begins with its text."""
    async with orders_plane() as (plane, _):
        transport = httpx.ASGITransport(plane.app, root_path=root_path)
        async with httpx.AsyncClient(transport=transport, base_url="http://outer") as client:
            assert (await client.get("/connectors")).json() == ["orders"]
            assert (await client.get("/connect/connectors")).json() == ["orders"]
            assert (await client.get("/%63onnect/connectors")).json() == ["orders"]
            created = await client.post("/connectors", json=NEW)
            assert created.headers["location"] == "http://outer/connect/connectors/new"
            assert (await client.get("/openapi.json")).json()["servers"] == [{"url": "/connect"}]


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/connectors", "HEAD,GET,POST,OPTIONS"),
        ("/connectors/orders/pause", "PUT,OPTIONS"),
        ("/connectors/orders/offsets", "HEAD,GET,PATCH,DELETE,OPTIONS"),
    ],
)
async def test_methods_are_listed(path: str, methods: str) -> None:
    """OPTIONS lists the methods of a path, also if it has no GET."""
    async with orders_plane() as (_, client):
        answer = await client.request("OPTIONS", path)
        assert sorted(answer.headers["allow"].split(",")) == sorted(methods.split(","))


async def test_a_body_needs_a_type() -> None:
    """A body without a content type gets 415; this error has a content type."""
    async with orders_plane() as (_, client):
        answer = await client.post("/connectors", content=b"{}")
        assert (answer.status_code, answer.headers["content-type"]) == (415, "application/json")
        ignored = await client.put("/connectors/orders/pause", content=b"{")
        assert ignored.status_code == 202


async def test_the_own_state_survives_reads_as_other_releases() -> None:
    """A service keeps the state of its own release while clients read as twenty others."""
    async with orders_plane() as (plane, client):
        for release in RELEASES[-20:]:
            assert (await client.get(f"/connectors?profile={release}")).status_code == 200
        assert (await client.put("/connectors/orders/pause")).status_code == 202
        assert plane.state.config.targets["orders"] is Target.PAUSED


@pytest.mark.parametrize(
    ("release", "path", "status"),
    [("3.4", "fence", 415), ("3.5", "fence", 400), ("3.4", "tasks", 415), ("3.5", "tasks", 400)],
)
async def test_any_content_type_is_accepted_between_workers(
    release: str, path: str, status: int
) -> None:
    """From 3.5 on any content type is accepted; the requests fail for their missing signature."""
    async with orders_plane() as (_, client):
        answer = await client.request(
            "PUT" if path == "fence" else "POST",
            f"/compat/{release}/connectors/orders/{path}",
            content=b"[]",
            headers={"content-type": "text/plain"},
        )
    assert answer.status_code == status


async def test_another_writer_takes_over() -> None:
    """After another writer takes over, commands fail permanently; each answer has the notice."""
    async with orders_plane() as (plane, client):
        assert NOTICE not in (await client.get("/connectors")).headers
        await plane.log.claim()
        refused = await client.put("/connectors/orders/stop")
        assert refused.status_code == 500
        assert "another writer has taken over" in refused.json()["message"]
        assert "retried" not in refused.json()["message"]
        refused = await client.put("/compat/3.9/connectors/orders/stop")
        assert refused.status_code == 500
        assert refused.json()["message"].startswith("Failed to write to config topic; this may be")
        for path in ("/connectors", "/connectors/orders", "/compat/3.9/", "/health"):
            notice = (await client.get(path)).headers[NOTICE]
            assert "commands are refused from now on: This writer has epoch 1" in notice
        ill = await client.get("/health")
        assert (ill.status_code, ill.json()["status"]) == (500, "unhealthy")
        assert (await plane.plan(StopConnector("orders"))) is not None
