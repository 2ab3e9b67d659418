"""A config that is larger than the broker's default `max.message.bytes`, on own topics."""

from pathlib import Path

import httpx
import pytest

from controlplane.core.state import Topics
from tests.kafka.own_service import serving_own, worker_file
from tests.kafka.producer import read_entries, reading
from tests.kafka.real_kafka import Broker

pytestmark = [pytest.mark.java, pytest.mark.broker]

SOURCE = {"connector.class": "FileStreamSource", "file": "in.txt", "topic": "lines"}
LARGE = SOURCE | {"large": "x" * 2**20}
INITIAL = [{"partition": {"filename": "in.txt"}, "offset": {"position": 3}}]

REQUESTS = (
    ("PUT", "/connectors/a/config", LARGE),
    ("POST", "/connectors", {"name": "b", "config": LARGE}),
    ("POST", "/connectors", {"name": "b", "config": LARGE, "initial_offsets": INITIAL}),
)
"""Commands of one step, and one of several."""


async def values(broker: Broker, topics: Topics) -> list[bytes]:
    """Committed values in the config topic and the offsets topic, without tombstones."""
    async with reading(broker.bootstrap) as reader:
        entries = await read_entries(reader, [topics.config, topics.offsets])
    return [entry.value for entry in entries if entry.value and not entry.aborted]


async def test_a_config_of_a_mebibyte_is_refused_whole(
    broker: Broker, own_topics: Topics, tmp_path: Path
) -> None:
    """The refusal has Connect's status and names the limit; nothing is half done.

    The service continues, and the next process finds the same state.
    """
    file = worker_file(tmp_path, own_topics)
    async with serving_own(broker, file) as (_, client):
        created = await client.post("/connectors", json={"name": "a", "config": SOURCE})
        assert created.is_success, created.text
        before = await values(broker, own_topics)
        for method, path, body in REQUESTS:
            answer = await client.request(method, path, json=body)
            assert answer.status_code == httpx.codes.INTERNAL_SERVER_ERROR
            message = answer.json()["message"]
            assert "refuses a record larger than its max.message.bytes: shorten it" in message
            assert await values(broker, own_topics) == before
            await _check_unchanged(client)
            listed = (await client.get("/commands")).json()["commands"][-1]
            assert (listed["outcome"], listed["connector"]) == ("refused", body.get("name", "a"))
            assert listed["reason"] == message
        small = {"name": "c", "config": SOURCE, "initial_offsets": INITIAL}
        assert (await client.post("/connectors", json=small)).is_success
        assert (await client.delete("/connectors/c")).is_success
    async with serving_own(broker, file) as (_, client):
        await _check_unchanged(client)


async def _check_unchanged(client: httpx.AsyncClient) -> None:
    """Check that the service is healthy and has the first connector alone, with its config."""
    assert (await client.get("/health")).json()["status"] == "healthy"
    assert (await client.get("/connectors")).json() == ["a"]
    assert (await client.get("/connectors/a/config")).json() == {"name": "a", **SOURCE}
    commands = (await client.get("/commands")).json()["commands"]
    assert all(command["outcome"] is not None for command in commands)
