"""Commands whose connector has an earlier command that cannot be ended yet."""

import asyncio

import httpx
import pytest

from controlplane.attached.attached_plane import AttachedPlane
from controlplane.attached.execution import AttachedAnswer
from controlplane.core.commands import (
    AnyCommand,
    CommandRequest,
    PauseConnector,
    RestoreConnector,
    ResumeConnector,
)
from controlplane.core.plan import Reason, Rejected
from controlplane.core.records import Target
from controlplane.rest.errors import WorkerAnswer, refused
from tests.attached.test_attached_plane import CONFIG, config_record, steered
from tests.outages import until

RESUME = ResumeConnector("orders")
UNDO = RestoreConnector("orders", CONFIG | {"tasks.max": "1"}, Target.PAUSED)
"""Undo of two requests: the config, then the target state."""


async def carried_out(plane: AttachedPlane, command: AnyCommand, key: str) -> AttachedAnswer:
    """Answer to a command."""
    return await plane.carry_out(command, principal="ada", key=key, profile=None)


async def test_a_later_command_learns_what_has_not_ended() -> None:
    """Both callers of the next command are refused while workers are away; later it runs."""
    is_up, replies = asyncio.Event(), [httpx.Response(200, json={})]

    async def worker(_: httpx.Request) -> httpx.Response:
        if replies:
            await cluster.log.append([config_record(1)])
            return replies.pop()
        if not is_up.is_set():
            raise httpx.ConnectError("refused")
        return httpx.Response(202)

    async with steered(worker) as cluster:
        await cluster.log.append([config_record(2)])
        await cluster.follow_up.read_on()
        async with cluster.plane() as plane:
            assert isinstance(await carried_out(plane, UNDO, "undo"), Rejected)
            calls = [carried_out(plane, RESUME, "resume") for _ in range(2)]
            answers = await asyncio.gather(*calls)
            assert ("PUT", "/connectors/orders/resume") not in cluster.sent
            assert "resume" not in cluster.trail.commands
            other = await carried_out(plane, PauseConnector("other"), "other")
            is_up.set()
            await until(lambda: not cluster.trail.commands["undo"].unfinished)
            later = await carried_out(plane, RESUME, "resume")
    for answer in answers:
        assert isinstance(answer, Rejected)
        assert answer.reason is Reason.CONFLICT
        assert refused(answer).status == httpx.codes.CONFLICT
        assert answer.sentence == (
            "The command undo (restore) of connector orders has not ended yet (No worker of "
            "http://w has taken the request (http://w cannot be reached: refused)). This command "
            "was not sent: send it again later (see GET /commands)"
        )
    assert isinstance(later, WorkerAnswer)
    assert "has not ended yet" not in str(other)


@pytest.mark.parametrize("delay_s", [0, 0.2])
async def test_a_restarted_service_tells_what_has_not_ended(delay_s: float) -> None:
    """The command was cut off by a crash, and the workers are still away.

    The service may learn that only after the first look, which follows its patience of 40 ms.
    Regression: the caller then waited for minutes.
    """

    async def gone(_: httpx.Request) -> httpx.Response:
        await asyncio.sleep(delay_s)
        raise httpx.ConnectError("refused")

    async with steered(gone) as cluster:
        await cluster.log.append([config_record(2)])
        await cluster.follow_up.read_on()
        plan = await cluster.planner.plan(cluster.follow_up.present, UNDO)
        request = CommandRequest(command=UNDO, command_id="undo", at_ms=1, keyed=True)
        ends = cluster.follow_up.ends
        await cluster.trail.accepted(request, plan, ends, "put-config")
        async with cluster.plane() as plane:
            await asyncio.sleep(0)  # the task of the cut-off command takes the lock first
            answer = await carried_out(plane, RESUME, "resume")
        assert cluster.trail.commands["undo"].unfinished
    assert isinstance(answer, Rejected)
    assert answer.sentence.startswith(
        "The command undo (restore) of connector orders has not ended"
    )
