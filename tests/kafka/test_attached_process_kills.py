"""`kill -9` of `controlplane serve --connect-url`: the next process ends every command."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import pytest_asyncio

from controlplane.core.codec import decode_command
from controlplane.core.records import CommandAccepted, CommandFinished
from controlplane.logs.sqlite import SqliteLog
from tests.cli.running_service import RunningService, running
from tests.kafka.producer import read_entries, reading
from tests.kafka.real_kafka import Broker
from tests.kafka.test_attached_crashes import (
    AT_4,
    CONFIG,
    SteeredCluster,
    creation,
    steered_cluster,
)
from tests.kafka.worker_gate import GatedRequest, HeldRequest, HoldMoment, WorkerGate
from tests.kafka.worker_service import until
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.java, pytest.mark.broker, pytest.mark.prove]

LOST, LATE, DONE, ANSWERED = HoldMoment
UNANSWERED = (LOST, LATE, DONE)
TAKEN = (LATE, DONE, ANSWERED)
"""Moments after which the worker has the request."""

RECORDS_MS = 500
"""Wait for the record of a creation that was sent; the worker has ended its requests by then."""


class CutRequest(NamedTuple):
    """Request at which the process is killed, and the state that its command must leave.

    `path` lies under that of the connector. `state` is that of the connector, None: it is missing.
    `position` is its offset, None: it has none.
    """

    command: str
    method: str
    path: str
    moment: HoldMoment
    outcome: str = "done"
    state: str | None = "PAUSED"
    position: int | None = 4

    @property
    def connector(self) -> str:
        """Connector of this case alone."""
        words = f"{self.command} {self.method} {self.path} {self.moment.name}"
        return words.replace("/", "").lower().replace("  ", " ").replace(" ", "-")

    @property
    def request(self) -> GatedRequest:
        """Request that the gate holds."""
        return GatedRequest(self.method, f"/connectors/{self.connector}{self.path}")

    @property
    def leaves_offsets(self) -> bool:
        """True if an earlier connector of this name has left offsets to reset."""
        return (self.method, self.path) == ("DELETE", "/offsets")

    @property
    def sendings(self) -> range:
        """Number of times that the worker may carry the request out, in both lives together.

        Only offsets of a creation are set or reset again, which does no harm.
        """
        if self.moment is LOST and self.outcome == "unknown":
            return range(1)
        is_harmless = self.command == "create" and self.path == "/offsets"
        return range(1, 3 if is_harmless else 2)


CHANGED = {**CONFIG, "batch.size": "7"}
"""Config that an undo replaces."""

PATCH = ("PATCH", "/offsets")

CUTS = (
    *(CutRequest("create", "POST", "", moment) for moment in (LATE, DONE)),
    CutRequest("create", "POST", "", LOST, "unknown", None, None),
    *(CutRequest("create", "DELETE", "/offsets", moment) for moment in UNANSWERED),
    *(CutRequest("create", "PATCH", "/offsets", moment) for moment in UNANSWERED),
    *(CutRequest("create", "PUT", "/pause", moment) for moment in HoldMoment),
    *(CutRequest("take-back", "DELETE", "", moment, "failed", None, None) for moment in UNANSWERED),
    CutRequest("stop", "PUT", "/stop", LOST, "unknown", "RUNNING", None),
    *(CutRequest("stop", "PUT", "/stop", moment, "done", "STOPPED", None) for moment in TAKEN),
    CutRequest("alter", "PATCH", "/offsets", LOST, "unknown", "STOPPED", None),
    *(CutRequest("alter", "PATCH", "/offsets", moment, "done", "STOPPED") for moment in TAKEN),
    *(
        CutRequest("undo", method, path, moment, "done", "RUNNING")
        for method, path in (*(("PUT", f"/{verb}") for verb in ("stop", "config", "resume")), PATCH)
        for moment in UNANSWERED
    ),
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SteeredCluster]:
    """Cluster of all tests of this module."""
    async with steered_cluster(tmp_path_factory.mktemp("kafka")) as steered:
        yield steered


@asynccontextmanager
async def serving(
    broker: Broker, gate: WorkerGate, trail: Path
) -> AsyncIterator[tuple[RunningService, httpx.AsyncClient]]:
    """Process of a service behind the gate, and a client of it."""
    words = (f"kafka://{broker.bootstrap}", "--quiet", "--connect-url", gate.url)
    limits = ("--override", f"connect.records.ms={RECORDS_MS}")
    async with (
        running(*words, *limits, "--trail", f"sqlite:///{trail}") as service,
        httpx.AsyncClient(base_url=service.url, timeout=PATIENCE_S) as rest,
    ):
        yield service, rest


async def prepare(cluster: SteeredCluster, cut: CutRequest) -> str:
    """Create what the command of a case needs; return the moment to which an undo goes back."""
    name = cut.connector
    if cut.command == "undo":
        return await prepare_undo(cluster, name)
    if cut.command in {"stop", "alter"}:
        state = "STOPPED" if cut.command == "alter" else "RUNNING"
        config = {**CONFIG, "file": f"missing-{name}"} if cut.command == "stop" else CONFIG
        body = {"name": name, "config": config, "initial_state": state}
        assert (await cluster.ask("POST", "/connectors", body)).is_success
    elif cut.leaves_offsets:
        await cluster.leaves_offsets(name)
    return ""


async def prepare_undo(cluster: SteeredCluster, name: str) -> str:
    """Change config and offsets of a running connector; return the moment before."""
    stem = f"/connectors/{name}"
    body = {"name": name, "config": CONFIG, "initial_state": "STOPPED"}
    await cluster.until_done("POST", "/connectors", body)
    await cluster.until_done("PATCH", f"{stem}/offsets", {"offsets": AT_4})
    await cluster.until_done("PUT", f"{stem}/resume")
    async with reading(cluster.broker.bootstrap) as reader:
        end = (await reader.ends(["connect-configs"]))["connect-configs"][0]
    await cluster.until_done("PUT", f"{stem}/stop")
    await cluster.moves_to_9(name)
    await cluster.until_done("PUT", f"{stem}/config", CHANGED)
    await cluster.until_done("PUT", f"{stem}/resume")
    return f"config@{end - 1}"


async def send(rest: httpx.AsyncClient, cut: CutRequest, moment: str) -> httpx.Response:
    """Send the command of a case; an undo goes back to the moment."""
    stem = f"/connectors/{cut.connector}"
    if cut.command == "undo":
        return await rest.post(f"{stem}/undo?to={moment}&offsets=true")
    if cut.command == "stop":
        return await rest.put(f"{stem}/stop")
    if cut.command == "alter":
        return await rest.patch(f"{stem}/offsets", json={"offsets": AT_4})
    return await rest.post("/connectors", json=creation(cut.connector))


async def kill_within(
    cluster: SteeredCluster,
    service: RunningService,
    commands: dict[CutRequest, "asyncio.Task[httpx.Response]"],
    held: dict[CutRequest, HeldRequest],
) -> None:
    """Kill the process once each request is at its moment, with worker and broker suspended.

    So a late request reaches the worker after the kill. Nor can the process read the records of an
    answered command, and record its end.
    """
    async with asyncio.timeout(PATIENCE_S):
        for request in held.values():
            await request.reached.wait()
    try:
        await cluster.broker.hang()
        await cluster.worker.hang()
        for cut, request in held.items():
            if cut.moment in {LATE, ANSWERED}:
                request.released.set()
        for cut, command in commands.items():
            if cut.moment is ANSWERED:
                assert (await command).is_success, cut
        await service.end(signal.SIGKILL)
    finally:
        await cluster.broker.go_on()
        await cluster.worker.go_on()
    for request in held.values():
        request.released.set()
    async with asyncio.timeout(PATIENCE_S):
        for cut, request in held.items():
            if cut.moment is not LOST:
                await request.answered.wait()
    ends = await asyncio.gather(*commands.values(), return_exceptions=True)
    for cut, end in zip(commands, ends, strict=True):
        assert isinstance(end, httpx.TransportError) is (cut.moment is not ANSWERED), (cut, end)


async def kinds_of(trail: Path) -> set[type]:
    """Kinds of the records in a trail that no process uses."""
    log = await SqliteLog.open(trail)
    batches = [batch async for batch in log.read(["connect-commands"])]
    await log.close()
    entries = [entry for batch in batches for entry in batch.entries()]
    records = [decode_command(entry.key, entry.value) for entry in entries]
    return {type(record) for record in records} & {CommandAccepted, CommandFinished}


async def rows_at_end(rest: httpx.AsyncClient) -> dict[str, dict[str, Any]]:
    """Own commands of the trail by connector, once all have ended."""

    async def has_ended() -> bool:
        answer = await rest.get("/commands?outcome=unfinished")
        return bool(answer.json()["commands"] == [])

    await until(has_ended)
    rows = (await rest.get("/commands?limit=1000")).json()["commands"]
    return {row["connector"]: row for row in rows if row["principal"] is not None}


async def test_a_killed_process_leaves_no_command_half_done(
    cluster: SteeredCluster, tmp_path: Path
) -> None:
    """The next process completes, takes back or reports each command, and repeats none blindly."""
    trail = tmp_path / "trail.db"
    moments = {cut: await prepare(cluster, cut) for cut in CUTS}
    async with WorkerGate(cluster.worker).running() as gate:
        for cut in CUTS:
            if cut.command == "take-back":
                gate.refuse(GatedRequest("PATCH", f"/connectors/{cut.connector}/offsets"))
        held = {cut: gate.hold(cut.request, cut.moment) for cut in CUTS}
        async with serving(cluster.broker, gate, trail) as (service, rest):
            commands = {cut: asyncio.create_task(send(rest, cut, moments[cut])) for cut in CUTS}
            await kill_within(cluster, service, commands, held)
        assert await kinds_of(trail) == {CommandAccepted}
        async with serving(cluster.broker, gate, trail) as (_, rest):
            rows = await rows_at_end(rest)
        for cut in CUTS:
            await check(cluster, cut, rows[cut.connector])
            assert gate.done[cut.request] in cut.sendings, cut
    await check_records(cluster.broker, CUTS)


async def check(cluster: SteeredCluster, cut: CutRequest, row: dict[str, Any]) -> None:
    """Check the trail's outcome, and the connector at the worker."""
    assert (row["outcome"], row["recovered"]) == (cut.outcome, True), (cut, row)
    assert cut.outcome == "done" or row["reason"], (cut, row)
    stem = f"/connectors/{cut.connector}"
    if cut.state is None:
        answers = [await cluster.ask("GET", f"{stem}/{end}") for end in ("status", "offsets")]
        assert [answer.status_code for answer in answers] == [httpx.codes.NOT_FOUND] * 2, cut
        return

    async def has_state() -> bool:
        status = (await cluster.ask("GET", f"{stem}/status")).json()
        return bool(status["connector"]["state"] == cut.state)

    await until(has_state)
    expected = [] if cut.position is None else AT_4
    assert (await cluster.ask("GET", f"{stem}/offsets")).json()["offsets"] == expected, cut
    config = (await cluster.ask("GET", f"{stem}/config")).json()
    assert "batch.size" not in config, cut  # an undo has removed it


async def check_records(broker: Broker, cuts: Iterable[CutRequest]) -> None:
    """Check that no command wrote a config twice, and that a removed connector has a tombstone."""
    async with reading(broker.bootstrap) as reader:
        entries = await read_entries(reader, ["connect-configs"])
    for cut in cuts:
        key = f"connector-{cut.connector}".encode()
        has_configs = [entry.value is not None for entry in entries if entry.key == key]
        earlier = [True, False] if cut.leaves_offsets else []
        removed = [False] if cut.command == "take-back" else []
        created = [] if cut.command == "create" and cut.state is None else [True]
        undone = [True, True] if cut.command == "undo" else []
        assert has_configs == earlier + created + undone + removed, cut
