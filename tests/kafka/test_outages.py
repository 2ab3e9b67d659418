"""Outages of a real broker: the service gives the last known state, marked as possibly old."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from controlplane.logs.kafka.limits import ReadLimits
from controlplane.projection.follower import Follower
from controlplane.projection.limits import FollowerLimits
from controlplane.rest.app import NOTICE, App
from tests.kafka.conftest import up
from tests.kafka.producer import create_topic_on, reading, writer
from tests.kafka.real_kafka import Broker
from tests.outages import FollowerNotices
from tests.patience import PATIENCE_S
from tests.rest.served_history import client_of, service_of

pytestmark = [pytest.mark.java, pytest.mark.broker]

BrokerAction = Callable[[], Awaitable[None]]

RELEASE = "3.9.1"
CONFIGS = "connect-configs"
SOON = ReadLimits(request_timeout_ms=1_500, connect_timeout_ms=1_500)
"""Settings with which a hanging broker is noticed soon."""
OFTEN = FollowerLimits(topics_poll_ms=50)
SETTLED_S = 1
"""Seconds until the follower knows its topics; then only the tail sends requests to the leader."""
AWAY_S = 4
"""Seconds for several retries, in which a second notice could come."""


async def test_an_outage_of_the_only_broker_is_reported(tmp_path: Path) -> None:
    """The follower reports the outage and its end once each, and serves its state meanwhile."""
    async with up(RELEASE, tmp_path) as broker:
        await create_topic_on(broker, CONFIGS, 1)
        await _outage(broker, broker.kill9, broker.start)


@pytest.mark.prove
async def test_an_outage_of_the_leader_is_reported(tmp_path: Path) -> None:
    """The outage is noticed, although the other broker still serves the topic that it leads."""
    async with _two(tmp_path) as (first, second):
        await _outage(first, second.kill9, second.start)


@pytest.mark.prove
async def test_a_hanging_leader_is_reported(tmp_path: Path) -> None:
    """The outage is noticed, although the cluster still takes the hanging broker for the leader."""
    async with _two(tmp_path, broker__session__timeout__ms=60_000) as (first, second):
        await _outage(first, second.hang, second.go_on)


@asynccontextmanager
async def _two(tmp_path: Path, **settings: Any) -> AsyncIterator[tuple[Broker, Broker]]:
    """Cluster whose second broker leads the config topic."""
    async with (
        up(RELEASE, tmp_path, **settings) as first,
        up(RELEASE, tmp_path / "second", joins=first) as second,
    ):
        await create_topic_on(first, CONFIGS, 2)
        await create_topic_on(first, "connect-status", 1)
        yield first, second


async def _outage(broker: Broker, go: BrokerAction, come_back: BrokerAction) -> None:
    """Stop the leader of the config topic; expect one notice of the outage and one of its end."""
    notices = FollowerNotices()
    await _put(broker, "before")
    async with (
        reading(broker.bootstrap, limits=SOON) as reader,
        Follower(reader, notices=notices, limits=OFTEN) as follower,
        client_of(App(service_of(follower, RELEASE))) as client,
    ):
        await _until(client, ["before"], noticed=False)
        await asyncio.sleep(SETTLED_S)
        await go()
        await _until(client, ["before"], noticed=True)
        await asyncio.sleep(AWAY_S)
        await _until(client, ["before"], noticed=True)
        await come_back()
        await _put(broker, "after")
        await _until(client, ["after", "before"], noticed=False)
    assert [event.split(":")[0] for event in notices.events] == [
        "log_not_followed",
        "log_followed_again",
    ]


async def _put(broker: Broker, name: str) -> None:
    async with writer(broker) as out:
        await out.put(CONFIGS, 0, f"connector-{name}".encode(), b'{"properties":{"name":"x"}}')


async def _until(client: httpx.AsyncClient, names: list[str], *, noticed: bool) -> None:
    """Wait until the service answers with these connectors, with or without the notice."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            answer = await client.get("/connectors")
            if (sorted(answer.json()), NOTICE in answer.headers) == (names, noticed):
                return
            await asyncio.sleep(0.02)
