"""Long histories: pages, sizes, and clients that disconnect before the answer is complete."""

import asyncio
import json
from typing import Any

import pytest
from starlette.types import Message

from controlplane.core.commands import PutConfig
from controlplane.core.releases.profiles import Profile
from controlplane.logs.log import Record
from controlplane.logs.memory import MemoryLog
from controlplane.plane import ControlPlane
from controlplane.projection.change_feed import ChangeFeed
from controlplane.projection.follower import Follower
from tests.operation_counts import assert_linear
from tests.patience import PATIENCE_S
from tests.rest.extensions.test_watch import read, watching
from tests.rest.plane import ORDERS, orders_plane
from tests.rest.served_history import client_of

HISTORY = "/connectors/orders/history"


def many_keys(number: int, value: str = "value") -> dict[str, str | None]:
    """A config with this number of keys."""
    return {**ORDERS, **{f"key{at}": value for at in range(number)}}


async def test_history_does_not_repeat_a_record_for_each_key_that_it_changes() -> None:
    """The size grows with the number of keys; each record occurs once, and only on request."""
    sizes = []
    for number in (100, 200):
        async with orders_plane() as (plane, client):
            await plane.execute(PutConfig("orders", many_keys(number)))
            response = await client.get(HISTORY)
            sizes.append(len(response.content))
            events = response.json()["events"]
            assert "value" not in events[0]["record"]
            whole = (await client.get(HISTORY, params={"records": "true"})).json()
            places = [(record["topic"], record["offset"]) for record in whole["records"]]
            assert len(places) == len(set(places)) >= 2
            assert "key99" in whole["records"][-1]["value"]
    assert sizes[1] < 2 * sizes[0]


async def test_history_pages_within_a_record_that_changes_much() -> None:
    """`limit=` also splits the changes of one record; all pages together are the whole history."""
    async with orders_plane() as (plane, client):
        await plane.execute(PutConfig("orders", many_keys(25)))
        whole = (await client.get(HISTORY)).json()["events"]
        pages: list[Any] = []
        query: dict[str, str] = {"limit": "7"}
        while True:
            page = (await client.get(HISTORY, params=query)).json()
            assert len(page["events"]) <= 7
            pages += page["events"]
            if page["next"] is None:
                break
            query["after"] = page["next"]
        assert pages == whole


async def test_history_shows_digests_of_long_values_and_limits_its_pages() -> None:
    """A long value is shown as a digest; a page ends after a few MiB."""
    async with orders_plane() as (plane, client):
        await plane.execute(PutConfig("orders", {**ORDERS, "long": "x" * 100_000}))
        last = (await client.get(HISTORY)).json()["events"][-1]
        assert last["after"]["characters"] == 100_000
        for number in range(2):
            value = f"{number}" * 10_000
            await plane.execute(PutConfig("orders", many_keys(300, value)))
        page = (await client.get(HISTORY)).json()
        assert page["next"] is not None
        assert len(page["events"]) < 600


async def test_history_of_task_configs_shows_changed_keys() -> None:
    """A changed task config shows only its changed keys."""
    log = MemoryLog()
    await log.create_topic("connect-configs", 1)
    for value in ("one", "two"):
        config = {"properties": {**many_keys(3), "x": value}}
        for key, row in (
            ("connector-orders", config),
            ("task-orders-0", config),
            ("commit-orders", {"tasks": 1}),
        ):
            encoded = json.dumps(row).encode()
            await log.append([Record("connect-configs", 0, 1, key.encode(), encoded)])
    async with ControlPlane.open(log) as plane, client_of(plane.app) as client:
        events = (await client.get(HISTORY)).json()["events"]
    (changed,) = [event for event in events if event["what"] == "task config 0" and event["before"]]
    assert (changed["before"], changed["after"]) == ({"x": "one"}, {"x": "two"})


async def test_history_stops_reading_when_its_client_leaves() -> None:
    """Reading stops when the client leaves."""
    gate, left = asyncio.Event(), asyncio.Event()

    class SlowLog(MemoryLog):
        slow = False

        async def read(self, *args: Any, **options: Any) -> Any:
            if self.slow:
                try:
                    gate.set()
                    await asyncio.Event().wait()
                finally:
                    left.set()
            async for batch in super().read(*args, **options):
                yield batch

    log = SlowLog()
    messages: list[Message] = []

    async def receive() -> Message:
        await gate.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        messages.append(message)

    async with ControlPlane.open(log) as plane:
        await plane.execute(PutConfig("orders", dict(ORDERS)))
        log.slow = True
        scope: dict[str, Any] = {
            "type": "http",
            "method": "GET",
            "path": HISTORY,
            "raw_path": HISTORY.encode(),
            "query_string": b"",
            "headers": [],
        }
        async with asyncio.timeout(PATIENCE_S):
            await plane.app(scope, receive, send)
            await left.wait()
        log.slow = False


async def test_watch_does_not_repeat_a_record_for_each_key_that_it_changes() -> None:
    """With `records=true` the record comes once, with its last change."""
    async with (
        orders_plane() as (plane, _),
        watching(plane.app) as plain,
        watching(plane.app, "records=true") as whole,
    ):
        await plane.execute(PutConfig("orders", many_keys(20)))
        records = [read(await plain.get())["data"]["record"] for _ in range(20)]
        assert not any("value" in record for record in records)
        records = [read(await whole.get())["data"]["record"] for _ in range(20)]
        assert ["value" in record for record in records] == [False] * 19 + [True]


@pytest.mark.parametrize("topic", ["connect-offsets", "connect-status"])
def test_watching_the_past_takes_linear_time(topic: str) -> None:
    """Watching costs time linear in the number of records, also for one connector."""
    assert_linear(lambda number: lambda: asyncio.run(missed(topic, number)), 60)


async def missed(topic: str, number: int) -> None:
    """Watch from the beginning of a log with `number` records about one connector."""
    log = MemoryLog()
    for name in ("connect-configs", "connect-offsets", "connect-status"):
        await log.create_topic(name, 1)
    report = b'{"state":"RUNNING","worker_id":"w","generation":1}'
    key, value = {
        "connect-offsets": ('["c",{{"p":{}}}]', b'{"at":1}'),
        "connect-status": ("status-task-c-{}", report),
    }[topic]
    await log.append([Record(topic, 0, 1, key.format(at).encode(), value) for at in range(number)])
    async with Follower(log) as follower:
        changes = ChangeFeed(follower, log, Profile.of("kip")).changes({})
        for _ in range(number):
            await anext(changes)
        await changes.aclose()
