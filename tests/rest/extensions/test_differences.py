"""`GET /diff`: differences between two moments."""

from typing import Any

from tests.rest.plane import orders_plane


async def test_a_target_state_is_a_difference() -> None:
    """The difference names the record that caused it."""
    async with orders_plane() as (_, client):
        await client.put("/connectors/orders/pause")
        page = (await client.get("/diff?from=config@0&connector=orders")).json()
        changes = [change for change in page["changes"] if change["aspect"] == "target state"]
        assert [(change["before"], change["after"], change["words"]) for change in changes] == [
            ("STARTED", "PAUSED", "STARTED → PAUSED")
        ]
        assert changes[0]["record"]["topic"] == "connect-configs"
        assert page["next"] is None


async def test_pages_hold_all_differences() -> None:
    """Pages of one difference, joined by `after=`, equal the whole answer without secrets."""
    async with orders_plane() as (_, client):
        await client.patch("/connectors/orders/config", json={"topic": "x", "password": "s3cret"})
        await client.put("/connectors/orders/pause")
        whole = (await client.get("/diff?from=config@0")).json()["changes"]
        pages: list[Any] = []
        query: dict[str, str] | None = {"from": "config@0", "limit": "1"}
        while query is not None:
            page = (await client.get("/diff", params=query)).json()
            pages += page["changes"]
            query = None if page["next"] is None else {**query, "after": page["next"]}
        assert pages == whole
        assert "s3cret" not in str(whole)


async def test_unknown_connectors_have_no_differences() -> None:
    """An unknown connector is not found; a request without `from=` is refused."""
    async with orders_plane() as (_, client):
        assert (await client.get("/diff?from=config@0&connector=nix")).status_code == 404
        assert (await client.get("/diff")).status_code == 400
        assert (await client.get("/compat/3.9/diff?from=config@0")).status_code == 404
