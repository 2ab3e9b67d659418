"""End of an attached plane, while commands wait."""

import asyncio

import httpx
import pytest

from controlplane.attached.attached_plane import AttachedPlane
from controlplane.attached.command_trail import ClusterIdentity, Trail
from controlplane.attached.connect_client import ConnectClient
from controlplane.attached.execution import AttachedSurroundings
from controlplane.attached.planner import ClusterPlanner
from controlplane.attached.settings import ConnectSettings
from controlplane.controller.controller import Closed
from controlplane.core.commands import AnyCommand, PauseConnector, ResumeConnector
from controlplane.core.context import Context
from controlplane.logs.memory import MemoryLog
from controlplane.plugins import catalogued
from tests.attached.test_follow_up import ORIGIN, PROFILE, TOPICS, followed
from tests.outages import until
from tests.worker.worker_fixture import RecordedNotices

RELEASED_S = 0.05
"""Time after which the worker answers: the plane is closing by then."""


async def test_a_closing_plane_sends_no_command_that_waits() -> None:
    """The command that has begun is completed; the next one of its connector is cancelled."""
    sent: list[str] = []
    released = asyncio.Event()

    async def worker(request: httpx.Request) -> httpx.Response:
        sent.append(request.url.path)
        await released.wait()
        return httpx.Response(202)

    client = ConnectClient(
        {"http://w": httpx.AsyncClient(base_url="http://w", transport=httpx.MockTransport(worker))},
        ConnectSettings(patience_ms=40, retry_ms=1, records_ms=1),
    )
    identity = ClusterIdentity(None, TOPICS.config)
    trail = await Trail.open(MemoryLog(), TOPICS.commands, identity, 0)
    planner = ClusterPlanner(
        Context(profile=PROFILE, plugins=catalogued(trusting=True)), client, ORIGIN
    )
    around = AttachedSurroundings(RecordedNotices())
    async with followed() as (log, _):
        async with AttachedPlane.open(client, planner, log, trail, around) as plane:

            def begin(command: AnyCommand) -> asyncio.Task[object]:
                return asyncio.create_task(
                    plane.carry_out(command, principal="ada", key=None, profile=None)
                )

            pause, resume = begin(PauseConnector("a")), begin(ResumeConnector("a"))
            await until(lambda: bool(sent))
            asyncio.get_running_loop().call_later(RELEASED_S, released.set)
        assert pause.done()
        with pytest.raises(Closed):
            await resume
    assert sent == ["/connectors/a/pause"]
