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
from tests.kafka.random_commands import (
    Effect,
    Lane,
    LaneExchange,
    TrailRows,
    trail_of,
)
from tests.kafka.worker_service import until

pytestmark = [pytest.mark.java, pytest.mark.broker, pytest.mark.prove]

KILLS = 10
"""Number of times that the broker is killed."""

LANES = 4

BETWEEN = 3
"""Commands that each lane sends before a kill."""

OUTAGES = (
    "no broker listens at",
    "does not answer in time",
    "closed the connection",
    "the brokers did not finish a write within",
    "The log could not be read to its end in",
)
"""Reasons of a command that the service refuses during an outage, longer than its patience."""


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
    without_row = [exchange for exchange in exchanges if exchange.key not in rows]
    assert [exchange for exchange in without_row if not is_outage_refusal(exchange)] == []
    for lane in lanes:
        done = [exchange for exchange in lane.exchanges if is_done(exchange, rows)]
        acknowledged = [exchange for exchange in lane.exchanges if exchange.is_acknowledged]
        assert [exchange for exchange in acknowledged if exchange not in done] == []
        written = written_values(lane.effects(entries))
        assert written == expected_values(lane.exchanges, rows, written)


def is_outage_refusal(exchange: LaneExchange) -> bool:
    """True if the service answers that it could not reach the broker for too long.

    Such a command has no row: the log did not even take its "accepted" record. Other refusals have
    one, and a service that counts as fenced answers otherwise.
    """
    is_error = exchange.status == httpx.codes.INTERNAL_SERVER_ERROR
    return is_error and any(words in exchange.text for words in OUTAGES)


def is_done(exchange: LaneExchange, rows: TrailRows) -> bool:
    """True if the trail has the command as done."""
    return exchange.key in rows and bool(rows[exchange.key]["outcome"] == "done")


def written_values(effects: Iterable[tuple[str, Effect]]) -> dict[str, list[object]]:
    """Configs and offsets in the topics by kind, in their order; None: a tombstone.

    An outage may interrupt the service while it takes a creation back. The service then repeats the
    tombstone of the offset. Such tombstones count once.
    """
    values: dict[str, list[object]] = {"config": [], "offset": []}
    for _, (kind, value) in effects:
        is_repeated = kind == "offset" and value is None and values[kind][-1:] == [None]
        if kind in values and not is_repeated:
            values[kind].append(value)
    return values


def expected_values(
    exchanges: Iterable[LaneExchange], rows: TrailRows, written: dict[str, list[object]]
) -> dict[str, list[object]]:
    """Configs and offsets that these commands write by kind, in their order.

    A deletion keeps the offset. A reset removes it, and so does a creation with offsets first. An
    outage may let a creation with offsets fail half way. The service then takes it back.
    """
    values: dict[str, list[object]] = {"config": [], "offset": []}
    for exchange in exchanges:
        command, is_creation = exchange.command, exchange.command.kind == "create-with-offsets"
        effects = [*command.configs, *command.offsets]
        done = is_done(exchange, rows)
        failed = is_creation and exchange.key in rows and not done
        offsets = values["offset"]
        begun = done or (failed and command.offsets[0][1] in written["offset"])
        if command.kind in {"reset", "create-with-offsets"} and begun and offsets[-1:] != [None]:
            offsets += [None] if offsets else []
        for kind, value in effects:
            if kind in values and (done or (failed and value in written[kind])):
                values[kind] += [value] if done else [value, None]
    return values


async def _rows_at_end(rest: httpx.AsyncClient) -> dict[str, dict[str, Any]]:
    """Trail by key, once all commands have ended."""

    async def has_ended() -> bool:
        answer = await rest.get("/commands?outcome=unfinished")
        return answer.is_success and bool(answer.json()["commands"] == [])

    await until(has_ended)
    return {row["id"]: row async for row in trail_of(rest)}
