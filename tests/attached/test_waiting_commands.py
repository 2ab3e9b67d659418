"""Comparison of a command with its plan while the next command of its connector waits."""

import asyncio

import httpx
import pytest

from controlplane.attached import idle_signal
from controlplane.core.commands import AnyCommand, PauseConnector, ResumeConnector
from controlplane.logs.log import Record
from tests.attached.test_attached_plane import (
    STARTED_RECORD,
    SteeredLog,
    config_record,
    outcome_of,
    steered,
)
from tests.attached.test_follow_up import TOPICS
from tests.outages import until
from tests.patience import PATIENCE_S

STATES = {"pause": "PAUSED", "resume": "STARTED"}
"""Target states by the last part of the path of a request."""

CONFIG_END = (TOPICS.config,)
"""Topics of a request for the end of the config topic."""


async def comparisons(*foreign: Record, is_late: bool) -> tuple[list[str], list[tuple[str, ...]]]:
    """Results of the comparisons of a pause and a resume, and the topics whose ends were read.

    Another client writes `foreign` before the worker carries out the pause. The resume comes before
    or after (`is_late`) the answer to the pause.
    """
    cluster: SteeredLog

    async def worker(request: httpx.Request) -> httpx.Response:
        action = request.url.path.rpartition("/")[2]
        value = f'{{"state":"{STATES[action]}","state.v2":"{STATES[action]}"}}'
        record = Record(TOPICS.config, 0, 1, b"target-state-orders", value.encode())
        others = foreign if action == "pause" else ()
        await cluster.log.append([*others, record])
        return httpx.Response(202)

    async with steered(worker) as cluster:
        await cluster.log.append([config_record()])
        await cluster.follow_up.read_on()
        cluster.log.topics_asked.clear()
        async with cluster.plane() as plane:

            async def carry_out(command: AnyCommand, key: str) -> None:
                await plane.carry_out(command, principal="ada", key=key, profile=None)

            pause = asyncio.create_task(carry_out(PauseConnector("orders"), "pause"))
            if is_late:
                await pause
            resume = asyncio.create_task(carry_out(ResumeConnector("orders"), "resume"))
            await asyncio.gather(pause, resume)
            await until(lambda: not cluster.trail.commands["pause"].unfinished)
        traces = cluster.trail.commands
        compared = [outcome_of(traces[key])["compared"] for key in ("pause", "resume")]
        return compared, cluster.log.topics_asked


@pytest.mark.parametrize("is_late", [False, True])
async def test_a_waiting_command_spares_the_earlier_one_a_request(
    is_late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the last comparison reads the config topic to its end, so the resume waits less."""
    monkeypatch.setattr(idle_signal, "LONGEST_S", PATIENCE_S)
    assert await comparisons(is_late=is_late) == (["as planned", "as planned"], [CONFIG_END])


async def test_a_difference_is_checked_although_a_command_waits() -> None:
    """The earlier command is compared again, with the records up to the end of the log."""
    results = await comparisons(STARTED_RECORD, is_late=False)
    assert results == (["differs", "as planned"], [CONFIG_END, CONFIG_END])
