"""`GET /commands`: the audit trail."""

import pytest

from tests.rest.plane import ORDERS, asked


async def test_trail() -> None:
    """The trail has the user, the command and the outcome of each request; secrets are hidden."""
    async with asked() as (_, client):
        secret = {"name": "s", "config": ORDERS | {"db.password": "s3cret"}}
        await client.post("/connectors", json=secret)
        await client.put("/connectors/s/stop")
        await client.delete("/connectors/nix")
        told = (await client.get("/commands")).json()["commands"]
        assert [(one["command"], one["connector"], one["outcome"]) for one in told] == [
            ("create", "orders", "done"),
            ("create", "s", "done"),
            ("stop", "s", "done"),
            ("delete", "nix", "refused"),
        ]
        assert told[0]["principal"] == "embedded"
        assert told[1]["principal"] == "anonymous"
        assert told[-1]["reason"] == "Connector nix not found"
        assert "s3cret" not in str(told)
        assert "finished_at_ms" in told[0]


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
async def test_filters(query: str, commands: list[str]) -> None:
    """All of them must hold."""
    async with asked() as (_, client):
        for path in ("orders/pause", "orders/resume", "nix/pause"):
            await client.put(f"/connectors/{path}")
        told = (await client.get(f"/commands?{query}")).json()["commands"]
        assert [one["command"] for one in told] == commands


async def test_pages() -> None:
    """`next` is what to give as `after=`; the last page has none."""
    async with asked() as (_, client):
        for number in range(5):
            await client.put("/connectors/orders/pause", headers={"idempotency-key": f"k{number}"})
        first = (await client.get("/commands?limit=4")).json()
        rest = (await client.get(f"/commands?limit=4&after={first['next']}")).json()
        ids = [one["id"] for one in (*first["commands"], *rest["commands"])]
        assert ids[1:] == [f"k{number}" for number in range(5)]
        assert rest["next"] is None


@pytest.mark.parametrize("query", ["outcome=fine", "since=monday", "limit=none", "after=nix"])
async def test_bad_questions(query: str) -> None:
    """The error lists the allowed values."""
    async with asked() as (_, client):
        answer = await client.get(f"/commands?{query}")
        assert answer.status_code == 400
        assert query.partition("=")[0] in answer.json()["message"]
