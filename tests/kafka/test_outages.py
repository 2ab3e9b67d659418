"""What is served while a real broker is gone: what was known before, and that it may be old."""

import asyncio
from pathlib import Path

import httpx
import pytest

from controlplane.core.profiles import Profile
from controlplane.follower import Follower
from controlplane.rest.app import NOTICE, App
from tests.kafka.conftest import up
from tests.kafka.real import Broker
from tests.kafka.writing import create_topic_on, reading, writer
from tests.outages import Told
from tests.rest.serving import client_of

pytestmark = [pytest.mark.java, pytest.mark.broker]

RELEASE = "3.9.1"
CONFIGS = "connect-configs"
COMES_S = 60
"""Far more than an outage and a recovery take."""


async def test_the_only_broker_is_gone(tmp_path: Path) -> None:
    """Nobody is left who could be asked."""
    async with up(RELEASE, tmp_path) as broker:
        await create_topic_on(broker, CONFIGS, 1)
        await _outage(broker, broker)


async def test_only_the_leader_is_gone(tmp_path: Path) -> None:
    """The other broker goes on answering, also for a topic of its own: no sign that all is well."""
    async with (
        up(RELEASE, tmp_path) as first,
        up(RELEASE, tmp_path / "second", joins=first) as second,
    ):
        await create_topic_on(first, CONFIGS, 2)
        await create_topic_on(first, "connect-status", 1)
        await _outage(first, second)


async def _outage(asked: Broker, leader: Broker) -> None:
    """Kill the leader of the config topic: that is told, once, till it is back."""
    told = Told()
    await _put(asked, "before")
    async with (
        reading(asked.bootstrap) as reader,
        Follower(reader, notices=told) as follower,
        client_of(App(follower, dialect=Profile.of(RELEASE))) as client,
    ):
        await _until(client, ["before"], noticed=False)
        await leader.kill9()
        await _until(client, ["before"], noticed=True)
        await asyncio.sleep(2)  # time in which it could be told again
        await _until(client, ["before"], noticed=True)
        await leader.start()
        await _put(asked, "after")
        await _until(client, ["after", "before"], noticed=False)
    assert [event.split(":")[0] for event in told.events] == [
        "log_not_followed",
        "log_followed_again",
    ]


async def _put(broker: Broker, name: str) -> None:
    async with writer(broker) as out:
        await out.put(CONFIGS, 0, f"connector-{name}".encode(), b'{"properties":{"name":"x"}}')


async def _until(client: httpx.AsyncClient, names: list[str], *, noticed: bool) -> None:
    """Wait until the service answers with these connectors, with or without a notice."""
    async with asyncio.timeout(COMES_S):
        while True:
            answer = await client.get("/connectors")
            if (sorted(answer.json()), NOTICE in answer.headers) == (names, noticed):
                return
            await asyncio.sleep(0.02)
