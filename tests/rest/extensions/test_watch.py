"""`GET /watch`: changes as server-sent events."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from starlette.types import ASGIApp, Message

from controlplane.core.releases.profiles import RELEASES, Profile
from controlplane.plane import Settings
from controlplane.projection.change_feed import RELEASES_WATCHED
from controlplane.projection.limits import FollowerLimits
from controlplane.rest.http.limits import HttpLimits
from controlplane.rest.security.load_limits import LoadLimiter
from tests.conftest import examples
from tests.outages import until
from tests.rest.plane import orders_plane
from tests.rest.served_history import client_of

WatchedEvent = dict[str, Any]

WATCHERS = examples(500, proved=12_000)
"""Number of watchers, and the limit that the test sets: above the default only in `make prove`."""


class WatchedBlocks(asyncio.Queue[str]):
    """Blocks that a watcher receives after the first one."""

    first_id: str = ""
    """Id in the first block; empty: it has none."""


@asynccontextmanager
async def watching(app: ASGIApp, query: str = "", **headers: str) -> AsyncIterator[WatchedBlocks]:
    """The blocks that a watcher receives; it disconnects at the end of the `with` block."""
    blocks = WatchedBlocks()
    gone = asyncio.Event()
    asked_once = False

    async def receive() -> Message:
        nonlocal asked_once
        if asked_once:
            await gone.wait()
            return {"type": "http.disconnect"}
        asked_once = True
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        for block in message.get("body", b"").decode().split("\n\n"):
            if block not in {"", ": nothing new"}:  # a busy machine is silent for long
                blocks.put_nowait(block)

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/watch",
        "raw_path": b"/watch",
        "query_string": query.encode(),
        "headers": [
            (name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()
        ],
        "asgi": {"version": "3.0", "spec_version": "2.3"},
    }
    task = asyncio.ensure_future(app(scope, receive, send))
    try:
        comment, _, id_line = (await blocks.get()).partition("\n")
        assert comment == ": watching"
        blocks.first_id = id_line.removeprefix("id: ")
        yield blocks
    finally:
        gone.set()
        await task


def read(block: str) -> WatchedEvent:
    """Return the fields of a server-sent event, data decoded."""
    fields = dict(line.split(": ", 1) for line in block.split("\n"))
    return fields | {"data": json.loads(fields["data"])}


async def test_changes_are_sent_as_they_happen() -> None:
    """Each change has its old value, new value and record; a record's last change has an id."""
    async with orders_plane() as (plane, client), watching(plane.app) as blocks:
        await client.put("/connectors/orders/pause")
        event = read(await blocks.get())
        assert event["event"] == "change"
        data = event["data"]
        assert (data["connector"], data["aspect"]) == ("orders", "target state")
        assert (data["before"], data["after"]) == ("STARTED", "PAUSED")
        assert data["record"]["key"] == "target-state-orders"
        assert json.loads(event["id"])["connect-configs"] == [data["record"]["offset"] + 1]


async def test_a_watcher_that_reconnects_misses_nothing() -> None:
    """`Last-Event-ID` is the watcher's last position; changes since then come first, in order."""
    async with orders_plane() as (plane, client):
        async with watching(plane.app) as blocks:
            await client.put("/connectors/orders/pause")
            last = read(await blocks.get())["id"]
        await client.put("/connectors/orders/resume")
        await client.put("/connectors/orders/pause")
        async with watching(plane.app, last_event_id=last) as blocks:
            missed = [read(await blocks.get())["data"] for _ in range(2)]
            assert [change["after"] for change in missed] == ["STARTED", "PAUSED"]
            await client.put("/connectors/orders/resume")
            assert read(await blocks.get())["data"]["after"] == "STARTED"


async def test_a_watcher_that_reconnects_before_its_first_change_misses_nothing() -> None:
    """A stream that starts now begins with an id, so that it can be resumed before any change."""
    async with orders_plane() as (plane, client):
        async with watching(plane.app) as blocks:
            first = blocks.first_id
        assert first
        await client.put("/connectors/orders/pause")
        async with watching(plane.app, last_event_id=first) as blocks:
            assert blocks.first_id == ""
            assert read(await blocks.get())["data"]["after"] == "PAUSED"


async def test_an_empty_vector_starts_at_the_first_record() -> None:
    """An empty vector starts the stream at the first record."""
    async with orders_plane() as (plane, _), watching(plane.app, "since=%7B%7D") as blocks:
        assert read(await blocks.get())["data"]["record"]["offset"] == 0


async def test_a_stream_may_start_at_a_moment() -> None:
    """`as_of=` and `since=` both start with all changes since that moment."""
    async with orders_plane() as (plane, client):
        await client.put("/connectors/orders/pause")
        await client.put("/connectors/orders/resume")
        for name in ("as_of", "since"):
            async with watching(plane.app, f"{name}=config@0") as blocks:
                changes = [read(await blocks.get())["data"] for _ in range(2)]
                assert [change["after"] for change in changes] == ["PAUSED", "STARTED"]
            assert (await client.get(f"/watch?{name}=nonsense")).status_code == 400


async def test_a_watcher_may_read_as_a_release() -> None:
    """A watcher with `profile=3.4` sees a stopped connector as paused; others see it as stopped."""
    async with (
        orders_plane() as (plane, client),
        watching(plane.app, "profile=3.4") as old,
        watching(plane.app) as ours,
    ):
        await client.put("/connectors/orders/stop")
        changes = [read(await blocks.get())["data"] for blocks in (old, ours)]
    assert [change["aspect"] for change in changes] == ["target state", "target state"]
    assert [change["after"] for change in changes] == ["PAUSED", "STOPPED"]


async def test_folds_of_watched_releases_are_pinned() -> None:
    """Reads of other releases do not evict them; the number of watched releases is limited."""
    async with orders_plane() as (plane, client), AsyncExitStack() as stack:
        releases = ("3.0", "3.1", "3.2", "3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9")
        opened = [
            await stack.enter_async_context(watching(plane.app, f"profile={release}"))
            for release in releases[:RELEASES_WATCHED]
        ]
        for release in ("2.0", "2.1", "2.2", "2.3", "2.4", "2.5", "2.6", "2.7", "2.8"):
            assert (await client.get(f"/connectors?profile={release}")).status_code == 200
        assert (await client.get(f"/watch?profile={releases[-1]}")).status_code == 503
        await client.put("/connectors/orders/pause")
        for blocks in opened:
            assert read(await blocks.get())["data"]["after"] == "PAUSED"


@pytest.mark.parametrize("loaded", [False, True])
async def test_watchers_that_begin_together_keep_to_the_limit(*, loaded: bool) -> None:
    """Requests that arrive together watch `RELEASES_WATCHED` releases; the others are refused."""
    releases = RELEASES[: RELEASES_WATCHED + 4]
    settings = Settings(follower=FollowerLimits(profiles_kept=len(releases)))
    async with orders_plane(settings) as (plane, client):
        if loaded:
            for release in releases:
                await client.get(f"/connectors?profile={release}")
        requests = [
            asyncio.ensure_future(client.get(f"/watch?profile={release}")) for release in releases
        ]
        await until(lambda: len([request for request in requests if request.done()]) == 4)
        assert len(plane._watching._by_release) == plane._watching.watchers == RELEASES_WATCHED
        plane._watching.end()
        answers = await asyncio.gather(*requests)
    refused = [answer for answer in answers if "other releases are watched" in answer.text]
    assert len(refused) == 4


async def test_a_watcher_of_one_connector_gets_other_positions_only() -> None:
    """Events of other connectors send their position only, so that a client can resume."""
    async with orders_plane() as (plane, client), watching(plane.app, "connector=nix") as blocks:
        await client.put("/connectors/orders/pause")
        block = await blocks.get()
        assert block.startswith("id: ")
        assert "data" not in block


async def test_secrets_are_hidden() -> None:
    """An event that shows a change hides secrets of the config."""
    async with orders_plane() as (plane, client), watching(plane.app) as blocks:
        await client.patch("/connectors/orders/config", json={"db.password": "s3cret"})
        event = read(await blocks.get())
        assert "s3cret" not in json.dumps(event)


async def test_secrets_in_a_source_partition_are_hidden() -> None:
    """An event hides secrets of the source partition, as `/diff` does."""
    partition = {"db.password": "hunter3", "url": "https://bob:hunter2@host/x"}
    offset = {"partition": partition, "offset": {"position": 7}}
    async with orders_plane() as (plane, client):
        await client.put("/connectors/orders/stop")
        async with watching(plane.app) as blocks:
            answer = await client.patch("/connectors/orders/offsets", json={"offsets": [offset]})
            assert answer.status_code == 200
            block = await blocks.get()
        assert read(block)["data"]["item"] == (
            '{"db.password":[hidden],"url":"https://bob:[hidden]@host/x"}'
        )
        assert "hunter" not in block


async def test_an_invalid_last_event_id_is_refused() -> None:
    """An id is a vector of ends."""
    async with orders_plane() as (_, client):
        answer = await client.get("/watch", headers={"last-event-id": "7"})
        assert (answer.status_code, "Last-Event-ID" in answer.json()["message"]) == (400, True)


async def test_head_is_answered_at_once() -> None:
    """HEAD is answered at once and registers no watcher."""
    async with orders_plane() as (plane, client):
        answer = await client.head("/watch")
        assert (answer.status_code, answer.content) == (200, b"")
        assert answer.headers["content-type"] == "text/event-stream"
        assert plane._watching.watchers == 0


async def test_a_closing_plane_sends_end() -> None:
    """A closing plane sends the event `end` to its watchers."""
    async with orders_plane() as (plane, _), watching(plane.app) as blocks:
        plane._watching.end()
        assert read(await blocks.get())["event"] == "end"


@pytest.mark.slow
async def test_watchers_above_the_limit_get_503() -> None:
    """The setting alone is the limit: more watchers are refused, disconnected ones are removed."""
    async with orders_plane() as (plane, _), AsyncExitStack() as stack:
        app = LoadLimiter(plane.app, HttpLimits(watches_max=WATCHERS), Profile.of("kip"))
        client = await stack.enter_async_context(client_of(app))
        queues = [await stack.enter_async_context(watching(app)) for _ in range(WATCHERS)]
        refused = await asyncio.gather(*(client.get("/watch") for _ in range(100)))
        assert {answer.status_code for answer in refused} == {503}
        assert "retry-after" in refused[0].headers
        await client.put("/connectors/orders/pause")
        for blocks in queues:
            assert read(await blocks.get())["data"]["after"] == "PAUSED"
        await stack.aclose()
        assert plane._watching.watchers == 0
