"""A connector names an offsets topic that the service may see, but not read: missing ACL.

The services read all other topics. Answers about the offsets of this connector name the right.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from controlplane.core.releases.profiles import KIP, Profile
from controlplane.core.state import Topics
from controlplane.logs.log_factory import OpenOptions, open_log
from controlplane.read_only.read_only_service import (
    ReadOnlySettings,
    read_only_settings,
    reading_service,
)
from controlplane.rest.app import App
from controlplane.settings import Configuration
from controlplane.settings.sources import flag_values
from tests.cli.command_calls import call, refusal
from tests.kafka.access_rights import Right, allow, revoke, settings_of
from tests.kafka.conftest import NEWEST
from tests.kafka.producer import create_topic, writer
from tests.kafka.real_kafka import OAUTH_LISTENER, Broker, cluster_settings, dotted
from tests.kafka.test_access_rights import check_sentence, own_of, own_rights
from tests.kafka.test_serve_own import SOURCE
from tests.outages import FollowerNotices
from tests.patience import PATIENCE_S
from tests.rest.served_history import catalogue, client_of

pytestmark = [pytest.mark.java, pytest.mark.broker, NEWEST]

OFFSETS = "/connectors/s/offsets"
KEY, VALUE = b'["s",{"filename":"in.txt"}]', b'{"position":7}'
SHOWN = [{"partition": {"filename": "in.txt"}, "offset": {"position": 7}}]


async def answered(client: httpx.AsyncClient, path: str, expected: int) -> Any:
    """The answer to a request, once it has this status: a broker applies rights a moment later."""
    async with asyncio.timeout(PATIENCE_S):
        while (answer := await client.get(path)).status_code != expected:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return answer.json()


async def shown_offsets(client: httpx.AsyncClient) -> None:
    """Wait until the offsets are shown: the topic is followed and folded."""
    async with asyncio.timeout(PATIENCE_S):
        while (await client.get(OFFSETS)).json().get("offsets") != {"source": SHOWN}:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def settings_for(where: str, settings: Mapping[str, str]) -> tuple[Configuration, ReadOnlySettings]:
    """Configuration with these settings, and those of a service that reads the cluster."""
    values = flag_values((key, key, text) for key, text in settings.items())
    configuration = Configuration(values)
    return configuration, read_only_settings(
        where, configuration, Profile.of(KIP), catalogue(), exactly_once=False
    )


async def test_a_reading_service_goes_on(
    broker: Broker, own_topics: Topics, tmp_path: Path
) -> None:
    """All other topics are followed; a granted and a revoked right take effect at once.

    Also `inspect` reads the other topics, and refuses to show the offsets.
    """
    user, where = f"user-{own_topics.config}", f"kafka://{broker.address(OAUTH_LISTENER)}"
    own = own_topics.config.replace("configs", "own")
    missing = Right("READ", "topic", own)
    connect_topics = msgspec.structs.astuple(own_topics)[:3]
    for topic in (*connect_topics, own):
        await create_topic(broker, topic)
    await allow(broker, user, [Right("READ", "topic", topic) for topic in connect_topics])
    await allow(broker, user, [Right("DESCRIBE", "topic", own)])
    settings = {**dotted(cluster_settings(own_topics)), **settings_of(user, tmp_path)}
    settings |= {"follower.topics.poll.ms": "50", "reader.refusal.patience.ms": "300"}
    configuration, reading = settings_for(where, settings)
    notices = FollowerNotices()
    file = tmp_path / "worker.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), "utf-8")
    inspect = ("inspect", where, "--worker-properties", file, "-o", "json")
    async with writer(broker) as out:

        async def put(name: str, **config: str) -> None:
            properties = msgspec.json.encode({"properties": SOURCE | {"name": name} | config})
            await out.put(own_topics.config, 0, f"connector-{name}".encode(), properties)

        await put("s", **{"offsets.storage.topic": own})
        await out.put(own, 0, KEY, VALUE)
        async with (
            await open_log(where, OpenOptions(own_topics, configuration)) as opened,
            reading_service(opened, reading, live=True, notices=notices) as service,
            client_of(App(service)) as client,
        ):
            check_sentence((await answered(client, OFFSETS, 503))["message"], missing)
            await notices.failed.wait()
            check_sentence(notices.events[0], missing)
            await put("late")
            await answered(client, "/connectors/late/config", 200)
            inspected = await asyncio.to_thread(call, *inspect)
            assert {row["name"] for row in inspected.json["connectors"]} == {"s", "late"}
            for command in (
                [*inspect, "--connector", "s"],
                ["plan", *inspect[1:], "DELETE", OFFSETS],
            ):
                check_sentence(refusal(await asyncio.to_thread(call, *command)), missing)
            answers = (await asyncio.to_thread(call, *inspect, "--rest")).json
            check_sentence(answers[OFFSETS]["answer"]["message"], missing)
            assert answers["/connectors/late/offsets"]["answer"] == {"offsets": {"source": []}}
            assert (await client.get("/health")).json()["status"] == "healthy"
            await allow(broker, user, [missing])
            await shown_offsets(client)
            await revoke(broker, user, missing)
            await answered(client, OFFSETS, 503)
            await put("later")
            await answered(client, "/connectors/later/config", 200)
    named = [event for event in notices.events if event.startswith("topic_not_followed")]
    assert len(named) == 2, notices.events


async def test_a_service_with_own_topics_goes_on(
    broker: Broker, own_topics: Topics, tmp_path: Path
) -> None:
    """Requests about the offsets are refused, all others succeed, until the right is granted."""
    user = f"user-{own_topics.config}"
    foreign = f"foreign-{own_topics.config}"
    missing = Right("READ", "topic", foreign)
    await create_topic(broker, foreign)
    await allow(broker, user, own_rights(own_topics).values())
    await allow(broker, user, [Right("WRITE", "topic", foreign)])  # it includes DESCRIBE
    change = {"offsets": [{"partition": {"filename": "in.txt"}, "offset": {"position": 8}}]}
    async with (
        writer(broker) as out,
        own_of(broker, user, own_topics, tmp_path) as client,
    ):
        await out.put(foreign, 0, KEY, VALUE)
        config = SOURCE | {"offsets.storage.topic": foreign}
        assert (await client.put("/connectors/s/config", json=config)).is_success
        assert (await client.put("/connectors/s/stop")).is_success
        for answer in (
            await client.get(OFFSETS),
            await client.patch(OFFSETS, json=change),
            await client.delete(OFFSETS),
        ):
            assert answer.status_code == httpx.codes.SERVICE_UNAVAILABLE
            check_sentence(answer.json()["message"], missing)
        assert (await client.put("/connectors/other/config", json=SOURCE)).is_success
        assert (await client.get("/connectors")).json() == ["other", "s"]
        await allow(broker, user, [missing])
        await shown_offsets(client)
        assert (await client.patch(OFFSETS, json=change)).is_success
        assert (await client.delete(OFFSETS)).is_success
