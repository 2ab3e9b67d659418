"""Connectors while a broker restarts: no record is lost; under exactly-once none is doubled."""

import asyncio
from pathlib import Path

import pytest

from controlplane.core.state import Topics
from tests.kafka.conftest import RELEASES, unused_name, up
from tests.kafka.own_service import serving_own
from tests.kafka.test_worker_kills import generator, orders_in
from tests.kafka.test_worker_pipeline import sink
from tests.kafka.worker_service import (
    connectors_file,
    create,
    task_states,
    text_of,
    until,
)

pytestmark = [pytest.mark.java, pytest.mark.broker]

COUNT, RATE = 150, 50
"""Orders of each task, and how many per second: with an outage, several seconds of work."""


@pytest.mark.prove
@pytest.mark.parametrize("support", ["enabled", "disabled"])
async def test_a_broker_restarts(tmp_path: Path, own_topics: Topics, support: str) -> None:
    """Every order goes from the source through the topic to the sink; no task fails."""
    data, out = unused_name(), tmp_path / "out.txt"
    creation = {"partitions": "2", "replication.factor": "1"}
    source = {**generator(data, RATE), "count": str(COUNT)}
    source |= {f"topic.creation.default.{key}": value for key, value in creation.items()}
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
        counts = await orders_in(broker, data)
        assert {*counts} == {(task, number) for task in (0, 1) for number in range(COUNT)}
        if support == "enabled":
            assert {*counts.values()} == {1}


async def _lines(path: Path, least: int) -> bool:
    """True if a file has this number of different lines."""
    return len({*(text_of(path) or "").splitlines()}) >= least
