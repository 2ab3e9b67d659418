"""Endpoint `GET /commands`, which shows the audit trail."""

import json
from typing import Any

import httpx
import pytest

from controlplane.core.entry import Entry
from controlplane.core.fold import commands as command_fold
from controlplane.core.records import CommandAccepted, CommandFinished
from controlplane.logs.log import Record
from controlplane.rest.app import App
from controlplane.rest.extensions.audit_trail import AuditRow
from tests.rest.plane import ORDERS, orders_plane
from tests.rest.served_history import client_of


async def test_the_trail_has_user_command_and_outcome() -> None:
    """The trail has the user, the command and the outcome of each request; secrets are hidden."""
    async with orders_plane() as (_, client):
        secret = {"name": "s", "config": ORDERS | {"db.password": "s3cret"}}
        await client.post("/connectors", json=secret)
        await client.put("/connectors/s/stop")
        await client.delete("/connectors/nix")
        commands = (await client.get("/commands")).json()["commands"]
        assert [
            (command["command"], command["connector"], command["outcome"]) for command in commands
        ] == [
            ("create", "orders", "done"),
            ("create", "s", "done"),
            ("stop", "s", "done"),
            ("delete", "nix", "refused"),
        ]
        assert commands[0]["principal"] == "embedded"
        assert commands[1]["principal"] == "anonymous"
        assert commands[-1]["reason"] == "Connector nix not found"
        assert "s3cret" not in str(commands)
        assert "finished_at_ms" in commands[0]


async def test_an_accepted_command_follows_those_before_it() -> None:
    """A refused command that is accepted later comes after the commands in between."""
    async with orders_plane() as (_, client):
        key = {"idempotency-key": "k"}
        await client.put("/connectors/late/pause", headers=key)
        await client.post("/connectors", json={"name": "late", "config": ORDERS})
        await client.put("/connectors/late/pause", headers=key)
        commands = (await client.get("/commands")).json()["commands"]
        assert [command["command"] for command in commands] == ["create", "create", "pause"]
        assert commands[-1]["outcome"] == "done"


async def test_a_forgotten_id_has_a_row_for_each_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command whose id was used before is listed beside the earlier one, on every page."""
    monkeypatch.setattr(command_fold, "ENDED_KEPT", 1)
    async with orders_plane() as (_, client):
        key = {"idempotency-key": "k"}
        for word in ("pause", "resume", "stop"):
            await client.put(f"/connectors/orders/{word}", headers=key)
            await client.put("/connectors/orders/pause")  # the fold forgets the key
        rows = (await client.get("/commands?command=resume")).json()["commands"]
        assert [(row["id"], row["outcome"]) for row in rows] == [("k", "done")]
        paged, after = [], ""
        while True:
            page = (await client.get(f"/commands?limit=1{after}")).json()
            paged += [row["command"] for row in page["commands"]]
            if page["next"] is None:
                break
            after = f"&after={page['next']}"
        assert paged == ["create", "pause", "pause", "resume", "pause", "stop", "pause"]


def test_stored_differences_are_shown_without_secrets() -> None:
    """Secrets are hidden in the differences that earlier versions have stored."""
    accepted = CommandAccepted("a", 1, "ann", {"command": "stop", "connector": "orders"})
    outcome = {"differences": ['["orders",{"password":"hunter2"}] is missing'], "recovered": True}
    entry = Entry("connect-commands", 0, 0, 1, b"a", b"{}")
    shown = AuditRow(accepted, entry, CommandFinished("a", 2, outcome)).document()
    assert shown["differences"] == ['["orders",{"password":[hidden]}] is missing']
    assert shown["recovered"] is True


@pytest.mark.parametrize("records", [5, None, ["pause@orders", 5]], ids=str)
async def test_facts_of_another_version_are_no_defect(records: object) -> None:
    """A log may have ends of commands with facts that this version does not write.

    The trail of an attached cluster compares these facts with the config topic.
    """
    async with orders_plane() as (plane, client):
        accepted = {"type": "accepted", "command_id": "a", "at_ms": 1, "principal": "ann"}
        accepted |= {"command": {"command": "pause", "connector": "orders"}}
        finished = {"type": "finished", "command_id": "a", "at_ms": 2, "outcome": {}}
        finished["outcome"] = {"records": records}
        values = (json.dumps(value).encode() for value in (accepted, finished))
        topic = plane.state.topics.commands
        await plane.log.append([Record(topic, 0, 0, b"a", value) for value in values])
        await client.put("/connectors/orders/pause")  # the plane has then read the records
        rows = (await client.get("/commands?principal=ann")).json()["commands"]
        assert [(row["id"], row["records"]) for row in rows] == [("a", records)]
        attached = plane.service._replace(trail=plane.log)
        async with client_of(App(attached)) as attached_client:
            listed = (await attached_client.get("/commands?command=create")).json()["commands"]
        assert {row["principal"] for row in listed} == {None, "embedded"}


@pytest.mark.parametrize(
    ("query", "commands"),
    [
        ("connector=orders", ["create", "pause", "resume"]),
        ("principal=anonymous", ["pause", "resume", "pause"]),
        ("outcome=refused", ["pause"]),
        ("command=pause&outcome=done", ["pause"]),
        ("since=9999999999999", []),
        ("since=2286-11-20T17:46:39.999Z", []),
        ("since=2001-09-09T01:46:40Z&command=resume", ["resume"]),
        ("connector=nobody", []),
    ],
)
async def test_filters_are_combined(query: str, commands: list[str]) -> None:
    """A command is listed if all filters of the query match."""
    async with orders_plane() as (_, client):
        for path in ("orders/pause", "orders/resume", "nix/pause"):
            await client.put(f"/connectors/{path}")
        trail = (await client.get(f"/commands?{query}")).json()["commands"]
        assert [command["command"] for command in trail] == commands


async def test_the_trail_comes_page_by_page() -> None:
    """`next` is the value for `after=`; the last page has none."""
    async with orders_plane() as (_, client):
        for number in range(5):
            await client.put("/connectors/orders/pause", headers={"idempotency-key": f"k{number}"})
        first = (await client.get("/commands?limit=4")).json()
        rest = (await client.get(f"/commands?limit=4&after={first['next']}")).json()
        ids = [command["id"] for command in (*first["commands"], *rest["commands"])]
        assert ids[1:] == [f"k{number}" for number in range(5)]
        assert rest["next"] is None


async def all_pages(client: httpx.AsyncClient, path: str, rows: str, **query: str) -> list[Any]:
    """All rows of an answer, in pages of `limit` (default: two)."""
    paged: list[Any] = []
    for _ in range(20):
        page = (await client.get(path, params={"limit": "2", **query})).json()
        paged += page[rows]
        if page["next"] is None:
            return paged
        query["after"] = page["next"]
    raise AssertionError(f"the pages do not end: {paged}")


async def test_an_id_that_looks_like_a_counted_row_is_an_id() -> None:
    """`after=x#1` continues after the command `x#1`, and not after the first row of `x`."""
    async with orders_plane() as (_, client):
        ids = ["x", "y", "x#1", "z", "x#1#1"]
        for key in ids:
            await client.put("/connectors/orders/pause", headers={"idempotency-key": key})
        rest = (await client.get("/commands", params={"after": "x#1"})).json()["commands"]
        assert [row["id"] for row in rest] == ["z", "x#1#1"]
        paged = await all_pages(client, "/commands", "commands")
        assert [row["id"] for row in paged][1:] == ids
        config = {f"k{suffix}": "1" for suffix in ("", "#1", "#1#1", "#2", "a", "b", "c")}
        await client.patch("/connectors/orders/config", json=config)
        whole = (await client.get("/diff?from=config@0")).json()["changes"]
        assert len(whole) >= len(config)
        assert await all_pages(client, "/diff", "changes", **{"from": "config@0"}) == whole


async def test_an_id_with_the_name_of_a_record_is_an_id() -> None:
    """A client's id may equal the position of a foreign change: each has a row on the pages."""
    async with (
        orders_plane() as (plane, client),
        client_of(App(plane.service._replace(trail=plane.log))) as attached,
    ):
        rows = (await attached.get("/commands")).json()["commands"]
        foreign = next(row["id"] for row in rows if row["principal"] is None)
        for key in ("k", foreign, "l"):
            await client.put("/connectors/orders/pause", headers={"idempotency-key": key})
        whole = (await attached.get("/commands")).json()["commands"]
        assert [row["id"] for row in whole].count(foreign) == 2
        assert await all_pages(attached, "/commands", "commands", limit="1") == whole


@pytest.mark.parametrize(("connector", "hidden"), [("orders", True), ("pages", False)])
async def test_a_record_about_another_connector_is_foreign(connector: str, *, hidden: bool) -> None:
    """Offsets begin again if the config topic is deleted: an old command's record is not there."""
    async with (
        orders_plane() as (plane, client),
        client_of(App(plane.service._replace(trail=plane.log))) as attached,
    ):
        rows = (await attached.get("/commands?command=create")).json()["commands"]
        foreign = next(row["id"] for row in rows if row["principal"] is None)
        accepted = {"type": "accepted", "command_id": "a", "at_ms": 1, "principal": "ann"}
        accepted |= {"command": {"command": "pause", "connector": connector}}
        finished = {"type": "finished", "command_id": "a", "at_ms": 2, "outcome": {}}
        finished["outcome"] = {"records": [foreign]}
        values = (json.dumps(value).encode() for value in (accepted, finished))
        topic = plane.state.topics.commands
        await plane.log.append([Record(topic, 0, 0, b"a", value) for value in values])
        await client.put("/connectors/orders/pause")  # the plane has then read the records
        rows = (await attached.get("/commands?command=create")).json()["commands"]
        assert (foreign not in [row["id"] for row in rows]) is hidden


@pytest.mark.parametrize("query", ["outcome=fine", "since=monday", "limit=none", "after=nix"])
async def test_invalid_filters_are_refused(query: str) -> None:
    """The error names the refused parameter."""
    async with orders_plane() as (_, client):
        answer = await client.get(f"/commands?{query}")
        assert answer.status_code == 400
        assert query.partition("=")[0] in answer.json()["message"]
