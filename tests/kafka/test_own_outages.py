"""Commands on own topics while the broker is killed: acknowledged ones stay, none is half done."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx
import pytest

from controlplane.core.state import Topics
from tests.conftest import seeded
from tests.kafka.conftest import RELEASES, up
from tests.kafka.own_service import serving_own, worker_file
from tests.kafka.producer import read_entries, reading
from tests.kafka.random_commands import Effect, Lane, SentCommand, trail_of
from tests.kafka.worker_service import until

pytestmark = [pytest.mark.java, pytest.mark.broker, pytest.mark.prove]

KILLS = 10
"""Number of times that the broker is killed."""

LANES = 4

BETWEEN = 3
"""Commands that each lane sends before a kill."""


async def sent(lanes: list[Lane], by: int) -> None:
    """Wait until each lane has had some more answers."""
    expected = [len(lane.exchanges) + by for lane in lanes]

    async def reached() -> bool:
        counts = [len(lane.exchanges) for lane in lanes]
        return all(count >= least for count, least in zip(counts, expected, strict=True))

    await until(reached)


@pytest.mark.parametrize("release", RELEASES)
async def test_a_killed_broker_loses_no_command(release: str, tmp_path: Path) -> None:
    """The topics have each config and offset of the commands done once, in order, and no other."""
    topics = Topics()
    async with up(release, tmp_path) as broker:
        file = worker_file(tmp_path, topics)
        async with serving_own(broker, file) as (_, rest):
            lanes = [Lane(f"lane-{number}", seeded(f"own {number}")) for number in range(LANES)]
            over = asyncio.Event()
            running = [asyncio.create_task(lane.run(rest, over)) for lane in lanes]
            for _kill in range(KILLS):
                await sent(lanes, BETWEEN)
                await broker.hang()  # every lane soon waits for the answer to a command
                await broker.kill9()
                await broker.start()
            await sent(lanes, BETWEEN)
            over.set()
            await asyncio.gather(*running)
            rows = await _rows_at_end(rest)
        async with reading(broker.bootstrap) as reader:
            entries = await read_entries(reader, [topics.config, topics.offsets])
    exchanges = [exchange for lane in lanes for exchange in lane.exchanges]
    assert [exchange for exchange in exchanges if exchange.key not in rows] == []
    for lane in lanes:
        done = [exchange for exchange in lane.exchanges if rows[exchange.key]["outcome"] == "done"]
        acknowledged = [exchange for exchange in lane.exchanges if exchange.is_acknowledged]
        assert [exchange for exchange in acknowledged if exchange not in done] == []
        commands = [exchange.command for exchange in done]
        assert written_values(lane.effects(entries)) == expected_values(commands)


def written_values(effects: Iterable[tuple[str, Effect]]) -> dict[str, list[object]]:
    """Configs and offsets in the topics by kind, in their order; None: a tombstone."""
    values: dict[str, list[object]] = {"config": [], "offset": []}
    for _, (kind, value) in effects:
        if kind in values:
            values[kind].append(value)
    return values


def expected_values(done: Iterable[SentCommand]) -> dict[str, list[object]]:
    """Configs and offsets that these commands write by kind, in their order.

    A deletion keeps the offset. A reset removes it, and so does a creation with offsets first.
    """
    configs: list[object] = []
    offsets: list[object] = []
    for command in done:
        configs += (value for kind, value in command.configs if kind == "config")
        is_set = bool(offsets) and offsets[-1] is not None
        if command.kind in {"reset", "create-with-offsets"} and is_set:
            offsets.append(None)
        offsets += (value for _, value in command.offsets)
    return {"config": configs, "offset": offsets}


async def _rows_at_end(rest: httpx.AsyncClient) -> dict[str, dict[str, Any]]:
    """Trail by key, once all commands have ended."""

    async def has_ended() -> bool:
        answer = await rest.get("/commands?outcome=unfinished")
        return answer.is_success and bool(answer.json()["commands"] == [])

    await until(has_ended)
    return {row["id"]: row async for row in trail_of(rest)}
