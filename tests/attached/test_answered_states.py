"""A command is answered before its records are folded; reads wait for the fold."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from controlplane.attached import idle_signal
from controlplane.attached.answered_states import AnsweredStates
from controlplane.attached.idle_signal import IdleSignal
from controlplane.core.records import Target
from controlplane.logs.log import Record
from controlplane.logs.memory import MemoryLog
from controlplane.projection.follower import Follower
from tests.attached.test_attached_plane import (
    PAUSE,
    AnswerRequest,
    SteeredLog,
    config_record,
    steered,
)
from tests.attached.test_follow_up import PROFILE, TOPICS
from tests.outages import Cable, until
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


async def test_reads_go_on_during_an_outage() -> None:
    """While the log cannot be followed, nothing is folded, and a read answers at once."""
    log = MemoryLog()
    for topic in (TOPICS.config, TOPICS.offsets, TOPICS.status):
        await log.create_topic(topic, 1)
    cable = Cable(log)
    async with Follower(cable, topics=TOPICS) as follower:
        states = AnsweredStates(follower, IdleSignal())
        await states.state(PROFILE)
        cable.cut.set()
        await log.append([PAUSED])
        await until(lambda: states.failure is not None)
        with states.folding():
            reading = asyncio.create_task(states.state(PROFILE))
            assert "orders" not in (await asyncio.wait_for(reading, PATIENCE_S)).config.targets
