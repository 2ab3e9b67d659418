"""A command is answered before its records are folded; reads wait for the fold."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from controlplane.attached import idle_signal
from controlplane.core.records import Target
from controlplane.logs.log import Record
from tests.attached.test_attached_plane import (
    PAUSE,
    AnswerRequest,
    SteeredLog,
    config_record,
    steered,
)
from tests.attached.test_follow_up import PROFILE, TOPICS
from tests.outages import until
from tests.patience import PATIENCE_S

PAUSED = Record(TOPICS.config, 0, 1, b"target-state-orders", b'{"state":"PAUSED"}')


@asynccontextmanager
async def paused_by(worker: AnswerRequest) -> AsyncIterator[SteeredLog]:
    """Cluster with one connector and this worker."""
    async with steered(worker) as cluster:
        await cluster.log.append([config_record()])
        await cluster.follow_up.read_on()
        yield cluster


async def pauses(_: httpx.Request) -> httpx.Response:
    """Answer like a worker whose record this service gets later."""
    return httpx.Response(202)


async def test_a_read_after_an_answer_shows_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer does not wait for the fold. A read does, and lets the fold begin at once."""
    monkeypatch.setattr(idle_signal, "DELIVERY_S", PATIENCE_S)
    async with paused_by(pauses) as cluster, cluster.plane() as plane:
        states = cluster.follow_up.states
        moves = states.moves
        await plane.carry_out(PAUSE, principal="ada", key=None, profile=None)
        assert states.moves != moves, "answers that were cached before the command stay valid"
        reading = asyncio.create_task(states.state(PROFILE))
        reading_past = asyncio.create_task(states.state_at("config@1", PROFILE))
        await asyncio.sleep(0)
        assert not reading.done()
        await cluster.log.append([PAUSED])
        assert (await reading).config.targets["orders"] is Target.PAUSED
        assert (await reading_past).state.config.targets["orders"] is Target.PAUSED


async def test_a_fold_begins_without_a_read() -> None:
    """The records of an answered command are folded soon, also if nobody reads."""
    async with paused_by(pauses) as cluster, cluster.plane() as plane:
        await plane.carry_out(PAUSE, principal="ada", key=None, profile=None)
        await cluster.log.append([PAUSED])
        await until(lambda: cluster.follow_up.present.config.targets["orders"] is Target.PAUSED)


async def test_an_answer_waits_for_the_fold_during_an_outage() -> None:
    """While the log cannot be followed, the caller waits, and other clients can read."""
    async with paused_by(pauses) as cluster, cluster.plane() as plane:
        states = cluster.follow_up.states
        cluster.log.is_cut = True
        await cluster.log.append([config_record()])
        await until(lambda: states.failure is not None)
        command = plane.carry_out(PAUSE, principal="ada", key=None, profile=None)
        answering = asyncio.create_task(command)
        await until(lambda: bool(cluster.sent))
        state = await asyncio.wait_for(states.state(PROFILE), PATIENCE_S)
        assert state.config.targets["orders"] is not Target.PAUSED
        assert not answering.done()
        cluster.log.is_cut = False
        await cluster.log.append([PAUSED])
        await answering
        assert (await states.state(PROFILE)).config.targets["orders"] is Target.PAUSED
