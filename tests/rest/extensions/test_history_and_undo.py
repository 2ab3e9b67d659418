"""Endpoints `GET /connectors/{c}/history` and `POST /connectors/{c}/undo`."""

from typing import Any

from controlplane.core.records import Target
from tests.rest.plane import orders_plane


async def test_history_lists_every_change() -> None:
    """The history lists every change in order, with its record and hidden secrets."""
    async with orders_plane() as (_, client):
        await client.patch("/connectors/orders/config", json={"db.password": "s3cret"})
        await client.put("/connectors/orders/stop")
        history = (await client.get("/connectors/orders/history")).json()
        whats = [event["what"] for event in history["events"]]
        assert whats[0] == "connector"
        assert whats[-1] == "target state"
        assert history["events"][-1]["record"]["key"] == "target-state-orders"
        assert "s3cret" not in str(history)
        assert history["next"] is None


def events_of_first_record(events: list[Any]) -> int:
    """Number of events of the first record."""
    return sum(event["at"] == events[0]["at"] for event in events)


async def test_pages_are_the_whole_history() -> None:
    """Pages of one event are together the whole history; `after=` skips all events of a record."""
    async with orders_plane() as (_, client):
        for state in ("pause", "resume", "pause"):
            await client.put(f"/connectors/orders/{state}")
        whole = (await client.get("/connectors/orders/history")).json()["events"]
        pages: list[Any] = []
        query: dict[str, str] | None = {}
        while query is not None:
            path = "/connectors/orders/history"
            page = (await client.get(path, params={"limit": "1", **query})).json()
            pages += page["events"]
            query = None if page["next"] is None else {"after": page["next"]}
        assert pages == whole
        spellings = [pages[0]["at"], "config@0:0", "connect-configs@0"]
        behind = [
            (await client.get("/connectors/orders/history", params={"after": after})).json()
            for after in spellings
        ]
        assert spellings[0] == "config@0"
        assert [page["events"] for page in behind] == [whole[events_of_first_record(whole) :]] * 3
        bad = await client.get("/connectors/orders/history?after=nix")
        assert (bad.status_code, "after=nix" in bad.json()["message"]) == (400, True)
        for limit in ("0", "-1", "x", "10001", "²"):
            refused = await client.get("/connectors/orders/history", params={"limit": limit})
            assert refused.status_code == 400


async def test_history_begins_behind_a_record_of_another_connector() -> None:
    """`after=` accepts every record of the log, in every spelling; a missing record gets 400."""
    async with orders_plane() as (_, client):
        path = "/connectors/orders/history"
        events_before = (await client.get(path)).json()["events"]
        body = {"name": "new", "config": {"connector.class": "FileStreamSink", "topics": "t"}}
        assert (await client.post("/connectors", json=body)).status_code == 201
        (other,) = (await client.get("/connectors/new/history")).json()["events"][-1:]
        await client.put("/connectors/orders/pause")
        whole = (await client.get(path)).json()["events"]
        for after in (other["at"], f"connect-configs@{other['record']['offset']}"):
            page = (await client.get(path, params={"after": after})).json()
            assert page["events"] == whole[len(events_before) :], after
        refused = await client.get(path, params={"after": "config@999"})
        assert refused.status_code == 400
        assert "no record at config@999" in refused.json()["message"]


async def test_as_of_ends_the_history() -> None:
    """`as_of=` ends the history; a connector without records is not found."""
    async with orders_plane() as (_, client):
        await client.put("/connectors/orders/pause")
        then = (await client.get("/connectors/orders/history?as_of=config@0")).json()
        assert {event["record"]["offset"] for event in then["events"]} == {0}
        assert (await client.get("/connectors/nix/history")).status_code == 404
        assert (await client.get("/compat/3.9/connectors/orders/history")).status_code == 404


async def test_undo_restores_config_and_target_state() -> None:
    """A dry run shows the undo; the undo restores the config and the target state."""
    async with orders_plane() as (plane, client):
        config = (await client.get("/connectors/orders/config")).json()
        await client.patch("/connectors/orders/config", json={"topic": "wrong"})
        await client.put("/connectors/orders/pause")
        plan = await client.post("/connectors/orders/undo?to=config@0&dry_run=true")
        keys = [record["key"] for step in plan.json()["steps"] for record in step["records"]]
        assert "connector-orders" in keys
        assert (await client.get("/connectors/orders/config")).json() != config
        done = await client.post("/connectors/orders/undo?to=config@0")
        assert (done.status_code, done.json()["config"]) == (200, config)
        assert plane.state.config.targets.get("orders", Target.STARTED) is Target.STARTED


async def test_undo_restores_a_deleted_connector_and_deletes_a_new_one() -> None:
    """Undo restores a deleted connector, and deletes one created since: 204."""
    async with orders_plane() as (_, client):
        await client.delete("/connectors/orders")
        back = await client.post("/connectors/orders/undo?to=config@0")
        assert (back.status_code, back.json()["name"]) == (200, "orders")
        created = await client.post(
            "/connectors", json={"name": "new", "config": back.json()["config"] | {"name": "new"}}
        )
        assert created.status_code == 201
        away = await client.post("/connectors/new/undo?to=config@0")
        assert (away.status_code, away.content) == (204, b"")
        assert (await client.get("/connectors")).json() == ["orders"]


async def test_undo_needs_a_moment() -> None:
    """A missing or invalid `to=` gets 400; an unknown connector gets 404."""
    async with orders_plane() as (_, client):
        for query, status in (
            ("", 400),
            ("?to=", 400),
            ("?to=yesterday", 400),
            ("?to=config@999", 400),
            ("?to=config@0&offsets=some", 400),
        ):
            answer = await client.post(f"/connectors/orders/undo{query}")
            assert (answer.status_code, bool(answer.json()["message"])) == (status, True)
        assert (await client.post("/connectors/nix/undo?to=config@0")).status_code == 404
