"""A repeated idempotency key gets the first answer, whatever has happened since."""

import re
from base64 import b64decode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec
import pytest

from controlplane.core.commands import CreateConnector, DeleteConnector, PatchConfig, PutConfig
from controlplane.core.entry import Entry
from controlplane.logs.memory import MemoryLog
from controlplane.logs.sqlite import SqliteLog
from controlplane.plane import ControlPlane, Settings
from controlplane.projection.retention import DAY_MS, RetentionSettings, retain
from controlplane.projection.snapshot_writer import SnapshotSettings
from controlplane.projection.upkeep import UpkeepSettings
from replay.capture.secrets import dropped_secrets
from tests.controller.scene import (
    COMMANDS,
    CONFIG,
    NOW_MS,
    STATUS,
    Crash,
    crash_after,
    entries,
    plane_on,
    raw,
)
from tests.rest.plane import ORDERS
from tests.rest.served_history import catalogue, client_of

KEY = {"idempotency-key": "night-1"}
OFFSETS = [{"partition": {"filename": "orders.txt"}, "offset": {"position": 7}}]
SNAPSHOTS = SnapshotSettings(tail_records=1, lateness_ms=0)
SNAPSHOTS_ALWAYS = Settings(upkeep=UpkeepSettings(snapshots=SNAPSHOTS))


class Keyed(NamedTuple):
    """A request that is sent twice, the requests before it, and its status."""

    method: str
    path: str
    body: Any = None
    before: tuple[tuple[str, str], ...] = ()
    status: int = 200


_STOPPED = (("PUT", "/connectors/orders/stop"),)
_DELETED = (("DELETE", "/connectors/orders"),)

REQUESTS = {
    "creation": Keyed(
        "POST", "/connectors", {"name": "orders", "config": ORDERS}, _DELETED, status=201
    ),
    "creation with offsets": Keyed(
        "POST",
        "/connectors",
        {"name": "orders", "config": ORDERS, "initial_offsets": OFFSETS},
        _DELETED,
    ),
    "creation by PUT": Keyed("PUT", "/connectors/orders/config", ORDERS, _DELETED, status=201),
    "update": Keyed("PUT", "/connectors/orders/config", ORDERS | {"topic": "t"}),
    "patch": Keyed("PATCH", "/connectors/orders/config", {"topic": "t"}),
    "patch as 3.9": Keyed("PATCH", "/compat/3.9/connectors/orders/config", {"topic": "t"}),
    "update as 2.3": Keyed("PUT", "/compat/2.3/connectors/orders/config", ORDERS),
    "deletion": Keyed("DELETE", "/connectors/orders", status=204),
    "pause": Keyed("PUT", "/connectors/orders/pause", status=202),
    "restart": Keyed("POST", "/connectors/orders/restart?includeTasks=true", status=202),
    "restart as 3.9": Keyed(
        "POST", "/compat/3.9/connectors/orders/restart?onlyFailed=true", status=202
    ),
    "restart of all without status": Keyed(
        "POST", "/compat/3.4/connectors/new/restart?includeTasks=true", status=404
    ),
    "alteration": Keyed("PATCH", "/connectors/orders/offsets", {"offsets": OFFSETS}, _STOPPED),
    "reset as 3.9": Keyed("DELETE", "/compat/3.9/connectors/orders/offsets", None, _STOPPED),
    "undo": Keyed(
        "POST", "/connectors/orders/undo?to=config@0", None, (("PUT", "/connectors/orders/pause"),)
    ),
    "undo of a creation": Keyed("POST", "/connectors/new/undo?to=config@0", status=204),
}


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[tuple[SqliteLog, ControlPlane, httpx.AsyncClient]]:
    """A new control plane on the log in a file; it writes snapshots when it closes."""
    log = await SqliteLog.open(path)
    async with (
        plane_on(log, SNAPSHOTS_ALWAYS, plugins=catalogue()) as plane,
        client_of(plane.app) as client,
    ):
        yield log, plane, client
    await log.close()


async def prepare(log: SqliteLog, plane: ControlPlane, client: httpx.AsyncClient) -> None:
    """Prepare the plane: `orders` runs with a failed task, `new` has no status."""
    for name in ("orders", "new"):
        await plane.execute(CreateConnector(name, ORDERS | {"database.password": "pearl"}))
    status = {"trace": None, "worker_id": "w:1", "generation": 1}
    for key, state in (("connector-orders", "RUNNING"), ("task-orders-0", "FAILED")):
        value = msgspec.json.encode(status | {"state": state}).decode()
        await log.append([raw(STATUS, f"status-{key}", value)])
    await log.append([raw(CONFIG, "connector-other", None)])
    answer = await client.put("/connectors/new/pause")  # reads to the end
    assert answer.status_code == 202


async def sent(client: httpx.AsyncClient, request: Keyed) -> httpx.Response:
    """The answer to the keyed request."""
    return await client.request(request.method, request.path, json=request.body, headers=KEY)


def comparable_answer(answer: httpx.Response) -> tuple[int, bytes, Mapping[str, str]]:
    """Status, body and the headers that belong to the outcome."""
    kept = ("location", "content-type")
    return answer.status_code, answer.content, {k: answer.headers.get(k, "") for k in kept}


async def change_everything(client: httpx.AsyncClient) -> None:
    """Change both connectors, then delete them."""
    for name in ("orders", "new"):
        await client.put(f"/connectors/{name}/config", json=ORDERS | {"file": "other.txt"})
        await client.put(f"/connectors/{name}/stop")
        await client.delete(f"/connectors/{name}/offsets")
        await client.delete(f"/connectors/{name}")


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
async def test_a_key_gets_the_first_answer_after_everything_has_changed(
    request_: Keyed, tmp_path: Path
) -> None:
    """A repeated key gets the first status and body: at once, later, and after a restart.

    The restarted process reads snapshots of a log whose history has been compacted.
    """
    path = tmp_path / "state.db"
    async with opened(path) as (log, plane, client):
        await prepare(log, plane, client)
        for method, before in request_.before:
            assert (await client.request(method, before)).is_success
        first = comparable_answer(await sent(client, request_))
        assert first[0] == request_.status
        assert comparable_answer(await sent(client, request_)) == first
        await change_everything(client)
        assert comparable_answer(await sent(client, request_)) == first
    async with opened(path) as (log, plane, client):
        assert comparable_answer(await sent(client, request_)) == first
        keep = RetentionSettings(superseded_ms=1)
        assert await retain(log, plane.state, NOW_MS + DAY_MS, keep) > 0
    async with opened(path) as (_, _, client):
        assert comparable_answer(await sent(client, request_)) == first


async def test_the_first_answer_comes_in_the_words_of_the_first_release(tmp_path: Path) -> None:
    """A repeated key gets the dialect of its first answer: 3.9 describes a reset, KIP does not."""
    async with opened(tmp_path / "state.db") as (log, plane, client):
        await prepare(log, plane, client)
        await client.put("/connectors/orders/stop")
        path = "/connectors/orders/offsets"
        first = await client.delete(f"/compat/3.9{path}", headers=KEY)
        again = await client.delete(path, headers=KEY)
        assert "have been reset successfully" in first.json()["message"]
        assert comparable_answer(again) == comparable_answer(first)


@pytest.mark.parametrize(
    "command",
    [
        CreateConnector("one", ORDERS),
        PutConfig("orders", ORDERS | {"topic": "t"}),
        PatchConfig("orders", {"topic": "t"}),
        DeleteConnector("orders"),
    ],
    ids=lambda command: type(command).__name__,
)
async def test_an_embedding_program_gets_the_first_outcome(command: Any, tmp_path: Path) -> None:
    """`execute` with a key that came over HTTP returns the first outcome."""
    path = tmp_path / "state.db"
    async with opened(path) as (log, plane, client):
        await prepare(log, plane, client)
        first = await plane.execute(command, key="night-1")
        await change_everything(client)
        assert await plane.execute(command, key="night-1") == first
    async with opened(path) as (_, plane, _):
        assert await plane.execute(command, key="night-1") == first


@pytest.mark.parametrize("step", ["create-config", "pause-state"])
async def test_a_key_gets_its_answer_after_a_crash_before_the_answer(step: str) -> None:
    """The command is completed at the next start, and its answer is stored then."""
    log, undo = MemoryLog(), Keyed("POST", "/connectors/orders/undo?to=config@1")
    old, surroundings = Settings(profile="3.4"), {"plugins": catalogue()}
    async with plane_on(log, old, stepped=crash_after(step), **surroundings) as plane:
        await plane.execute(CreateConnector("orders", ORDERS))
        async with client_of(plane.app) as client:
            await client.put("/connectors/orders/pause")
            await client.delete("/connectors/orders")
            with pytest.raises(Crash):
                await sent(client, undo)
    async with plane_on(log, old, **surroundings) as plane, client_of(plane.app) as client:
        assert (await client.get("/connectors/orders")).status_code == 200
        gone = await client.delete("/connectors/orders", headers={"idempotency-key": "gone"})
        assert gone.status_code == 204
        answer = await sent(client, undo)
        assert (answer.status_code, answer.json()["config"]["topic"]) == (200, ORDERS["topic"])
        assert (await client.get("/connectors/orders")).status_code == 404


async def test_an_answer_is_stored_once_and_only_for_a_key(tmp_path: Path) -> None:
    """A command's record stores the answer only if the request has an idempotency key.

    An answer whose config equals the request's config is not stored. A patch's answer holds more
    than its request, so it is stored.
    """
    async with opened(tmp_path / "state.db") as (log, plane, client):
        await prepare(log, plane, client)
        body = {"name": "n", "config": ORDERS | {"database.password": "pearl"}}
        await client.post("/connectors", json=body, headers=KEY)
        await client.patch("/connectors/orders/config", json={"topic": "t"})
        await client.patch(
            "/connectors/orders/config", json={"topic": "u"}, headers={"idempotency-key": "night-2"}
        )
        finished = [
            entry
            for entry in await entries(log, [COMMANDS])
            if b'"finished"' in (entry.value or b"")
        ]
        assert [b"pearl" in (entry.value or b"") for entry in finished[-3:]] == [False, False, True]
        trail = await client.get("/commands")
        assert "pearl" not in trail.text


async def test_an_archive_without_secrets_has_none_of_stored_answers(tmp_path: Path) -> None:
    """An answer holds a config: its secrets are dropped like those of the config topic."""
    async with opened(tmp_path / "state.db") as (log, plane, client):
        await prepare(log, plane, client)
        await client.patch("/connectors/orders/config", json={"topic": "t"}, headers=KEY)
        secret = ORDERS | {"database.password": "pearl"}
        body = {"name": "planned", "config": secret, "initial_offsets": OFFSETS}
        assert (await client.post("/connectors", json=body)).status_code == 200
        secrets = dropped_secrets(plane.state.topics)
        kept = [secrets.without(batch) async for batch in log.read([COMMANDS])]
    values = [value or b"" for batch in kept for value in batch.values]
    assert any(b'"connector":{"config"' in value and b"[hidden]" in value for value in values)
    assert not any(b"pearl" in value for value in values)
    planned = [
        b64decode(encoded)
        for value in values
        for encoded in re.findall(rb'"value":"([^"]+)"', value)
    ]
    assert any(b"[hidden]" in value for value in planned)
    assert not any(b"pearl" in value for value in planned)


async def test_records_without_stored_answers_get_answers_from_their_requests(
    tmp_path: Path,
) -> None:
    """A record without a stored answer (earlier versions) gets an answer made from its request."""
    path = tmp_path / "state.db"
    restart = REQUESTS["restart"]
    create = Keyed(
        "POST", "/connectors", {"name": "n", "config": ORDERS, "initial_offsets": OFFSETS}
    )
    async with opened(path) as (log, plane, client):
        await prepare(log, plane, client)
        first = await sent(client, restart)
        made = await client.post("/connectors", json=create.body, headers={"idempotency-key": "2"})
        await change_everything(client)
        await client.delete("/connectors/n")
        old = [*map(_as_stored_earlier, await entries(log, [CONFIG, STATUS, COMMANDS]))]
    earlier = tmp_path / "earlier.db"
    log = await SqliteLog.open(earlier)
    for topic in (CONFIG, STATUS, COMMANDS):
        await log.create_topic(topic, 1)
    await log.put(old)
    await log.close()
    async with opened(earlier) as (_, _, client):
        again = await sent(client, restart)
        assert (again.status_code, first.status_code) == (202, 202)
        assert again.json()["connector"]["state"] == "RESTARTING"
        assert [task["id"] for task in again.json()["tasks"]] == [0]
        second = await client.post(
            "/connectors", json=create.body, headers={"idempotency-key": "2"}
        )
        assert (second.status_code, second.json().keys() ^ made.json().keys()) == (200, {"type"})


def _as_stored_earlier(entry: Entry) -> Entry:
    if b'"finished"' not in (entry.value or b""):
        return entry
    record = msgspec.json.decode(entry.value or b"")
    for name in ("release", "connector", "status"):
        record["outcome"].pop(name, None)
    return msgspec.structs.replace(entry, value=msgspec.json.encode(record))
