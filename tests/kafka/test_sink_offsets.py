"""Offsets of a real sink: our answers equal the worker's to the byte."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import pytest_asyncio

from controlplane.controller.kafka_actions import KafkaActions
from controlplane.core.commands import CreateConnector
from controlplane.core.records import Target
from controlplane.logs.kafka.connector_clusters import ConnectorClusters
from controlplane.plane import Settings
from controlplane.settings import Configuration
from tests.cli.command_calls import call
from tests.client.client_calls import ClusterCalls
from tests.conftest import sampled
from tests.controller.scene import plane_on
from tests.kafka.conftest import RELEASES, up
from tests.kafka.consumers import POLL_S, consuming, groups_of
from tests.kafka.live_cluster import BUSY, serving
from tests.kafka.producer import create_topic, writer
from tests.kafka.real_kafka import Broker, KafkaWorker
from tests.kafka.worker_service import until
from tests.patience import PATIENCE_S
from tests.ports import free_ports
from tests.rest.served_history import client_of

pytestmark = [pytest.mark.java, pytest.mark.broker]

SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
NAME, TOPIC, PARTITIONS = "archive", "lines", 20
CONVERTERS = dict.fromkeys(
    ("key__converter", "value__converter"), "org.apache.kafka.connect.storage.StringConverter"
)
OURS = "ours"
"""Group of our own plane's sink of the same name."""


class SinkScene(NamedTuple):
    """Worker, a service beside it, and a plane of its release with the stopped sink `NAME`."""

    broker: Broker
    worker: KafkaWorker
    service: httpx.AsyncClient
    ours: httpx.AsyncClient


@asynccontextmanager
async def plane_beside(broker: Broker) -> AsyncIterator[httpx.AsyncClient]:
    """Our own plane as a worker of the broker's release; the log is in memory."""
    clusters = ConnectorClusters(broker.bootstrap, Configuration())
    settings = Settings(profile=broker.release)
    try:
        async with plane_on("memory:", settings, outside=KafkaActions(clusters)) as plane:
            config = {
                "connector.class": SINK,
                "topics": TOPIC,
                "consumer.override.group.id": OURS,
            }
            stopped = Target.STOPPED
            await plane.execute(CreateConnector(NAME, config, initial_state=stopped))
            async with client_of(plane.app) as client:
                yield client
    finally:
        await clusters.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=sampled(RELEASES, "4.3.0"))
async def scene(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[SinkScene]:
    """Broker and worker of a release, shared by all tests; the topic has records."""
    folder = tmp_path_factory.mktemp("sinks")
    async with AsyncExitStack() as stack:
        broker = await stack.enter_async_context(up(request.param, folder))
        await create_topic(broker, TOPIC, PARTITIONS, cleanup__policy="delete")
        async with writer(broker) as out:
            for partition in range(PARTITIONS):
                for _ in range(partition + 1):
                    await out.put(TOPIC, partition, b"k", b'"v"')
        worker = await stack.enter_async_context(KafkaWorker(broker.release, broker))
        service = await stack.enter_async_context(serving(broker, worker))
        ours = await stack.enter_async_context(plane_beside(broker))
        yield SinkScene(broker, worker, service, ours)


async def accepted(rest: httpx.AsyncClient, method: str, path: str, body: Any = None) -> None:
    """Send a request, again while the worker rebalances, until it succeeds."""
    async with asyncio.timeout(PATIENCE_S):
        while (answer := await rest.request(method, path, json=body)).status_code in BUSY:  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)
    assert answer.is_success, answer.text


async def status_and_body(rest: httpx.AsyncClient, path: str) -> tuple[int, bytes]:
    """Status and bytes of an answer."""
    answer = await rest.get(path)
    return answer.status_code, answer.content


async def created(scene: SinkScene, name: str, folder: Path, **settings: str) -> None:
    """Create a sink on the worker."""
    file = {"file": str(folder / name)}
    config = {"connector.class": SINK, "topics": TOPIC, **file, **CONVERTERS, **settings}
    body = {"name": name, "config": {key.replace("__", "."): text for key, text in config.items()}}
    await accepted(scene.worker.rest, "POST", "/connectors", body)


async def stopped(scene: SinkScene, name: str) -> None:
    """Stop a sink of the worker, and wait until its tasks are gone."""
    await accepted(scene.worker.rest, "PUT", f"/connectors/{name}/stop")

    async def has_stopped() -> bool:
        status = (await scene.worker.rest.get(f"/connectors/{name}/status")).json()
        return status.get("connector", {}).get("state") == "STOPPED" and not status["tasks"]

    await until(has_stopped)


async def wait_for_connectors(scene: SinkScene, *names: str) -> None:
    """Wait until the service has read these connectors."""

    async def has_all() -> bool:
        return {*names} <= {*(await scene.service.get("/connectors")).json()}

    await until(has_all)


async def consumed(scene: SinkScene, group: str) -> None:
    """Wait until a group has committed the end of every partition."""
    expected_offsets = {(TOPIC, partition): partition + 1 for partition in range(PARTITIONS)}
    async with groups_of(scene.broker.bootstrap) as groups:

        async def has_committed() -> bool:
            return bool(await groups.committed(group) == expected_offsets)

        await until(has_committed)


def at(partition: int, offset: int | None, topic: str = TOPIC) -> dict[str, Any]:
    """Offset of a request; None removes it."""
    where = {"kafka_topic": topic, "kafka_partition": partition}
    return {"partition": where, "offset": None if offset is None else {"kafka_offset": offset}}


@pytest.mark.asyncio(loop_scope="module")
async def test_service_and_worker_show_equal_offsets_of_sinks(
    scene: SinkScene, tmp_path: Path
) -> None:
    """A read-only service and the worker show equal offsets, also of overridden groups."""
    await created(scene, "running", tmp_path)
    await created(scene, "named", tmp_path, consumer__override__group__id="mine")
    await created(
        scene, "elsewhere", tmp_path, admin__override__bootstrap__servers=scene.broker.bootstrap
    )
    await wait_for_connectors(scene, "running", "named", "elsewhere")
    for group in ("connect-running", "mine", "connect-elsewhere"):
        await consumed(scene, group)
    for name in ("running", "named", "elsewhere", "nobody"):
        path = f"/connectors/{name}/offsets"
        theirs = await status_and_body(scene.worker.rest, path)
        assert await status_and_body(scene.service, path) == theirs
        assert theirs[0] == (404 if name == "nobody" else 200)
    for name in ("named", "elsewhere"):
        await accepted(scene.worker.rest, "DELETE", f"/connectors/{name}")


REQUESTS: list[tuple[str, Any]] = [
    ("DELETE", None),
    ("DELETE", None),
    ("PATCH", [at(3, 2), at(17, 5), at(4, 0), at(11, 9)]),
    ("PATCH", [at(3, None), at(17, 6)]),
    ("PATCH", [at(99, 1), at(5, 1)]),
    ("PATCH", [at(0, 1, "no-such-topic")]),
    ("PATCH", [at(0, 1, "bad topic")]),
    ("PATCH", [at(0, -5)]),
    ("PATCH", [{"partition": {"kafka_topic": TOPIC}, "offset": None}]),
    ("PATCH", [at(0, 10**9)]),
    ("PATCH", []),
    ("DELETE", None),
]
"""Changes of a stopped sink, good and bad, in order."""


@pytest.mark.asyncio(loop_scope="module")
async def test_answers_about_a_stopped_sink_equal_the_workers(
    scene: SinkScene, tmp_path: Path
) -> None:
    """Each answer to a change, and to a GET after it, equals the worker's to the byte."""
    await created(scene, NAME, tmp_path)
    await consumed(scene, f"connect-{NAME}")
    await stopped(scene, NAME)
    path = f"/connectors/{NAME}/offsets"
    async with groups_of(scene.broker.bootstrap) as groups:
        await groups.commit(OURS, await groups.committed(f"connect-{NAME}"))
    for number, (method, offsets) in enumerate(REQUESTS):
        body = None if offsets is None else {"offsets": offsets}
        answers = [
            await rest.request(method, path, json=body) for rest in (scene.worker.rest, scene.ours)
        ]
        theirs, ours = [(answer.status_code, answer.content) for answer in answers]
        assert ours == theirs, f"{number}: {method} {json.dumps(body)}"
        assert await status_and_body(scene.ours, path) == await status_and_body(
            scene.worker.rest, path
        )
    await accepted(scene.worker.rest, "DELETE", f"/connectors/{NAME}")


@pytest.mark.asyncio(loop_scope="module")
async def test_an_active_group_refuses_equally(scene: SinkScene, tmp_path: Path) -> None:
    """A foreign member keeps the group of a stopped sink active: both refuse equally."""
    await created(scene, NAME, tmp_path)
    await stopped(scene, NAME)
    path = f"/connectors/{NAME}/offsets"
    async with (
        consuming(scene.broker, TOPIC, f"connect-{NAME}"),
        consuming(scene.broker, TOPIC, OURS),
    ):
        for method, body in (("PATCH", {"offsets": [at(0, 1)]}), ("DELETE", None)):
            theirs = await scene.worker.rest.request(method, path, json=body)
            ours = await scene.ours.request(method, path, json=body)
            assert (ours.status_code, ours.content) == (theirs.status_code, theirs.content)
            assert theirs.status_code == httpx.codes.INTERNAL_SERVER_ERROR
    await accepted(scene.worker.rest, "DELETE", f"/connectors/{NAME}")


@pytest.mark.asyncio(loop_scope="module")
async def test_cluster_of_an_override_is_down(scene: SinkScene, tmp_path: Path) -> None:
    """The service answers Connect's 500; our own endpoint has the reason."""
    (port,) = free_ports(1)
    await created(
        scene,
        "lost",
        tmp_path,
        admin__override__bootstrap__servers=f"127.0.0.1:{port}",
    )
    await wait_for_connectors(scene, "lost")
    # A worker waits for 90 s, and then answers that the request has timed out.
    status, body = await status_and_body(scene.service, "/connectors/lost/offsets")
    words = "Failed to retrieve consumer group offsets for sink connector lost"
    assert (status, json.loads(body)["message"]) == (500, words)
    assert (await scene.service.get("/connectors/lost/status")).status_code == 200
    message = (await scene.service.get("/connectors/lost/progress")).json()["message"]
    assert message.endswith(
        f"no broker listens at 127.0.0.1:{port} (connection refused): check address and broker"
    )
    await accepted(scene.worker.rest, "DELETE", "/connectors/lost")


@pytest.mark.asyncio(loop_scope="module")
async def test_lag_is_shown_per_partition_and_in_sum(scene: SinkScene) -> None:
    """Committed offset, end and lag per partition and in sum."""
    answer = await scene.service.get("/connectors/running/progress")
    assert answer.is_success, answer.text
    offsets = (await scene.worker.rest.get("/connectors/running/offsets")).json()["offsets"]
    shown_offsets = [
        {"partition": row["partition"], "offset": row["offset"]} for row in answer.json()["offsets"]
    ]
    assert shown_offsets == offsets
    await stopped(scene, "running")
    async with writer(scene.broker) as out:
        for _ in range(3):
            await out.put(TOPIC, 7, b"k", b'"v"')
    async with groups_of(scene.broker.bootstrap) as groups:
        await groups.commit("connect-running", {(TOPIC, 2): 1})
    progress = (await scene.service.get("/connectors/running/progress")).json()
    lags = {row["partition"]["kafka_partition"]: row["lag"] for row in progress["offsets"]}
    assert lags == dict.fromkeys(range(PARTITIONS), 0) | {7: 3, 2: 2}
    assert (progress["type"], progress["group"], progress["lag"]) == ("sink", "connect-running", 5)
    rows = {row["partition"]["kafka_partition"]: row for row in progress["offsets"]}
    assert (rows[7]["offset"], rows[7]["end"]) == ({"kafka_offset": 8}, 11)


@pytest.mark.asyncio(loop_scope="module")
async def test_commands_on_the_topics_show_lag_without_a_service(
    scene: SinkScene, tmp_path: Path
) -> None:
    """List, description, progress and `inspect` show lag and group without a service."""
    cluster = ClusterCalls(f"kafka://{scene.broker.bootstrap}", tmp_path)
    shown = await asyncio.to_thread(cluster.json, "offsets", "progress", "running")
    assert (shown["group"], shown["lag"]) == ("connect-running", 5)
    rows = await asyncio.to_thread(cluster.output, "offsets", "progress", "running")
    assert "lag of consumer group connect-running: 5 records" in rows
    assert await asyncio.to_thread(cluster.output, "offsets", "running") == rows
    described = await asyncio.to_thread(cluster.output, "describe", "running")
    assert "Consumer group: connect-running\nLag: 5 records\n" in described
    listed = await asyncio.to_thread(cluster.json, "get", "--lag", "running")
    assert listed["running"]["lag"] == 5
    words = ("inspect", cluster.where, "--connector", "running")
    inspected = await asyncio.to_thread(call, *words, columns=200)
    assert "lag of consumer group connect-running: 5 records" in inspected.out
    document = json.loads((await asyncio.to_thread(call, *words, "-o", "json")).out)
    assert document["consumer_group"]["lag"] == 5
    past = await asyncio.to_thread(call, *words, "--as-of", "config@3", "-o", "json")
    assert past.code == 0, past.err
    assert json.loads(past.out)["consumer_group"] is None
    await _inspected_by_settings(scene, tmp_path / "worker.properties", words)


async def _inspected_by_settings(scene: SinkScene, file: Path, words: tuple[str, ...]) -> None:
    """The worker's settings name the group, and the cluster that has it."""

    def group(settings: str) -> Any:
        file.write_text(settings)
        command = (*words, "--worker-properties", file, "-o", "json")
        return json.loads(call(*command).out)["consumer_group"]

    async with groups_of(scene.broker.bootstrap) as groups:
        await groups.commit("fleet", {(TOPIC, 4): 2})
    shown = await asyncio.to_thread(group, "consumer.group.id=fleet\n")
    (row,) = shown["offsets"]
    assert (shown["group"], row["partition"], row["offset"], row["lag"]) == ("fleet", 4, 2, 3)
    (port,) = free_ports(1)
    unreachable = await asyncio.to_thread(group, f"admin.bootstrap.servers=127.0.0.1:{port}\n")
    assert f"no broker listens at 127.0.0.1:{port}" in unreachable["problem"]
