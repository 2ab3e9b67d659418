"""`GET /targets`: requested target states, which no endpoint of Connect shows."""

from tests.rest.plane import ORDERS, orders_plane


async def test_targets_are_listed_now_and_in_the_past() -> None:
    """Targets of all connectors, of one, at a past moment, and of a topic without targets."""
    async with orders_plane() as (_, client):
        for name, state in (("p", "PAUSED"), ("s", "STOPPED")):
            body = {"name": name, "config": ORDERS, "initial_state": state}
            assert (await client.post("/connectors", json=body)).status_code == 201
        every = {"orders": "RUNNING", "p": "PAUSED", "s": "STOPPED"}
        assert (await client.get("/targets")).json() == {"targets": every, "next": None}
        response = await client.get("/targets", params={"connector": "s"})
        assert response.json() == {"targets": {"s": "STOPPED"}, "next": None}
        none = await client.get("/targets", params={"connector": "nix"})
        assert none.json() == {"targets": {}, "next": None}
        await client.put("/connectors/s/resume")
        assert (await client.get("/targets")).json()["targets"]["s"] == "RUNNING"
        then = await client.get("/targets", params={"as_of": "config@0"})
        assert then.json() == {"targets": {"orders": "RUNNING"}, "next": None}


async def test_targets_come_page_by_page() -> None:
    """`next` is the last connector of a page; a page never has more than `limit=`."""
    async with orders_plane() as (_, client):
        names = ["a", "b", "orders", "p"]
        for name in (name for name in names if name != "orders"):
            await client.post("/connectors", json={"name": name, "config": ORDERS})
        listed: list[str] = []
        after: dict[str, str] = {}
        for has_next in (True, False):
            page = (await client.get("/targets", params={"limit": "2", **after})).json()
            assert len(page["targets"]) == 2
            listed += page["targets"]
            assert page["next"] == (listed[-1] if has_next else None)
            after = {"after": listed[-1]}
        assert sorted(listed) == names
        wrong = await client.get("/targets", params={"after": "nix"})
        assert wrong.status_code == 400


async def test_targets_are_unknown_beneath_compat() -> None:
    """Beneath `/compat/` the path is unknown, as in a worker."""
    async with orders_plane() as (_, client):
        answer = await client.get("/compat/3.9/targets")
        assert answer.json() == {"error_code": 404, "message": "HTTP 404 Not Found"}


async def test_targets_use_the_words_of_a_creation() -> None:
    """Targets use the words of `initial_state` (KIP-980): RUNNING in place of STARTED."""
    async with orders_plane() as (_, client):
        for word in ("RUNNING", "PAUSED", "STOPPED"):
            body = {"name": word, "config": ORDERS, "initial_state": word}
            assert (await client.post("/connectors", json=body)).status_code == 201
            response = await client.get("/targets", params={"connector": word})
            assert response.json()["targets"] == {word: word}
        body = {"name": "x", "config": ORDERS, "initial_state": "STARTED"}
        assert (await client.post("/connectors", json=body)).status_code == 400
