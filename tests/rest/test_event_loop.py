"""The event loop stays free during large work: none of its callbacks takes long."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import aclosing
from itertools import count
from pathlib import Path
from shutil import copyfile
from typing import Any

import httpx
import pytest
from starlette.types import Message

from controlplane.core.commands import CreateConnector, StopConnector
from controlplane.logs.log import Log, Record
from controlplane.logs.memory import MemoryLog
from controlplane.logs.sqlite import SqliteLog, SqliteSettings
from controlplane.projection.follower import Follower
from controlplane.projection.past_states import cut_at, read_records
from controlplane.projection.snapshot_writer import SnapshotSettings, keep_snapshots
from controlplane.rest.app import App
from controlplane.rest.errors import Answer
from controlplane.rest.http.messages import PIECE_BYTES, response
from controlplane.rest.metrics import Metrics
from tests.controller.scene import CONFIG, OFFSETS, STATUS, plane_on, raw
from tests.operation_counts import TURN, longest_turn
from tests.projection.loaded_state import state_of
from tests.rest.plane import ORDERS
from tests.rest.served_history import catalogue, client_of, service_of

pytestmark = pytest.mark.slow

QUICK = SqliteSettings(synchronous="NORMAL")
PARTS = 2_000
"""Offsets or config keys of a request: each stage of their processing takes some ten milliseconds.
"""
JSON = {"content-type": "application/json"}
KEYS = {f"key{at}": f'é "{at}" """"' for at in range(PARTS)}
ALL_KEYS = json.dumps(ORDERS | KEYS).encode()
ALL_OFFSETS = json.dumps(
    {
        "offsets": [
            {"partition": {"filename": f"file-{at}"}, "offset": {"position": at}}
            for at in range(PARTS)
        ]
    }
).encode()

Asks = Callable[[httpx.AsyncClient], Awaitable[None]]


def asking(folder: Path, asks: Asks) -> Callable[[], Coroutine[Any, Any, None]]:
    """A client of a plane with a stopped connector `orders`, on a new file."""
    numbers = count()

    async def work() -> None:
        log = await SqliteLog.open(folder / f"{next(numbers)}.db", settings=QUICK)
        async with plane_on(log, plugins=catalogue()) as plane:
            await plane.execute(CreateConnector("orders", ORDERS))
            await plane.execute(StopConnector("orders"))
            async with client_of(plane.app) as client:
                await asks(client)
        await log.close()

    return work


async def alter(client: httpx.AsyncClient) -> None:
    """Alter all offsets of the connector `orders`."""
    path = "/connectors/orders/offsets"
    assert (await client.patch(path, content=ALL_OFFSETS, headers=JSON)).is_success


async def plan(client: httpx.AsyncClient) -> None:
    """Request a dry run: the record is one text, in which each quote is escaped."""
    path = "/connectors/orders/config?dry_run=true"
    assert (await client.put(path, content=ALL_KEYS, headers=JSON)).is_success


async def put_and_patch(client: httpx.AsyncClient) -> None:
    """Put all keys, then patch one of them."""
    path = "/connectors/orders/config"
    assert (await client.put(path, content=ALL_KEYS, headers=JSON)).is_success
    assert (await client.patch(path, content=b'{"key1":"1"}', headers=JSON)).is_success


def test_altering_thousands_of_offsets_leaves_the_event_loop_free(tmp_path: Path) -> None:
    """The body is parsed, decided and written outside the event loop."""
    assert longest_turn(asking(tmp_path, alter)) < TURN


def test_a_config_of_thousands_of_keys_leaves_the_event_loop_free(tmp_path: Path) -> None:
    """A patch of one key of a large config has a small request and a large answer."""
    assert longest_turn(asking(tmp_path, put_and_patch)) < TURN


def test_a_dry_run_with_a_long_record_leaves_the_event_loop_free(tmp_path: Path) -> None:
    """Encoding one long text may take as long as encoding many members."""
    assert longest_turn(asking(tmp_path, plan)) < TURN


def test_watching_a_config_of_thousands_of_keys_leaves_the_event_loop_free(tmp_path: Path) -> None:
    """A large config change, which every watcher receives key by key, does not block the loop."""

    async def work() -> None:
        log = await SqliteLog.open(tmp_path / f"{next(numbers)}.db", settings=QUICK)
        async with plane_on(log, plugins=catalogue()) as plane:
            await plane.execute(CreateConnector("orders", ORDERS))
            async with aclosing(plane.watch()) as changes:
                first = asyncio.ensure_future(anext(changes))
                await asyncio.sleep(0)
                async with client_of(plane.app) as client:
                    await put_and_patch(client)
                await first
                for _ in range(PARTS - 1):
                    await anext(changes)
        await log.close()

    numbers = count()
    assert longest_turn(work) < TURN


def test_metrics_of_hundreds_of_connectors_leave_the_event_loop_free() -> None:
    """An exposition of hundreds of connectors does not block the loop: Prometheus asks often."""
    log = MemoryLog()
    asyncio.run(_make_connectors(log, PARTS // 4))

    async def scraping() -> None:
        async with Follower(log) as follower:
            service = service_of(follower, "kip", catalogue())
            app = Metrics().with_metrics(App(service), service)
            async with client_of(app) as client:
                answer = await client.get("/metrics")
        assert f"kafka_connect_connectors_count {PARTS / 4}" in answer.text

    assert longest_turn(scraping) < TURN


def test_a_list_of_thousands_of_tasks_leaves_the_event_loop_free() -> None:
    """One short record of a foreign writer can commit any number of tasks."""
    log = MemoryLog()
    asyncio.run(_make_connectors(log, 1))
    commit = raw(CONFIG, "commit-c0", json.dumps({"tasks": 20 * PARTS}))
    asyncio.run(log.append([commit]))

    async def listing() -> None:
        async with Follower(log) as follower:
            app = App(service_of(follower, "kip", catalogue()))
            async with client_of(app) as client:
                answer = await client.get("/connectors/c0/tasks")
        assert len(answer.json()) == 20 * PARTS

    assert longest_turn(listing) < TURN


def test_a_repeated_expansion_costs_nothing() -> None:
    """A request cannot multiply its work by naming one expansion many times."""
    log = MemoryLog()
    asyncio.run(_make_connectors(log, PARTS // 20))

    async def expanding() -> None:
        async with Follower(log) as follower:
            app = App(service_of(follower, "kip", catalogue()))
            async with client_of(app) as client:
                answer = await client.get(f"/connectors?{'expand=info&' * 100}")
        assert len(answer.json()) == PARTS // 20

    assert longest_turn(expanding) < TURN


async def _make_connectors(log: Log, number: int) -> None:
    await log.create_topic(CONFIG, 1)
    config = json.dumps({"properties": ORDERS})
    await log.append([raw(CONFIG, f"connector-c{at}", config) for at in range(number)])


def test_history_of_many_short_batches_leaves_the_event_loop_free() -> None:
    """Many short batches of a log with many partitions do not add up to a long turn of the loop."""
    log = MemoryLog()
    asyncio.run(_fill(log, PARTS // 40, partitions=40))

    async def reading() -> None:
        assert len(await read_records(log, await state_of(log), "orders")) == PARTS

    assert longest_turn(reading) < TURN


def test_a_snapshot_leaves_the_event_loop_free(tmp_path: Path) -> None:
    """A snapshot does not block commands."""
    asyncio.run(_file_with_offsets(tmp_path / "full.db"))
    numbers = count()

    async def keeping() -> None:
        path = tmp_path / f"{next(numbers)}.db"
        copyfile(tmp_path / "full.db", path)
        log = await SqliteLog.open(path, settings=QUICK)
        eager = SnapshotSettings(tail_records=1, lateness_ms=0)
        assert OFFSETS in await keep_snapshots(log, await state_of(log), eager)
        await log.close()

    assert longest_turn(keeping) < TURN


@pytest.mark.parametrize("moment", [f"offsets@{PARTS}", str(PARTS)])
def test_a_question_about_the_past_leaves_the_event_loop_free(tmp_path: Path, moment: str) -> None:
    """The search for a moment among all records does not block the loop."""
    asyncio.run(_file_with_offsets(tmp_path / "full.db"))

    async def finding() -> None:
        log = await SqliteLog.open(tmp_path / "full.db", settings=QUICK)
        state = await state_of(log)
        cut = await cut_at(log, moment, state.topics, state.ends_by_topic)
        assert cut.ends[OFFSETS] == [PARTS + 1]
        await log.close()

    assert longest_turn(finding) < TURN


async def _file_with_offsets(path: Path) -> None:
    log = await SqliteLog.open(path, settings=QUICK)
    await _fill(log, 4 * PARTS, partitions=1)
    await log.close()


async def _fill(log: Log, offsets: int, *, partitions: int) -> None:
    """Append this number of offsets of `orders` to each partition."""
    for topic, number in ((CONFIG, 1), (STATUS, 1), (OFFSETS, partitions)):
        await log.create_topic(topic, number)
    for partition in range(partitions):
        await log.append([_offset(at, partition) for at in range(offsets)])


def _offset(number: int, partition: int) -> Record:
    key = f'["orders",{{"filename":"{partition}-{number}"}}]'.encode()
    return Record(OFFSETS, partition, number, key, b'{"position":1}')


async def test_a_large_answer_leaves_in_pieces() -> None:
    """A large answer is sent in pieces: in one piece, the loop would copy the unsent rest."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    body = {"value": "x" * 3 * PIECE_BYTES}
    await response(Answer(200, body), "GET")({"type": "http"}, receive, send)
    pieces = [message["body"] for message in sent[1:]]
    assert max(map(len, pieces)) == PIECE_BYTES
    assert json.loads(b"".join(pieces)) == body
    assert [message["more_body"] for message in sent[1:]] == [True, True, True, False]
