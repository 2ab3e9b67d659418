"""Random commands through an attached service whose workers and broker are killed."""

import asyncio
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import httpx
import msgspec
import pytest

from controlplane.attached.connect_client import NOTHING_DONE
from controlplane.controller.admission import subject_of
from controlplane.core.commands import CommandRequest
from tests.cli.command_calls import call
from tests.conftest import PROVE, seeded
from tests.kafka.access_rights import allow
from tests.kafka.attached_cluster import PATIENT, READING, attached_to, login_of
from tests.kafka.conftest import up
from tests.kafka.live_cluster import PAUSE_S, TOPICS, ComparedWorker
from tests.kafka.producer import reading
from tests.kafka.random_commands import Lane, LaneExchange, trail_of
from tests.kafka.real_kafka import Broker, KafkaWorker
from tests.kafka.test_verify_against import SETTLE
from tests.patience import PATIENCE_S
from tests.worker.worker_fixture import until

pytestmark = [pytest.mark.java, pytest.mark.broker]

RELEASE = "3.9.1"

KILLS = 60 if PROVE else 6
"""Number of kills. With the restarts, the test takes ten minutes in `make prove`, or one minute."""

MOST_S = 4
"""Longest time before each kill, in seconds."""

LANES = 3

DISTURBED = 1 / 2
"""Share of the creations with offsets that another client disturbs."""

SOON_DEAD: dict[str, Any] = {"session__timeout__ms": 3_000, "heartbeat__interval__ms": 1_000}
"""Settings with which the group soon removes a killed worker."""

LIMITS = msgspec.structs.replace(PATIENT, records_ms=5_000)
"""Limits with a short wait for the records of a killed worker's command."""

EARLY_REFUSALS = {
    httpx.codes.CONFLICT: "has not ended yet",
    httpx.codes.INTERNAL_SERVER_ERROR: NOTHING_DONE,
}
"""Status and words of answers to commands that have no row in the trail."""

READER = "bob"
"""User who may read the topics and nothing else: the broker refuses any record of the service."""


class Killer:
    """Kills workers and the broker at random, and starts them again."""

    def __init__(self, broker: Broker, workers: list[KafkaWorker], chance: Random) -> None:
        self._broker = broker
        self._workers = workers
        self._chance = chance

    async def run(self, kills: int) -> None:
        """Kill this many times; then everything runs."""
        for _ in range(kills):
            await asyncio.sleep(self._chance.uniform(0, MOST_S))
            victims = self._drawn()
            for victim in victims:
                await victim.kill9()
            await asyncio.sleep(self._chance.uniform(0, 2))
            for victim in victims:  # the broker first: a worker does not start without it
                await victim.start()

    def _drawn(self) -> list[Broker | KafkaWorker]:
        first, second = self._workers
        return self._chance.choice(
            [[first], [second], [self._broker], [first, second], [self._broker, first]]
        )


class DisturbingClient:
    """Resumes some connectors during their creation, so that the service takes them back.

    Workers set offsets only of stopped connectors.
    """

    def __init__(self, workers: list[KafkaWorker], chance: Random) -> None:
        self.disturbed: set[str] = set()
        """Keys of the creations."""
        self._workers = workers
        self._chance = chance

    async def __call__(self, request: CommandRequest, step: str) -> None:
        """Resume a connector that has just been created, by a worker that answers."""
        if step != "create" or self._chance.random() > DISTURBED:
            return
        self.disturbed.add(request.command_id)
        for worker in self._workers:
            with suppress(httpx.TransportError):
                path = f"/connectors/{subject_of(request.command)['connector']}/resume"
                if (await worker.rest.put(path)).is_success:
                    return


async def test_kills_leave_no_random_command_half_done(tmp_path: Path) -> None:
    """Acknowledged commands stay, none is half done, and each plan is kept or explained."""
    kafka = up(RELEASE, tmp_path, listeners=("SASL_PLAINTEXT",), group__min__session__timeout__ms=1)
    async with (
        kafka as broker,
        KafkaWorker(RELEASE, broker, **SOON_DEAD) as first,
        KafkaWorker(RELEASE, broker, **SOON_DEAD) as second,
    ):
        await allow(broker, READER, READING)
        trail, workers = tmp_path / "trail.db", [first, second]
        login = login_of(broker, READER)
        other = DisturbingClient(workers, seeded("other client"))
        attached = attached_to(
            broker, workers, trail=trail, login=login, limits=LIMITS, stepped=other
        )
        async with attached as rest:
            lanes = [Lane(f"lane-{number}", seeded(f"lane {number}")) for number in range(LANES)]
            over = asyncio.Event()
            running = [asyncio.create_task(lane.run(rest, over)) for lane in lanes]
            await Killer(broker, workers, seeded("attached kills")).run(KILLS)
            await until(lambda: all(lane.has_acknowledged for lane in lanes))
            over.set()
            await asyncio.gather(*running)
            await _judge(rest, broker, workers, lanes, other.disturbed)


async def _judge(
    rest: httpx.AsyncClient,
    broker: Broker,
    workers: list[KafkaWorker],
    lanes: list[Lane],
    disturbed: set[str],
) -> None:
    await _all_ended(rest)
    rows = {row["id"]: row async for row in trail_of(rest)}
    exchanges = {exchange.key: exchange for lane in lanes for exchange in lane.exchanges}
    assert rows.keys() <= exchanges.keys()
    without_row = [exchange for key, exchange in exchanges.items() if key not in rows]
    assert [exchange for exchange in without_row if not is_early_refusal(exchange)] == []
    async with reading(broker.bootstrap) as reader:
        entries = [entry async for batch in reader.read(TOPICS) for entry in batch.entries()]
        for lane in lanes:
            lane.check(entries, rows, disturbed)
        for worker in workers:
            await _agree(ComparedWorker(worker, rest, reader), broker)


def is_early_refusal(exchange: LaneExchange) -> bool:
    """True if the service refused the command before it accepted it, so the trail has no row.

    Either no worker could validate the command, or an earlier one of the connector cannot be ended.
    """
    return any(
        exchange.status == status and words in exchange.text
        for status, words in EARLY_REFUSALS.items()
    )


async def _agree(beside: ComparedWorker, broker: Broker) -> None:
    """Compare the service with the worker, except where the order between partitions decides.

    A restarted worker reads the partitions of statuses in any order. It may lack a task status that
    lies beside a tombstone (edge 20 of docs/releases.md).
    """
    try:
        await beside.agree()
    except AssertionError:
        worker = beside.worker
        words = ("verify", f"kafka://{broker.bootstrap}", "--against", worker.url, *SETTLE)
        file = ("--worker-properties", worker.config)
        result = await asyncio.to_thread(call, *words, *file, "-o", "json")
        if not all(difference["order_edge"] for difference in result.json["differences"]):
            raise


async def _all_ended(rest: httpx.AsyncClient) -> None:
    """Wait until every command of the trail has ended."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            answer = await rest.get("/commands?outcome=unfinished")
            if answer.json()["commands"] == []:
                return
            await asyncio.sleep(PAUSE_S)
