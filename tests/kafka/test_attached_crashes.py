"""Attached services that crash between two requests; the next service completes the command."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import pytest_asyncio

from controlplane.attached.command_trail import ClusterIdentity, Trail
from controlplane.attached.settings import ConnectSettings
from controlplane.client.http.request_errors import Declined, Unavailable
from controlplane.controller.admission import subject_of
from controlplane.core.commands import CommandRequest
from controlplane.core.state import Topics
from controlplane.logs.log import LogNotUsable
from controlplane.logs.sqlite import SqliteLog
from tests.cli.running_service import running
from tests.client.client_calls import ClusterCalls
from tests.kafka.attached_cluster import attached_to, ended
from tests.kafka.conftest import up
from tests.kafka.consumers import consuming
from tests.kafka.producer import create_topic, reading
from tests.kafka.real_kafka import Broker, KafkaWorker
from tests.kafka.worker_service import until
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.java, pytest.mark.broker]

SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
AT_4 = [{"partition": {"filename": "lines.txt"}, "offset": {"position": 4}}]
AT_9 = [{"partition": {"filename": "lines.txt"}, "offset": {"position": 9}}]
CONFIG = {"connector.class": SOURCE, "file": "lines.txt", "topic": "lines", "tasks.max": "1"}


class SteeredCluster:
    """Broker with one worker, shared by the tests of this module."""

    def __init__(self, broker: Broker, worker: KafkaWorker) -> None:
        self.broker = broker
        self.worker = worker

    async def ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """Send a request to the worker itself, as another client does."""
        async with httpx.AsyncClient(base_url=self.worker.url, timeout=60) as rest:
            return await rest.request(method, path, json=body)

    async def until_done(self, method: str, path: str, body: Any = None) -> None:
        """Send a request to the worker itself, again while the worker rebalances."""

        async def is_done() -> bool:
            return (await self.ask(method, path, body)).is_success

        await until(is_done)

    async def leaves_offsets(self, name: str) -> None:
        """Leave offsets of an earlier connector of this name."""
        body = {"name": name, "config": CONFIG, "initial_state": "STOPPED"}
        await self.until_done("POST", "/connectors", body)
        await self.moves_to_9(name)
        await self.until_done("DELETE", f"/connectors/{name}")

    async def moves_to_9(self, name: str) -> None:
        """Alter the offset of a stopped connector."""
        await self.until_done("PATCH", f"/connectors/{name}/offsets", {"offsets": AT_9})


@asynccontextmanager
async def steered_cluster(
    folder: Path, broker_release: str = "3.9.1", release: str = "3.9.1", **settings: Any
) -> AsyncIterator[SteeredCluster]:
    """Broker and cluster of one worker, which has created its topics."""

    async def has_topics() -> bool:
        async with reading(broker.bootstrap) as reader:
            return Topics().config in await reader.topics()

    async with (
        up(broker_release, folder) as broker,
        KafkaWorker(release, broker, **settings) as worker,
    ):
        await until(has_topics)  # a worker answers before that
        yield SteeredCluster(broker, worker)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SteeredCluster]:
    """Cluster of all tests of this module."""
    async with steered_cluster(tmp_path_factory.mktemp("kafka")) as steered:
        yield steered


class CrashedHere(Exception):
    """Crash of the service, as by `kill -9`."""


class CrashAfter:
    """Crashes the service after a request (`accepted`: before the first one)."""

    def __init__(self, step: str) -> None:
        self._step = step

    async def __call__(self, _: CommandRequest, step: str) -> None:
        """Raise CrashedHere once the request of this step was sent."""
        if step == self._step:
            raise CrashedHere(step)


def creation(name: str, state: str = "PAUSED") -> dict[str, Any]:
    """Body of a creation with offsets."""
    return {"name": name, "config": CONFIG, "initial_state": state, "initial_offsets": AT_4}


async def offsets_of(cluster: SteeredCluster, name: str) -> Any:
    """Offsets that the worker shows; None: the connector is missing."""
    answer = await cluster.ask("GET", f"/connectors/{name}/offsets")
    return answer.json()["offsets"] if answer.is_success else None


@pytest.mark.parametrize("step", ["create", "reset", "offsets", "pause"])
async def test_a_creation_with_offsets_is_completed(
    cluster: SteeredCluster, tmp_path: Path, step: str
) -> None:
    """The next process completes the creation after a crash at any request (KIP-995)."""
    name, trail = f"cut-after-{step}", tmp_path / "trail.db"
    await cluster.leaves_offsets(name)
    attach = (cluster.broker, [cluster.worker])
    async with attached_to(*attach, trail=trail, stepped=CrashAfter(step)) as rest:
        assert (await rest.post("/connectors", json=creation(name))).is_server_error
    async with attached_to(*attach, trail=trail) as rest:
        row = await ended(rest)
        assert (row["outcome"], row["recovered"]) == ("done", True)
        assert await offsets_of(cluster, name) == AT_4
        assert (await cluster.ask("GET", f"/connectors/{name}/status")).json()["connector"][
            "state"
        ] == "PAUSED"


class HeldConnector:
    """Holds the commands of one connector after a request, until `released` is set."""

    def __init__(self, name: str) -> None:
        self.released = asyncio.Event()
        self._name = name

    async def __call__(self, request: CommandRequest, _: str) -> None:
        """Wait for `released` if the command is about the connector."""
        if subject_of(request.command)["connector"] == self._name:
            await self.released.wait()


async def test_a_cut_off_command_precedes_the_next_one_of_its_connector(
    cluster: SteeredCluster, tmp_path: Path
) -> None:
    """The cut-off command ends before a newer one, even while that of another connector is held."""
    attach, trail = (cluster.broker, [cluster.worker]), tmp_path / "trail.db"
    names = ("cut-first", "cut-second")
    async with attached_to(*attach, trail=trail, stepped=CrashAfter("create")) as rest:
        for name in names:
            assert (await rest.post("/connectors", json=creation(name))).is_server_error
    held = HeldConnector("cut-first")
    async with attached_to(*attach, trail=trail, stepped=held) as rest:
        assert (await rest.put("/connectors/cut-second/stop")).is_success
        creations = (await rest.get("/commands?command=create")).json()["commands"]
        outcomes = {row["connector"]: row["outcome"] for row in creations}
        assert [outcomes[name] for name in names] == ["unfinished", "done"]
        held.released.set()
        assert (await ended(rest, connector="cut-first"))["outcome"] == "done"


async def test_a_creation_that_was_never_sent_is_not_done(
    cluster: SteeredCluster, tmp_path: Path
) -> None:
    """After a crash before the first request, the creation is not done, and the trail says so."""
    trail = tmp_path / "trail.db"
    attach = (cluster.broker, [cluster.worker])
    async with attached_to(*attach, trail=trail, stepped=CrashAfter("accepted")) as rest:
        assert (await rest.post("/connectors", json=creation("unsent"))).is_server_error
    async with attached_to(*attach, trail=trail) as rest:
        row = await ended(rest)
        assert row["outcome"] == "failed"
        assert "was not created before this service was cut off" in row["reason"]
        assert await offsets_of(cluster, "unsent") is None


QUICK = ConnectSettings(
    answer_timeout_ms=1_000, retry_ms=100, records_ms=PATIENCE_S * 1_000, patience_ms=60_000
)
"""Limits with which a hanging worker soon causes a time-out."""


@asynccontextmanager
async def hanging_at_creation(
    cluster: SteeredCluster, trail: Path, limits: ConnectSettings
) -> AsyncIterator[httpx.AsyncClient]:
    """Service whose worker hangs at the first request of a creation, until the block ends."""

    async def hang(_: CommandRequest, step: str) -> None:
        if step == "accepted":
            await cluster.worker.hang()

    attach = (cluster.broker, [cluster.worker])
    try:
        async with attached_to(*attach, trail=trail, stepped=hang, limits=limits) as rest:
            yield rest
            await cluster.worker.go_on()
    finally:
        await cluster.worker.go_on()


async def test_a_creation_that_is_done_late_gets_its_offsets(
    cluster: SteeredCluster, tmp_path: Path
) -> None:
    """A worker creates the connector after the service's time-out; the offsets are still set."""
    async with hanging_at_creation(cluster, tmp_path / "trail.db", QUICK) as rest:
        answer = await rest.post("/connectors", json=creation("late"))
        assert answer.is_server_error
        assert "completed or taken back once the workers answer" in answer.json()["message"]
        await asyncio.sleep(QUICK.answer_timeout_ms / 1_000)  # the log has been searched by now
        await cluster.worker.go_on()
        row = await ended(rest)
    assert (row["outcome"], row["recovered"]) == ("done", True), row
    assert await offsets_of(cluster, "late") == AT_4


async def test_a_creation_that_does_not_appear_has_an_unknown_outcome(
    cluster: SteeredCluster, tmp_path: Path
) -> None:
    """The outcome is unknown after the patience: the worker may still create the connector."""
    limits = msgspec.structs.replace(QUICK, records_ms=300)
    async with hanging_at_creation(cluster, tmp_path / "trail.db", limits) as rest:
        assert (await rest.post("/connectors", json=creation("unseen"))).is_server_error
        row = await ended(rest)
    assert row["outcome"] == "unknown", row
    assert "The connector may still be created, stopped and without its offsets" in row["reason"]


async def test_a_failed_creation_is_undone(cluster: SteeredCluster) -> None:
    """Another client resumes the connector between two requests; the service deletes it."""

    async def has_tasks() -> bool:
        return bool((await cluster.ask("GET", "/connectors/disturbed")).json()["tasks"])

    async def resumed(_: CommandRequest, step: str) -> None:
        if step == "create":
            assert (await cluster.ask("PUT", "/connectors/disturbed/resume")).is_success
            await until(has_tasks)

    async with attached_to(cluster.broker, [cluster.worker], stepped=resumed) as rest:
        answer = await rest.post("/connectors", json=creation("disturbed"))
        assert answer.status_code == httpx.codes.BAD_REQUEST
        message = answer.json()["message"]
        assert message.startswith("Failed to set the initial offsets of connector disturbed: Conn")
        assert await offsets_of(cluster, "disturbed") is None
        assert (await ended(rest))["outcome"] == "failed"


async def test_answers_are_those_of_kip_995(cluster: SteeredCluster) -> None:
    """The answers are the KIP's; invalid offsets and a used name change nothing."""
    async with attached_to(cluster.broker, [cluster.worker]) as rest:
        answer = await rest.post("/connectors", json=creation("orders", "STOPPED"))
        assert answer.status_code == httpx.codes.OK
        text = "The offsets for this connector have been set successfully"
        assert answer.json()["initial_offsets_response"] == text
        assert (await ended(rest))["compared"] == "as planned"
        again = await rest.post("/connectors", json=creation("orders"))
        assert again.status_code == httpx.codes.CONFLICT
        empty = {**creation("empty"), "initial_offsets": []}
        refused = await rest.post("/connectors", json=empty)
        assert refused.status_code == httpx.codes.BAD_REQUEST
        assert await offsets_of(cluster, "orders") == AT_4
        assert await offsets_of(cluster, "empty") is None


async def test_single_requests_are_looked_up(cluster: SteeredCluster, tmp_path: Path) -> None:
    """A request without a recorded answer is never repeated; the log shows its outcome."""
    trail, attach = tmp_path / "trail.db", (cluster.broker, [cluster.worker])
    body = {"name": "looked-up", "config": CONFIG, "initial_state": "STOPPED"}
    assert (await cluster.ask("POST", "/connectors", body)).is_success
    key = {"idempotency-key": "once"}
    async with attached_to(*attach, trail=trail, stepped=CrashAfter("accepted")) as rest:
        assert (await rest.put("/connectors/looked-up/pause", headers=key)).is_server_error
    # Another client pauses it: the log has the planned record, and the command counts as done.
    assert (await cluster.ask("PUT", "/connectors/looked-up/pause")).is_success
    async with attached_to(*attach, trail=trail, stepped=CrashAfter("accepted")) as rest:
        assert (await ended(rest))["outcome"] == "done"
        assert (await rest.put("/connectors/looked-up/pause", headers=key)).status_code == 202
        assert (await rest.put("/connectors/looked-up/resume")).is_server_error
    async with attached_to(*attach, trail=trail) as rest:
        row = await ended(rest)
        assert (row["outcome"], row["compared"]) == ("unknown", "differs")
        assert row["differences"] == ["target-state-looked-up is missing in connect-configs"]


async def test_successive_commands_are_distinguished(
    cluster: SteeredCluster, tmp_path: Path
) -> None:
    """Trail and log distinguish immediate successive commands of one connector."""
    trail, path = tmp_path / "trail.db", "/connectors/hurried"
    body = {"name": "hurried", "config": CONFIG, "initial_state": "STOPPED"}
    async with attached_to(cluster.broker, [cluster.worker], trail=trail) as rest:
        assert (await rest.post("/connectors", json=body)).is_success
        for number in range(5):
            position = {"partition": {"filename": "lines.txt"}, "offset": {"position": number}}
            altered = await rest.patch(f"{path}/offsets", json={"offsets": [position]})
            reset = await rest.delete(f"{path}/offsets")
            assert (altered.is_success, reset.is_success) == (True, True), altered.text + reset.text
            await asyncio.gather(rest.put(f"{path}/stop"), rest.put(f"{path}/stop"))
        await ended(rest)
        rows = (await rest.get("/commands?connector=hurried")).json()["commands"]
    compared = [row["compared"] for row in rows if row["principal"] is not None]
    assert compared == ["as planned"] * 21
    log = await SqliteLog.open(trail)
    entries = [entry async for batch in log.read(["connect-commands"]) for entry in batch.entries()]
    await log.close()
    # Each command has two successive records with one key: its acceptance and its end.
    keys = [entry.key for entry in entries]
    assert keys[::2] == keys[1::2]
    assert len({*keys}) == 21


@asynccontextmanager
async def serving(cluster: SteeredCluster, trail: Path) -> AsyncIterator[str]:
    """URL of a process of `controlplane serve --connect-url`."""
    words = (f"kafka://{cluster.broker.bootstrap}", "--quiet", "--connect-url", cluster.worker.url)
    async with running(*words, "--trail", f"sqlite:///{trail}") as service:
        yield service.url
        code, printed = await service.end(signal.SIGTERM)
    assert code == 0, printed


async def test_serve_executes_commands_with_a_trail(
    cluster: SteeredCluster, tmp_path: Path
) -> None:
    """`serve --connect-url --trail` executes commands; the trail belongs to this cluster alone."""
    trail = tmp_path / "trail.db"
    async with (
        serving(cluster, trail) as url,
        httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as rest,
    ):
        assert (await rest.put("/connectors/nobody/pause")).status_code == httpx.codes.NOT_FOUND
        assert (await rest.get("/commands")).is_success
    log = await SqliteLog.open(trail)
    rows = [entry async for batch in log.read(["connect-commands"]) for entry in batch.entries()]
    assert len(rows) == 2  # accepted, finished
    other = Topics(config="other-configs")
    with pytest.raises(LogNotUsable, match="The trail is that of connect-configs in Kafka cl"):
        await Trail.open(log, other.commands, ClusterIdentity("other", other.config), at_ms=1)
    await log.close()


async def test_several_connectors_are_changed_after_one_plan(
    cluster: SteeredCluster, tmp_path: Path
) -> None:
    """After one plan the workers change each connector except an unknown one."""
    names = [f"jdbc-{letter}" for letter in "abc"]
    for name in names:
        assert (
            await cluster.ask("POST", "/connectors", {"name": name, "config": CONFIG})
        ).is_success
    async with serving(cluster, tmp_path / "trail.db") as url:
        calls = ClusterCalls(url, tmp_path)
        several = ("stop", "--all", "-e", "jdbc-.*")
        planned = await asyncio.to_thread(calls.output, *several, "--dry-run")
        assert planned.startswith("3 connectors would be stopped: 6 records\n")
        shown = await asyncio.to_thread(calls.json, "commands")
        assert [row for row in shown["commands"] if row["principal"] is not None] == []
        listed = await asyncio.to_thread(calls.output, "commands")
        assert len([line for line in listed.splitlines() if "jdbc-" in line]) == len(names)
        printed = await asyncio.to_thread(calls.output, *several)
        assert printed.startswith(planned)
        assert printed.splitlines()[-1].split(maxsplit=2) == ["stopped", "3", ", ".join(names)]
        resume = ("resume", "jdbc-a", "nix", "jdbc-c", "-o", "json")
        result = await asyncio.to_thread(calls.ask, *resume)
        assert result.code == Declined.exit_code
        assert [row["result"] for row in result.json] == ["resumed", "failed", "resumed"]
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as rest:
            await ended(rest, connector="jdbc-c")
            rows = (await rest.get("/commands?outcome=done")).json()["commands"]
        ours = [row for row in rows if row["principal"] is not None]
        assert [(row["command"], row["connector"]) for row in ours] == [
            *(("stop", name) for name in names),
            ("resume", "jdbc-a"),
            ("resume", "jdbc-c"),
        ]
        assert {row["compared"] for row in ours} == {"as planned"}


async def test_offsets_of_an_active_group_stay(cluster: SteeredCluster, tmp_path: Path) -> None:
    """Connect's own sentence and exit code 4; the offsets stay as they are."""
    await create_topic(cluster.broker, "held", 1, cleanup__policy="delete")
    config = {"connector.class": SINK, "topics": "held", "file": str(tmp_path / "copy")}
    body = {"name": "holder", "config": config, "initial_state": "STOPPED"}
    assert (await cluster.ask("POST", "/connectors", body)).is_success
    async with serving(cluster, tmp_path / "trail.db") as url:
        calls = ClusterCalls(url, tmp_path)
        alter = ("offsets", "alter", "holder", "--kafka-topic", "held", "--kafka-partition", "0")
        async with consuming(cluster.broker, "held", "connect-holder"):
            for words in ((*alter, "--kafka-offset", "0"), ("offsets", "reset", "holder", "--yes")):
                reason = await asyncio.to_thread(calls.refused, *words, code=Unavailable.exit_code)
                assert "either because its tasks haven't stopped completely yet" in reason
        assert await offsets_of(cluster, "holder") == []


async def test_a_foreign_change_is_undone_once(cluster: SteeredCluster, tmp_path: Path) -> None:
    """The history has a foreign change; an undo sends requests, and a repeated key sends none."""
    attach, trail = (cluster.broker, [cluster.worker]), tmp_path / "trail.db"
    async with attached_to(*attach, trail=trail) as rest:
        body = {"name": "undone", "config": CONFIG, "initial_state": "STOPPED"}
        assert (await rest.post("/connectors", json=body)).status_code == httpx.codes.CREATED
        created = (await ended(rest))["records"][-1]
        altered = await rest.patch("/connectors/undone/offsets", json={"offsets": AT_4})
        assert altered.is_success, altered.text
        moved = (await ended(rest))["records"][-1]
        config = {**CONFIG, "batch.size": "7"}
        assert (await cluster.ask("PUT", "/connectors/undone/config", config)).is_success
        await cluster.moves_to_9("undone")
        key = {"idempotency-key": "undo"}
        path = f"/connectors/undone/undo?to={moved}&offsets=true"
        dry = (await rest.post(f"{path}&dry_run=true")).json()
        assert [step["name"] for step in dry["steps"]] == ["put-config", "offsets-write"]
        undone = await rest.post(path, headers=key)
        assert "batch.size" not in undone.json()["config"]
        assert await offsets_of(cluster, "undone") == AT_4
        row = await ended(rest)
        assert (row["command"], row["outcome"], row["compared"]) == (
            "restore",
            "done",
            "as planned",
        )
    async with attached_to(*attach, trail=trail) as rest:
        assert (await rest.post(path, headers=key)).json() == undone.json()
        rows = (await rest.get("/commands?connector=undone")).json()["commands"]
        assert [(row["command"], row["principal"]) for row in rows] == [
            ("create", "anonymous"),
            ("alter-offsets", "anonymous"),
            ("put-config", None),
            ("restore", "anonymous"),
        ]
        history = (await rest.get("/connectors/undone/history")).json()["events"]
        assert "config batch.size" in [event["what"] for event in history]
        offsets = [int(at.removeprefix("config@")) for at in (history[0]["at"], created)]
        assert offsets == sorted(offsets)
