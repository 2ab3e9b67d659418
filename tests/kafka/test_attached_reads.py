"""Reads, answers, imports and undos of an attached service, and a move to `serve --own`."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import pytest_asyncio

from controlplane.core.commands import CommandRequest
from controlplane.core.state import Topics
from tests.cli.command_calls import refusal, shell
from tests.cli.running_service import running
from tests.client.client_calls import ClusterCalls
from tests.kafka.attached_cluster import attached_to, ended
from tests.kafka.conftest import up
from tests.kafka.own_service import serving_own, worker_file
from tests.kafka.producer import reading
from tests.kafka.real_kafka import Broker, KafkaWorker
from tests.kafka.test_migrate import migrate
from tests.kafka.worker_service import until, until_running, until_values
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.java, pytest.mark.broker]

SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
CONFIG = {"connector.class": SOURCE, "file": "lines.txt", "topic": "lines"}
CHANGED = {**CONFIG, "batch.size": "7"}
AT_4 = {"partition": {"filename": "lines.txt"}, "offset": {"position": 4}}
NOWHERE = {"partition": {"filename": "lines.txt"}, "offset": None}


class SharedAttachedCluster(NamedTuple):
    """Broker, worker, and the process of `serve --connect-url` that all tests share."""

    broker: Broker
    worker: KafkaWorker
    url: str
    trail: Path

    @asynccontextmanager
    async def clients(self) -> AsyncIterator[tuple[httpx.AsyncClient, httpx.AsyncClient]]:
        """Clients of the service and of the worker."""
        async with (
            httpx.AsyncClient(base_url=self.url, timeout=PATIENCE_S) as service,
            httpx.AsyncClient(base_url=self.worker.url, timeout=PATIENCE_S) as worker,
        ):
            yield service, worker

    async def config_end(self) -> int:
        """Offset of the next record in the config topic."""
        async with reading(self.broker.bootstrap) as reader:
            return (await reader.ends(["connect-configs"]))["connect-configs"][0]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SharedAttachedCluster]:
    """Cluster of one worker, and a service that is attached to it."""
    folder = tmp_path_factory.mktemp("kafka")
    trail = folder / "trail.db"
    async with up("3.9.1", folder) as broker, KafkaWorker("3.9.1", broker) as worker:
        words = (f"kafka://{broker.bootstrap}", "--quiet", "--connect-url", worker.url)
        async with running(*words, "--trail", f"sqlite:///{trail}") as service:
            yield SharedAttachedCluster(broker, worker, service.url, trail)
            code, printed = await service.end(signal.SIGTERM)
        assert code == 0, printed


class ShownCommand(NamedTuple):
    """Command, and the read that shows it."""

    method: str
    path: str
    body: Any
    records: int
    """Number of records of the command in the config topic."""
    read: str
    shows: Any
    """Answer of the read directly after the command."""


NAMED = {**CONFIG, "name": "orders"}
CASES = (
    ShownCommand("PUT", "/config", CHANGED, 1, "/config", {**CHANGED, "name": "orders"}),
    ShownCommand("PATCH", "/config", {"batch.size": None}, 1, "/config", NAMED),
    ShownCommand("PATCH", "/offsets", {"offsets": [AT_4]}, 0, "/offsets", {"offsets": [AT_4]}),
    ShownCommand("DELETE", "/offsets", None, 0, "/offsets", {"offsets": []}),
)
"""Commands of a stopped connector, in their order."""


async def test_a_read_directly_after_a_command_shows_it(cluster: SharedAttachedCluster) -> None:
    """Plain, past, cached and `/compat` reads show each command, without a pause before them."""
    async with cluster.clients() as (service, _):
        config = {"name": "orders", "config": CONFIG, "initial_state": "STOPPED"}
        for base in ("", "/compat/3.9"):
            end = await cluster.config_end()
            listed = await service.get(f"{base}/connectors")
            assert (await service.post("/connectors", json=config)).status_code == 201
            assert await _reread(service, f"{base}/connectors", listed) == ["orders"]
            end += 2  # the target state and the config
            for case in CASES:
                read = f"{base}/connectors/orders{case.read}"
                before = await service.get(read)
                path = f"/connectors/orders{case.path}"
                answer = await service.request(case.method, path, json=case.body)
                assert answer.is_success, answer.text
                end += case.records
                if case.records:
                    past = await service.get(f"{read}?as_of=config@{end - 1}")
                    assert past.json() == case.shows, case
                assert await _reread(service, read, before) == case.shows, case
            for verb, state in (("resume", "STARTED"), ("pause", "PAUSED"), ("stop", "STOPPED")):
                assert (await service.put(f"/connectors/orders/{verb}")).is_success
                assert (await _target_states(service))[-1] == state
            listed = await service.get(f"{base}/connectors")
            assert (await service.delete("/connectors/orders")).status_code == 204
            assert await _reread(service, f"{base}/connectors", listed) == []


async def _reread(service: httpx.AsyncClient, path: str, before: httpx.Response) -> Any:
    """Read a path whose earlier answer the client has cached; the answer must be a new one."""
    tag = {"if-none-match": before.headers["etag"]} if "etag" in before.headers else {}
    answer = await service.get(path, headers=tag)
    assert answer.status_code == httpx.codes.OK, answer
    return answer.json()


async def _target_states(service: httpx.AsyncClient) -> list[str]:
    """Target states of the connector over time, from its history."""
    events = (await service.get("/connectors/orders/history")).json()["events"]
    return [event["after"] for event in events if event["what"] == "target state"]


async def test_the_past_is_read_over_rest(cluster: SharedAttachedCluster) -> None:
    """`as_of`, history, diff and watch answer about commands that went through the service."""
    async with cluster.clients() as (service, _):
        start = await cluster.config_end()
        config = {"name": "past", "config": CONFIG, "initial_state": "STOPPED"}
        assert (await service.post("/connectors", json=config)).is_success
        assert (await service.put("/connectors/past/config", json=CHANGED)).is_success
        created, changed = f"config@{start + 1}", f"config@{start + 2}"
        read = f"/connectors/past/config?as_of={created}"
        assert "batch.size" not in (await service.get(read)).json()
        events = (await service.get("/connectors/past/history")).json()["events"]
        assert (changed, "config batch.size") in [(event["at"], event["what"]) for event in events]
        changes = (await service.get(f"/diff?from={created}&connector=past")).json()["changes"]
        configs = [change for change in changes if change["aspect"] == "config"]
        assert [(change["item"], change["after"]) for change in configs] == [("batch.size", "7")]
        watched = f"/watch?connector=past&since={created}"
        async with service.stream("GET", watched) as events_sent:
            lines = events_sent.aiter_lines()
            assert (await _next_change(lines, "config"))["item"] == "batch.size"
            assert (await service.put("/connectors/past/pause")).is_success
            assert (await _next_change(lines, "target state"))["after"] == "PAUSED"
        assert (await service.delete("/connectors/past")).is_success


async def _next_change(lines: AsyncIterator[str], aspect: str) -> Any:
    """Return the next change of an aspect in a stream of server-sent events."""
    async with asyncio.timeout(PATIENCE_S):
        async for line in lines:
            if line.startswith("data: {"):
                change = json.loads(line.removeprefix("data: "))
                if change["aspect"] == aspect:
                    return change
    raise AssertionError("the stream ended")


async def test_only_location_differs_from_the_workers_answer(
    cluster: SharedAttachedCluster,
) -> None:
    """Status, body and type of a creation are the worker's; `Location` has our address."""
    async with cluster.clients() as (service, worker):
        body = {"name": "passed on", "config": CONFIG, "initial_state": "STOPPED"}
        answers = []
        for rest in (service, worker):
            answers.append(await rest.post("/connectors", json=body))
            await _delete(rest, "/connectors/passed%20on")
        ours, theirs = answers
        assert (ours.status_code, ours.content) == (theirs.status_code, theirs.content)
        assert ours.headers["content-type"] == theirs.headers["content-type"]
        path = "/connectors/passed%20on"
        assert [answer.headers["location"] for answer in answers] == [
            cluster.url + path,
            cluster.worker.url.rstrip("/") + path,
        ]


async def _delete(rest: httpx.AsyncClient, path: str) -> None:
    """Delete a connector, again while the worker rebalances."""

    async def is_deleted() -> bool:
        return (await rest.delete(path)).is_success

    await until(is_deleted)


async def test_a_second_service_cannot_use_the_trail(cluster: SharedAttachedCluster) -> None:
    """A second service with the same trail is refused with one sentence; the first continues."""
    words = (f"kafka://{cluster.broker.bootstrap}", "--connect-url", cluster.worker.url)
    trail = ("--trail", f"sqlite:///{cluster.trail}", "--port", "0")
    result = await asyncio.to_thread(shell, "serve", *words, *trail)
    assert f"is the control plane of {cluster.trail}: ask it over HTTP" in refusal(result)
    async with cluster.clients() as (service, _):
        assert (await service.put("/connectors/nobody/pause")).status_code == 404


async def test_a_bundle_is_imported_through_the_service(
    cluster: SharedAttachedCluster, tmp_path: Path
) -> None:
    """The worker gets config, offsets and state of the bundle, as planned."""
    calls = ClusterCalls(cluster.url, tmp_path)
    body = {"name": "carried", "config": CHANGED, "initial_offsets": [AT_4]}
    async with cluster.clients() as (service, worker):
        created = await service.post("/connectors", json={**body, "initial_state": "STOPPED"})
        assert created.is_success, created.text
        before = (await worker.get("/connectors/carried")).json()
        bundle = tmp_path / "bundle.json"
        await asyncio.to_thread(calls.output, "bundle", "export", "carried", "-f", bundle)
        assert (await service.delete("/connectors/carried/offsets")).is_success
        assert (await service.delete("/connectors/carried")).is_success
        imported = await asyncio.to_thread(calls.output, "bundle", "import", bundle)
        assert imported.startswith("carried: created (STOPPED, 1 offset)\n")
        assert (await worker.get("/connectors/carried")).json() == before
        offsets = (await worker.get("/connectors/carried/offsets")).json()
        assert offsets == {"offsets": [AT_4]}
        row = await ended(service, connector="carried")
        assert (row["command"], row["compared"]) == ("create", "as planned")
        assert (await service.delete("/connectors/carried")).is_success


async def test_an_undo_of_a_running_connector_is_a_chain(
    cluster: SharedAttachedCluster, tmp_path: Path
) -> None:
    """Stop, config, offsets, resume: the connector then reads again from the restored offset."""
    lines = tmp_path / "undone.txt"
    lines.write_text("aaa\n")
    plain = {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}
    config = {"connector.class": SOURCE, "file": str(lines), "topic": "undone", **plain}
    steps: list[str] = []

    async def noted(_: CommandRequest, step: str) -> None:
        steps.append(step)

    async with cluster.clients() as (_, worker):

        async def has_read(client: httpx.AsyncClient, position: int) -> bool:
            offsets = (await client.get("/connectors/undone/offsets")).json()["offsets"]
            return [entry["offset"] for entry in offsets] == [{"position": position}]

        async with attached_to(cluster.broker, [cluster.worker], stepped=noted) as rest:
            created = await rest.post("/connectors", json={"name": "undone", "config": config})
            assert created.is_success, created.text
            await until_running(worker, "undone")
            await until(lambda: has_read(rest, 4))  # a worker may know the offset earlier
            moment = (await rest.get("/connectors/undone/history")).json()["events"][-1]["at"]
            changed = await rest.put(
                "/connectors/undone/config", json={**config, "batch.size": "7"}
            )
            assert changed.is_success, changed.text
            with lines.open("a") as file:
                file.write("bbb\n")
            await until(lambda: has_read(worker, 8))
            del steps[:]
            undone = await rest.post(f"/connectors/undone/undo?to={moment}&offsets=true")
            assert undone.is_success, undone.text
            assert steps == ["accepted", "stop", "put-config", "offsets", "resume"]
            assert (await ended(rest))["compared"] == "as planned"
            restored = (await worker.get("/connectors/undone/config")).json()
            assert restored == {**config, "name": "undone"}
            await until_running(worker, "undone")
            await until_values(cluster.broker, "undone", ["aaa", "bbb", "bbb"])
            await rest.delete("/connectors/undone")


async def test_a_connector_moves_to_own_topics_and_back(
    cluster: SharedAttachedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`migrate` takes config, offsets and state from the worker to `serve --own`, and back."""
    monkeypatch.chdir(tmp_path)
    file = worker_file(tmp_path, Topics("own-configs", "own-offsets", "own-status", "own-commands"))
    body = {"name": "moved", "config": CHANGED, "initial_state": "STOPPED"}
    async with (
        cluster.clients() as (service, worker),
        serving_own(cluster.broker, file) as (own, ours),
    ):
        created = await service.post("/connectors", json={**body, "initial_offsets": [AT_4]})
        assert created.is_success, created.text
        before = (await worker.get("/connectors/moved")).json()
        for source, target, client, base in (
            (cluster.worker.url, own.url, ours, "/compat/3.9"),
            (own.url, cluster.worker.url, worker, ""),
        ):
            result = await migrate("moved", source, target, "--delete")
            assert result.code == 0, result
            assert (await client.get(f"{base}/connectors/moved")).json() == before
            offsets = (await client.get(f"{base}/connectors/moved/offsets")).json()
            assert offsets == {"offsets": [AT_4]}
        assert (await ours.get("/connectors")).json() == []
