"""Own offsets topics that the user may not read: commands and requests about offsets are refused.

All other commands and requests about the connector are carried out.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from controlplane.core.commands import CreateConnector, OffsetChange, PutConfig, StopConnector
from controlplane.core.context import Context
from controlplane.core.releases.profiles import KIP, Profile
from controlplane.logs.log import LogNotUsable
from controlplane.plane import ControlPlane, Settings
from controlplane.projection.change_feed import ChangeFeed
from controlplane.projection.follower import Follower
from controlplane.projection.limits import FollowerLimits
from controlplane.read_only.read_only_service import ReadOnlyPlanner
from controlplane.rest.app import App
from controlplane.rest.service import compose
from tests.controller.scene import plane_on, raw
from tests.outages import until
from tests.projection.unreadable_logs import PartlyReadableLog, refusal
from tests.rest.served_history import catalogue, client_of

SOURCE = {
    "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
    "file": "orders.txt",
    "topic": "orders",
}
OWN = SOURCE | {"offsets.storage.topic": "own"}
OFFSETS = "/connectors/orders/offsets"
CHANGE: dict[str, Any] = {"partition": {"filename": "a.txt"}, "offset": {"position": 3}}
UNREADABLE = {"error_code": 503, "message": refusal("own")}


@asynccontextmanager
async def refusing_plane() -> AsyncIterator[tuple[ControlPlane, PartlyReadableLog]]:
    """A plane with a stopped connector, whose own offsets topic may not be read."""
    log = PartlyReadableLog()
    await log.create_topic("own", 1)
    await log.append([raw("own", '["orders",{"filename":"a.txt"}]', '{"position":7}')])
    log.refused.add("own")
    settings = Settings(follower=FollowerLimits(topics_poll_ms=5))
    async with plane_on(log, settings, plugins=catalogue()) as plane:
        await plane.execute(CreateConnector("orders", OWN))
        await plane.execute(StopConnector("orders"))
        yield plane, log


@asynccontextmanager
async def read_only_client(log: PartlyReadableLog) -> AsyncIterator[httpx.AsyncClient]:
    """Client of a service that only reads the log."""
    profile = Profile.of(KIP)
    context = Context(profile=profile, plugins=catalogue())
    async with Follower(log, limits=FollowerLimits(topics_poll_ms=5)) as follower:
        planner = ReadOnlyPlanner(follower, log, context)
        feed = ChangeFeed(follower, log, profile)
        service = compose(follower, log, context, watching=feed, planner=planner)
        async with client_of(App(service)) as client:
            yield client


@pytest.mark.parametrize(
    "path",
    [
        OFFSETS,
        f"{OFFSETS}?as_of=config@0",
        "/connectors/orders/progress",
        "/connectors/orders/history",
    ],
)
@pytest.mark.parametrize("read_only", [False, True], ids=["plane", "read only"])
async def test_reads_of_the_offsets_name_the_missing_right(path: str, read_only: bool) -> None:
    """The answer is that of an unreadable log, and never an empty list."""
    async with refusing_plane() as (plane, log):
        clients = read_only_client(log) if read_only else client_of(plane.app)
        async with clients as client:
            answer = await client.get(path)
            assert (answer.status_code, answer.json()) == (503, UNREADABLE)
            assert (await client.get("/connectors/orders/config")).json() == OWN | {
                "name": "orders"
            }


@pytest.mark.parametrize("query", ["", "?dry_run=true"])
async def test_changes_of_the_offsets_name_the_missing_right(query: str) -> None:
    """Alter, reset and a creation with offsets are refused, and write nothing."""
    body = {"name": "new", "config": OWN, "initial_offsets": [CHANGE]}
    async with refusing_plane() as (plane, log), client_of(plane.app) as client:
        before = await log.ends(["own", "connect-configs", "connect-offsets"])
        for answer in (
            await client.delete(OFFSETS + query),
            await client.patch(OFFSETS + query, json={"offsets": [CHANGE]}),
            await client.post("/connectors" + query, json=body),
        ):
            assert (answer.status_code, answer.json()) == (503, UNREADABLE)
        assert await log.ends(before) == before


async def test_plans_of_a_read_only_service_name_the_missing_right() -> None:
    """A dry run of a reset is refused; that of another command is answered."""
    async with refusing_plane() as (_, log), read_only_client(log) as client:
        answer = await client.delete(f"{OFFSETS}?dry_run=true")
        assert (answer.status_code, answer.json()) == (503, UNREADABLE)
        assert (await client.put("/connectors/orders/resume?dry_run=true")).is_success


async def test_another_config_ends_the_trouble() -> None:
    """The config may be changed, also to one without the topic; then offsets are readable."""
    async with refusing_plane() as (plane, _), client_of(plane.app) as client:
        await plane.execute(PutConfig("orders", OWN | {"topic": "others"}))
        await plane.execute(PutConfig("orders", SOURCE))
        assert (await client.get(OFFSETS)).json() == {"offsets": {"source": []}}
        assert (await client.delete(OFFSETS)).is_success


async def test_a_granted_right_needs_no_restart() -> None:
    """Once the right is granted, the offsets are shown and can be reset."""
    async with refusing_plane() as (plane, log), client_of(plane.app) as client:
        log.refused.clear()
        await until(lambda: "own" in plane.follower.ends)
        await plane.follower.wait_for(await log.ends(["own"]))
        shown = [{"partition": {"filename": "a.txt"}, "offset": {"position": 7}}]
        assert (await client.get(OFFSETS)).json() == {"offsets": {"source": shown}}
        assert (await client.delete(OFFSETS)).is_success
        assert (await client.get(OFFSETS)).json() == {"offsets": {"source": []}}


async def test_an_embedded_plane_raises_the_reason() -> None:
    """A program gets the error of the log for a creation with offsets."""
    changes = (OffsetChange(CHANGE["partition"], CHANGE["offset"]),)
    async with refusing_plane() as (plane, _):
        with pytest.raises(LogNotUsable, match=refusal("own")):
            await plane.execute(CreateConnector("new", OWN, initial_offsets=changes))
