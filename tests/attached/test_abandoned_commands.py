"""Commands of an attached cluster whose callers disconnect."""

import asyncio

import httpx
import pytest

from controlplane.attached.attached_plane import AttachedPlane
from controlplane.attached.execution import AttachedAnswer
from controlplane.core.commands import AnyCommand, PauseConnector, ResumeConnector
from controlplane.rest.errors import WorkerAnswer
from tests.attached.test_attached_plane import steered
from tests.outages import until

PAUSE, RESUME = PauseConnector("orders"), ResumeConnector("orders")
PAUSED = ("PUT", "/connectors/orders/pause")
RESUMED = ("PUT", "/connectors/orders/resume")


def begin(plane: AttachedPlane, command: AnyCommand, key: str) -> "asyncio.Task[AttachedAnswer]":
    """Begin a call."""
    return asyncio.create_task(plane.carry_out(command, principal="ada", key=key, profile=None))


@pytest.mark.parametrize("callers", [1, 2])
async def test_a_command_that_waits_ends_with_its_last_caller(callers: int) -> None:
    """No worker gets a command that nobody waits for. A repeated key runs it."""
    released = asyncio.Event()

    async def worker(_: httpx.Request) -> httpx.Response:
        await released.wait()
        return httpx.Response(202)

    async with steered(worker) as cluster, cluster.plane() as plane:
        pause = begin(plane, PAUSE, "p")
        await until(lambda: cluster.sent == [PAUSED])
        resumes = [begin(plane, RESUME, "r") for _ in range(callers)]
        await until(lambda: "r" in plane._running and plane._running["r"].callers == callers)
        resumes[0].cancel()
        repeated = begin(plane, RESUME, "r")
        released.set()
        answers = [await call for call in (pause, *resumes[1:], repeated)]
        assert all(isinstance(answer, WorkerAnswer) for answer in answers)
        with pytest.raises(asyncio.CancelledError):
            await resumes[0]
        assert cluster.sent == [PAUSED, RESUMED]


async def test_an_abandoned_command_is_not_sent() -> None:
    """A command that has begun goes on; one that waits is cancelled."""
    released = asyncio.Event()

    async def worker(_: httpx.Request) -> httpx.Response:
        await released.wait()
        return httpx.Response(202)

    async with steered(worker) as cluster:
        async with cluster.plane() as plane:
            calls = [begin(plane, PAUSE, "p")]
            await until(lambda: cluster.sent == [PAUSED])
            calls.append(begin(plane, RESUME, "r"))
            await until(lambda: "r" in plane._running and plane._running["r"].callers == 1)
            for call in calls:
                call.cancel()
            await until(lambda: "r" not in plane._running)
            released.set()
        assert cluster.sent == [PAUSED]
        assert [*cluster.trail.commands] == ["p"]
        assert not cluster.trail.commands["p"].unfinished
