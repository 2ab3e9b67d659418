"""`controlplane serve --own` on a broker, with connectors that run in its process."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from aiokafka import AIOKafkaConsumer

from controlplane.core.state import Topics
from tests.kafka.own_service import serving_own, worker_file
from tests.kafka.producer import reading
from tests.kafka.real_kafka import Broker
from tests.patience import PATIENCE_S

STRING = "org.apache.kafka.connect.storage.StringConverter"
POLL_S = 0.1
READ_MS = 200
"""Wait for records at the end of a topic."""

WORKER = {
    "plugin__path": "controlplane.connectors",
    "key__converter": STRING,
    "value__converter": STRING,
    "offset__flush__interval__ms": 100,
}
"""Settings of a worker that runs connectors."""


def connectors_file(folder: Path, topics: Topics, **settings: object) -> Path:
    """Worker's file for connectors that may use files below the folder."""
    overrides = {**WORKER, "connectors__folders": folder, **settings}
    return worker_file(folder, topics, **overrides)


@asynccontextmanager
async def running_connectors(
    broker: Broker, file: Path, configs: Mapping[str, Mapping[str, str]]
) -> AsyncIterator[httpx.AsyncClient]:
    """Serve, create these connectors unless they exist, and wait until their tasks run."""
    async with serving_own(broker, file) as (_, client):
        await create(client, configs)
        yield client


async def create(client: httpx.AsyncClient, configs: Mapping[str, Mapping[str, str]]) -> None:
    """Create connectors, and wait until their tasks run."""
    for name, config in configs.items():
        answer = await client.put(f"/connectors/{name}/config", json=config)
        assert answer.is_success, answer.text
    for name in configs:
        await until_running(client, name)


async def until(condition: Callable[[], Awaitable[Any]]) -> Any:
    """Wait until a condition holds; return its value."""
    async with asyncio.timeout(PATIENCE_S):
        while not (value := await condition()):  # noqa: ASYNC110 - no single event makes it true
            await asyncio.sleep(POLL_S)
    return value


async def task_states(client: httpx.AsyncClient, name: str) -> list[str]:
    """States of the connector and its tasks."""
    answer = await client.get(f"/connectors/{name}/status")
    if not answer.is_success:
        return []
    status = answer.json()
    return [status["connector"]["state"], *(task["state"] for task in status["tasks"])]


async def until_running(client: httpx.AsyncClient, name: str) -> None:
    """Wait until a connector and its tasks run; fail with a task's trace."""

    async def runs() -> bool:
        answer = (await client.get(f"/connectors/{name}/status")).json()
        traces = [task["trace"] for task in answer.get("tasks", ()) if "trace" in task]
        assert not traces, traces[0]
        states = await task_states(client, name)
        return len(states) > 1 and {*states} == {"RUNNING"}

    await until(runs)


async def until_failed(client: httpx.AsyncClient, name: str) -> str:
    """Wait until the first task has failed; return its trace."""

    async def trace() -> str:
        answer = (await client.get(f"/connectors/{name}/status")).json()
        traces = [task["trace"] for task in answer.get("tasks", ()) if "trace" in task]
        return str(traces[0]) if traces else ""

    return str(await until(trace))


async def records_in(broker: Broker, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values of the committed records of a topic, by partition and offset."""
    return [(record.key, record.value) for record in await consumed(broker, topic)]


async def consumed(broker: Broker, topic: str) -> list[Any]:
    """Committed records of a topic (`ConsumerRecord`), by partition and offset."""
    async with reading(broker.bootstrap) as reader:
        if topic not in await reader.topics():
            return []  # a consumer would create it
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    await consumer.start()
    try:
        places = sorted(consumer.assignment())
        ends = await consumer.end_offsets(places)
        records: dict[Any, list[Any]] = {place: [] for place in places}
        async with asyncio.timeout(PATIENCE_S):
            while any([await consumer.position(place) < ends[place] for place in places]):
                for place, fetched in (await consumer.getmany(timeout_ms=READ_MS)).items():
                    records[place] += fetched
        return [record for place in places for record in records[place]]
    finally:
        await consumer.stop()


async def starts_of_first_task(broker: Broker, topics: Topics, connector: str) -> int:
    """Number of times that the first task of a connector has reported RUNNING."""
    status_key = f"status-task-{connector}-0".encode()
    return sum(
        record_key == status_key and json.loads(value or b"{}").get("state") == "RUNNING"
        for record_key, value in await records_in(broker, topics.status)
    )


async def values_in(broker: Broker, topic: str) -> list[str]:
    """Values of a topic as text."""
    return [(value or b"").decode() for _, value in await records_in(broker, topic)]


async def until_values(broker: Broker, topic: str, expected: list[str]) -> None:
    """Wait until a topic holds these values."""
    actual: list[str] = []

    async def reached() -> bool:
        actual[:] = await values_in(broker, topic)
        return actual == expected

    try:
        await until(reached)
    except TimeoutError:
        raise AssertionError(actual) from None


async def until_text(path: Path, expected: str) -> None:
    """Wait until a file has this text."""

    async def reached() -> bool:
        return text_of(path) == expected

    try:
        await until(reached)
    except TimeoutError:
        raise AssertionError(text_of(path)) from None


def text_of(path: Path) -> str | None:
    """Text of a file; None without one."""
    return path.read_text("utf-8") if path.exists() else None


async def offsets_of(client: httpx.AsyncClient, name: str) -> list[Any]:
    """Committed offsets that the REST API shows."""
    listed = (await client.get(f"/connectors/{name}/offsets")).json()["offsets"]
    pairs = next(iter(listed.values())) if isinstance(listed, dict) else listed
    return [pair["offset"] for pair in pairs]
