"""Creations with offsets (KIP-995) on the oldest and the newest workers that can do them."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from controlplane.core.commands import CommandRequest
from controlplane.rest.errors import NOTICE
from tests.attached.test_attached_plane import MAYBE_SET, SET
from tests.kafka.attached_cluster import attached_to, ended
from tests.kafka.conftest import up
from tests.kafka.producer import create_topic
from tests.kafka.real_kafka import KafkaWorker
from tests.kafka.test_attached_crashes import (
    AT_4,
    AT_9,
    CONFIG,
    CrashAfter,
    SteeredCluster,
    creation,
    offsets_of,
    serving,
    steered_cluster,
)
from tests.kafka.worker_service import until
from tests.oracle.kafka import harness
from tests.patience import PATIENCE_S
from tests.validation import class_cases

pytestmark = [pytest.mark.java, pytest.mark.broker, pytest.mark.prove]

WORKERS = (("3.9.1", "3.7.2"), ("4.3.0", "4.3.0"))
"""Releases of a broker and its worker; `test_attached_crashes.py` has a worker of 3.9."""


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=WORKERS, ids=" ".join)
async def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[SteeredCluster]:
    """Broker and cluster of one worker."""
    classes = harness(class_cases.JAVA, "3.9.1")
    settings: dict[str, Any] = {"classes": classes, "plugin__discovery": "hybrid_warn"}
    folder = tmp_path_factory.mktemp("kafka")
    async with steered_cluster(folder, *request.param, **settings) as steered:
        yield steered


async def reaches(cluster: SteeredCluster, name: str, state: str) -> None:
    """Wait until the connector has this state; a running one has a task, a stopped one none."""

    async def is_there() -> bool:
        answer = await cluster.ask("GET", f"/connectors/{name}/status")
        if not answer.is_success:
            return False
        status = answer.json()
        tasks = [task["state"] for task in status["tasks"]]
        return status["connector"]["state"] == state and (state != "RUNNING" or tasks == [state])

    await until(is_there)


async def is_gone(cluster: SteeredCluster, name: str, *, offsets: Any = ()) -> None:
    """Check that no connector is left, and only these offsets; a new connector shows them."""
    assert (await cluster.ask("GET", f"/connectors/{name}")).status_code == 404
    body = {"name": name, "config": CONFIG, "initial_state": "STOPPED"}
    assert (await cluster.ask("POST", "/connectors", body)).is_success
    assert await offsets_of(cluster, name) == [*offsets]


@pytest.mark.parametrize("state", [None, "RUNNING", "PAUSED", "STOPPED"])
async def test_a_connector_starts_at_its_offsets(
    cluster: SteeredCluster, tmp_path: Path, state: str | None
) -> None:
    """Each state is reached with the given offsets; only a running connector reads on."""
    name, lines = f"new-{state}", tmp_path / "lines.txt"
    lines.write_text("aaa\nbbb\n")
    at_4 = [{"partition": {"filename": str(lines)}, "offset": {"position": 4}}]
    body: dict[str, Any] = {"name": name, "config": CONFIG | {"file": str(lines)}}
    body |= {"initial_offsets": at_4} | ({} if state is None else {"initial_state": state})
    async with attached_to(cluster.broker, [cluster.worker]) as rest:
        answer = await rest.post("/connectors", json=body)
        assert answer.status_code == httpx.codes.OK, answer.text
        assert answer.json()["initial_offsets_response"] == SET
        row = await ended(rest)
        assert (row["outcome"], row["compared"]) == ("done", "as planned"), row
    await reaches(cluster, name, state or "RUNNING")
    if state in ("PAUSED", "STOPPED"):
        assert await offsets_of(cluster, name) == at_4
        return

    async def has_read_on() -> bool:
        shown = await offsets_of(cluster, name)
        return bool(shown[0]["offset"]["position"] == 8)

    await until(has_read_on)


async def test_an_unconfirmed_creation_has_the_indefinite_message(cluster: SteeredCluster) -> None:
    """The class keeps Kafka's default, which confirms nothing, so the KIP's other text is sent."""
    await create_topic(cluster.broker, "numbers", 1, cleanup__policy="delete")
    config = {"connector.class": "lab.Connectors$Sound", "topics": "numbers"}
    partition = {"kafka_topic": "numbers", "kafka_partition": 0}
    at_0 = [{"partition": partition, "offset": {"kafka_offset": 0}}]
    body = {"name": "sink", "config": config, "initial_state": "STOPPED", "initial_offsets": at_0}
    async with attached_to(cluster.broker, [cluster.worker]) as rest:
        answer = await rest.post("/connectors", json=body)
        assert answer.status_code == httpx.codes.OK, answer.text
        assert answer.json()["initial_offsets_response"] == MAYBE_SET
        assert (await ended(rest))["compared"] == "as planned"
    assert await offsets_of(cluster, "sink") == at_0


@pytest.mark.parametrize(
    ("state", "step"),
    [
        *(("PAUSED", step) for step in ("create", "reset", "offsets", "pause")),
        *(("RUNNING", step) for step in ("create", "offsets", "resume")),
        *(("STOPPED", step) for step in ("create", "offsets")),
    ],
)
async def test_a_creation_is_completed_after_a_crash(
    cluster: SteeredCluster, tmp_path: Path, state: str, step: str
) -> None:
    """The next process completes the creation after a crash at any request, in each state."""
    name, trail = f"cut-{state}-{step}", tmp_path / "trail.db"
    await cluster.leaves_offsets(name)
    attach = (cluster.broker, [cluster.worker])
    async with attached_to(*attach, trail=trail, stepped=CrashAfter(step)) as rest:
        assert (await rest.post("/connectors", json=creation(name, state))).is_server_error
    async with attached_to(*attach, trail=trail) as rest:
        row = await ended(rest)
    assert (row["outcome"], row["recovered"]) == ("done", True), row
    await reaches(cluster, name, state)
    assert await offsets_of(cluster, name) == AT_4


@pytest.mark.parametrize("step", ["create", "reset"])
async def test_a_creation_that_others_disturb_is_taken_back(
    cluster: SteeredCluster, step: str
) -> None:
    """Another client resumes the connector, so the worker refuses the next request."""
    name = f"disturbed-{step}"
    await cluster.leaves_offsets(name)

    async def resumed(_: CommandRequest, done: str) -> None:
        if done == step:
            assert (await cluster.ask("PUT", f"/connectors/{name}/resume")).is_success
            await reaches(cluster, name, "RUNNING")

    async with attached_to(cluster.broker, [cluster.worker], stepped=resumed) as rest:
        answer = await rest.post("/connectors", json=creation(name))
        assert (await ended(rest))["outcome"] == "failed"
    doing = {"create": "wipe the existing", "reset": "set the initial"}[step]
    assert answer.status_code == httpx.codes.BAD_REQUEST
    sentence = f"Failed to {doing} offsets of connector {name}: "
    assert answer.json()["message"].startswith(sentence)
    await is_gone(cluster, name)


async def test_a_creation_with_refused_offsets_changes_nothing(cluster: SteeredCluster) -> None:
    """The connector's class refuses the offsets; those of an earlier connector stay."""
    await cluster.leaves_offsets("refused")
    negative = [{"partition": AT_9[0]["partition"], "offset": {"position": -1}}]
    body = creation("refused") | {"initial_offsets": negative}
    async with attached_to(cluster.broker, [cluster.worker]) as rest:
        answer = await rest.post("/connectors", json=body)
        assert (await ended(rest))["outcome"] == "refused"
    sentence = "Failed to set the initial offsets of connector refused: The value for the"
    assert answer.is_server_error
    assert answer.json()["message"].startswith(sentence)
    await is_gone(cluster, "refused", offsets=AT_9)


async def test_workers_of_3_4_get_no_such_request(tmp_path: Path) -> None:
    """`serve --connect-url` refuses what 3.4 lacks; its other answers are the worker's."""
    create = {"name": "old", "config": CONFIG}
    sentence = "{} needs workers of Connect 3.7 or later, and this service plans as 3.4.1, found "
    async with up("3.9.1", tmp_path) as broker, KafkaWorker("3.4.1", broker) as worker:
        cluster = SteeredCluster(broker, worker)
        async with (
            serving(cluster, tmp_path / "trail.db") as url,
            httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as rest,
        ):
            for field, value in (("initial_state", "STOPPED"), ("initial_offsets", AT_4)):
                for query in ("", "?dry_run=true"):
                    answer = await rest.post(f"/connectors{query}", json=create | {field: value})
                    assert answer.status_code == httpx.codes.BAD_REQUEST
                    assert answer.json()["message"].startswith(sentence.format(field))
            assert (await cluster.ask("GET", "/connectors")).json() == []
            assert (await rest.post("/connectors", json=create)).status_code == httpx.codes.CREATED
            moves = {"offsets": AT_4}
            for method, path, body in (
                ("PATCH", "/connectors/old/offsets", moves),
                ("DELETE", "/connectors/old/offsets", None),
                ("PUT", "/connectors/old/stop", None),
            ):
                ours = await rest.request(method, path, json=body)
                theirs = await cluster.ask(method, path, body)
                assert ours.status_code == theirs.status_code == httpx.codes.NOT_FOUND
                assert ours.content == theirs.content
                notice = "this service answers as Connect 3.4.1, found out at its start"
                assert ours.headers[NOTICE].startswith(notice)
            await rest.put("/connectors/old/config", json=CONFIG | {"tasks.max": "2"})
            moved = (await ended(rest))["records"][-1]
            await rest.put("/connectors/old/config", json=CONFIG | {"tasks.max": "1"})
            undo = f"/connectors/old/undo?to={moved}"
            assert (await rest.post(undo)).json()["config"]["tasks.max"] == "2"
