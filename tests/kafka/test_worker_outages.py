"""Connectors while a broker restarts, and while a process hangs: nothing is lost or comes twice."""

import asyncio
import signal
from collections import Counter
from pathlib import Path

import pytest

from controlplane.core.state import Topics
from tests.kafka.conftest import NEWEST, RELEASES, unused_name, up
from tests.kafka.own_service import serving_own
from tests.kafka.real_kafka import Broker
from tests.kafka.test_worker_kills import generator, orders_in
from tests.kafka.test_worker_pipeline import sink
from tests.kafka.worker_service import (
    connectors_file,
    create,
    records_in,
    task_states,
    text_of,
    until,
    until_running,
)

pytestmark = [pytest.mark.java, pytest.mark.broker, pytest.mark.slow]

COUNT = 3_000
"""Orders of each task: three seconds of work."""


@pytest.mark.parametrize("support", ["enabled", "disabled"])
async def test_a_broker_restarts(tmp_path: Path, own_topics: Topics, support: str) -> None:
    """Every order goes from the source through the topic to the sink; no task fails."""
    data, out = unused_name(), tmp_path / "out.txt"
    source = {**generator(data), "count": str(COUNT), "topic.creation.default.partitions": "2"}
    source["topic.creation.default.replication.factor"] = "1"
    file = connectors_file(tmp_path, own_topics, exactly__once__source__support=support)
    async with (
        up(RELEASES[-1], tmp_path) as broker,
        serving_own(broker, file) as (_, client),
    ):
        await create(client, {"source": source, "sink": sink(tmp_path, data)})
        await until(lambda: _lines(out, 1))
        await broker.kill9()
        await asyncio.sleep(1)
        await broker.start()
        orders = 2 * COUNT

        async def all_written() -> bool:
            for name in ("source", "sink"):
                assert "FAILED" not in await task_states(client, name)
            return await _lines(out, orders)

        await until(all_written)
        found = await orders_in(broker, data)
        assert {*found} == {(task, number) for task in (0, 1) for number in range(COUNT)}
        if support == "enabled":
            assert {*found.values()} == {1}


async def _lines(path: Path, least: int) -> bool:
    """True if a file has so many different lines."""
    return len({*(text_of(path) or "").splitlines()}) >= least


@NEWEST
async def test_a_process_that_hangs_is_fenced(
    broker: Broker, own_topics: Topics, tmp_path: Path
) -> None:
    """Its tasks write nothing more when it goes on: another process runs the connector."""
    data = unused_name()
    file = connectors_file(tmp_path, own_topics, exactly__once__source__support="enabled")
    async with serving_own(broker, file) as (hanging, client):
        await create(client, {"source": generator(data)})
        await until(lambda: _has_records(broker, data, 1))
        hanging.process.send_signal(signal.SIGSTOP)
        async with serving_own(broker, file) as (_, other):
            await until_running(other, "source")
            there = len(await records_in(broker, data))
            await until(lambda: _has_records(broker, data, there + 100))
            hanging.process.send_signal(signal.SIGCONT)
            there = len(await records_in(broker, data))
            await until(lambda: _has_records(broker, data, there + 1_000))
            counts = await orders_in(broker, data)
            assert {*counts.values()} == {1}
            per_task = Counter(task for task, _ in counts)
            assert all(
                (task, number) in counts for task in per_task for number in range(per_task[task])
            )


async def _has_records(broker: Broker, topic: str, least: int) -> bool:
    """True if a topic has so many committed records."""
    return len(await records_in(broker, topic)) >= least
