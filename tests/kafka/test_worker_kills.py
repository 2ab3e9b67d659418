"""`kill -9` in mid-stream on brokers: no record is lost; under exactly-once none is doubled.

A consumer of committed records counts the records.
"""

import asyncio
import json
import signal
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import httpx
import pytest

from controlplane.connectors.generator import invented_order
from controlplane.core.state import Topics
from tests.conftest import PROVE, seeded
from tests.kafka.conftest import NEWEST, unused_name
from tests.kafka.own_service import serving_own
from tests.kafka.producer import reading
from tests.kafka.real_kafka import Broker
from tests.kafka.worker_service import (
    connectors_file,
    consumed,
    create,
    records_in,
    until,
    until_running,
)

KILLS = 200 if PROVE else 2
"""Lives of the process; each is killed at a random moment of its first second with tasks."""

TASKS = 2

TRANSACTIONS_PER_S = 100
"""Rate of a task with a transaction for each order: without a limit they keep a core busy."""

pytestmark = [pytest.mark.java, pytest.mark.broker, pytest.mark.slow]


RATE = 1_000 if PROVE else 300
"""Orders per second of a task without a transaction for each order."""


def generator(topic: str, rate: int = RATE) -> dict[str, str]:
    """Config of a source of orders with two tasks; `rate` is the number per second and task."""
    return {
        "connector.class": "GeneratorSource",
        "topic": topic,
        "rate": str(rate),
        "tasks.max": str(TASKS),
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }


def task_of(order: dict[str, Any]) -> int:
    """Task that generated an order, derived from the order's contents."""
    number = order["order"]
    (task,) = [task for task in range(TASKS) if invented_order("1", task, number) == order]
    return task


async def orders_in(broker: Broker, topic: str) -> Counter[tuple[int, int]]:
    """Committed orders in a topic, by task and number."""
    orders = [json.loads(value or b"") for _, value in await records_in(broker, topic)]
    return Counter((task_of(order), order["order"]) for order in orders)


@NEWEST
@pytest.mark.parametrize("support", ["enabled", "disabled"])
async def test_killed_workers_lose_no_record(
    broker: Broker, own_topics: Topics, tmp_path: Path, support: str
) -> None:
    """The topic has every order up to the committed one; under exactly-once each one once.

    At least once: a restarted worker repeats only the orders since the last commit.
    """
    data, draw = unused_name(), seeded(f"kills on brokers, {support}")
    file = connectors_file(
        tmp_path, own_topics, exactly__once__source__support=support, offset__flush__interval__ms=20
    )
    for life in range(KILLS):
        async with serving_own(broker, file) as (service, client):
            if not life:
                await create(client, {"source": generator(data)})
            await until_running(client, "source")
            await asyncio.sleep(draw.uniform(0.1, 1.0))
            service.process.kill()
    async with serving_own(broker, file) as (_, client):
        await until_running(client, "source")
        assert (await client.put("/connectors/source/stop")).is_success

        async def stopped() -> bool:
            return not (await client.get("/connectors/source/status")).json()["tasks"]

        await until(stopped)
        listed = (await client.get("/connectors/source/offsets")).json()["offsets"]
    pairs = listed["source"]
    committed = {pair["partition"]["task"]: pair["offset"]["order"] for pair in pairs}
    orders = await orders_in(broker, data)
    assert sum(committed.values()) > 0
    for task, upto in committed.items():
        assert [number for number in range(upto) if not orders[task, number]] == []
    if support == "enabled":
        assert {*orders.values()} == {1}
        assert len(orders) == sum(committed.values())
    else:
        await _check_repeats(broker, data, own_topics.offsets)


async def _check_repeats(broker: Broker, topic: str, offsets_topic: str) -> None:
    """Check that each repetition begins at the last number that was committed before it."""
    commits: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)  # time, number
    for record in await consumed(broker, offsets_topic):
        _, partition = json.loads(record.key)
        commits[partition["task"]].append((record.timestamp, json.loads(record.value)["order"]))
    following = dict.fromkeys(range(TASKS), 0)
    for record in await consumed(broker, topic):
        order = json.loads(record.value)
        task, number = task_of(order), order["order"]
        if number != following[task]:
            earlier = [to for time_ms, to in commits[task] if time_ms < record.timestamp]
            assert number == max(earlier, default=0)
        following[task] = number + 1


@NEWEST
async def test_a_process_that_hangs_is_fenced(
    broker: Broker, own_topics: Topics, tmp_path: Path
) -> None:
    """Another process runs the connector; tasks of the hung one write nothing later."""
    data = unused_name()
    file = connectors_file(tmp_path, own_topics, exactly__once__source__support="enabled")
    async with serving_own(broker, file) as (hanging, client):
        await create(client, {"source": generator(data, TRANSACTIONS_PER_S)})
        await _grown(broker, data, 1)
        hanging.process.send_signal(signal.SIGSTOP)
        async with serving_own(broker, file) as (_, other):
            await until_running(other, "source")
            await _grown(broker, data, 200 if PROVE else 100)
            hanging.process.send_signal(signal.SIGCONT)
            await until(lambda: _is_fenced(client))
            await _grown(broker, data, 500 if PROVE else 200)
            counts = await orders_in(broker, data)
            assert {*counts.values()} == {1}
            per_task = Counter(task for task, _ in counts)
            assert all(
                (task, number) in counts for task in per_task for number in range(per_task[task])
            )


@NEWEST
async def test_a_process_that_hangs_commits_no_offsets(
    broker: Broker, own_topics: Topics, tmp_path: Path
) -> None:
    """At least once: the hung process commits nothing later, and soon it writes nothing more.

    It sends what it had in its memory, so some records may come twice.
    """
    data = unused_name()
    file = connectors_file(tmp_path, own_topics, offset__flush__interval__ms=20)
    async with serving_own(broker, file) as (hanging, client):
        await create(client, {"source": generator(data, 300)})
        await _grown(broker, data, 100)
        hanging.process.send_signal(signal.SIGSTOP)
        async with serving_own(broker, file) as (_, other):
            await until_running(other, "source")
            await _grown(broker, data, 1_000 if PROVE else 200)
            hanging.process.send_signal(signal.SIGCONT)
            await until(lambda: _is_fenced(client))
            count = await _grown(broker, data, 600 if PROVE else 300)
            count += 100  # the last batch of the hung process may follow
            orders = [json.loads(value or b"") for _, value in (await records_in(broker, data))]
    numbers: defaultdict[int, list[int]] = defaultdict(list)
    for order in orders[count:]:
        numbers[task_of(order)].append(order["order"])
    assert numbers == {
        task: [*range(written[0], written[0] + len(written))] for task, written in numbers.items()
    }
    commits: defaultdict[int, list[int]] = defaultdict(list)
    for record in await consumed(broker, own_topics.offsets):
        commits[json.loads(record.key)[1]["task"]].append(json.loads(record.value)["order"])
    assert commits == {task: sorted(committed) for task, committed in commits.items()}


async def _is_fenced(client: httpx.AsyncClient) -> bool:
    """True if the process refuses commands because another one has claimed the log."""
    return not (await client.get("/health")).is_success


async def _grown(broker: Broker, topic: str, by: int) -> int:
    """Wait until a topic has this number of further offsets; return their number before.

    Records and ends of transactions have an offset; those behind an open transaction do not count.
    Reading the records would cost more than what the processes do in the meantime.
    """
    async with reading(broker.bootstrap) as reader:

        async def exists() -> bool:
            return topic in await reader.topics()

        async def size() -> int:
            return sum((await reader.ends([topic]))[topic])

        async def reached() -> bool:
            return await size() >= before + by

        await until(exists)
        before = await size()
        await until(reached)
    return before
