"""`controlplane verify --against` beside real workers: clean clusters, and two that differ."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from controlplane.core.state import Topics
from controlplane.core.topics.partitioner import partition_of
from tests.cli.command_calls import CommandResult, call
from tests.kafka.conftest import NEWEST
from tests.kafka.live_cluster import BUSY, PAUSE_S
from tests.kafka.producer import writer
from tests.kafka.real_kafka import WORKER, Broker, KafkaWorker, cluster_settings
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.java, pytest.mark.broker, NEWEST]

SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"

SETTLE = ("--settle", "3", "--timeout", str(PATIENCE_S))

_clusters = count()


class CheckedCluster:
    """Workers of one release with topics of their own on a shared broker."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        name = f"against-{next(_clusters)}"
        self.lines = folder / "lines.txt"
        self.lines.write_text("aaa\nbbb\n")
        topics = Topics(f"{name}-configs", f"{name}-offsets", f"{name}-status")
        self.config_topic = topics.config
        self._broker = broker
        self._settings = cluster_settings(topics)

    def worker(self) -> KafkaWorker:
        """Worker of the cluster that is not started."""
        return KafkaWorker(self._broker.release, self._broker, **self._settings)

    async def verify(self, *workers: KafkaWorker, options: tuple[str, ...] = ()) -> CommandResult:
        """Run the command about these workers, with the topics of a worker's own file."""
        urls = ",".join(worker.url for worker in workers)
        words = ("verify", f"kafka://{self._broker.bootstrap}", "--against", urls, *SETTLE)
        file = ("--worker-properties", workers[0].config)
        return await asyncio.to_thread(call, *words, *file, *options, columns=300)

    async def create(self, worker: KafkaWorker, name: str, **config: Any) -> None:
        """Create a connector and wait until its task reports a state."""
        body = {"connector.class": SOURCE, "file": str(self.lines), "topic": "lines", **config}
        await request_until_done(worker, "PUT", f"/connectors/{name}/config", body)
        await until(worker, f"/connectors/{name}/status", lambda status: bool(status["tasks"]))
        task = f"/connectors/{name}/tasks/0/status"
        await until(worker, task, lambda status: status["state"] in ("RUNNING", "FAILED"))

    async def delete(self, worker: KafkaWorker, name: str) -> None:
        """Delete a connector and wait until its statuses are gone."""
        await request_until_done(worker, "DELETE", f"/connectors/{name}")
        await until_status(worker, f"/connectors/{name}/status", httpx.codes.NOT_FOUND)


async def request_until_done(worker: KafkaWorker, method: str, path: str, body: Any = None) -> None:
    """Send a request, again while the worker rebalances."""

    async def is_done() -> bool:
        answer = await worker.rest.request(method, path, json=body)
        return answer.status_code not in BUSY

    await waited(is_done)


async def until(worker: KafkaWorker, path: str, is_right: Callable[[Any], bool]) -> None:
    """Repeat a request until the answer is successful and right."""

    async def is_there() -> bool:
        answer = await worker.rest.get(path)
        return answer.is_success and is_right(answer.json())

    await waited(is_there)


async def until_status(worker: KafkaWorker, path: str, status: int) -> None:
    """Repeat a request until the answer has this status."""

    async def is_there() -> bool:
        return (await worker.rest.get(path)).status_code == status

    await waited(is_there)


async def waited(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for a condition of a living cluster."""
    async with asyncio.timeout(PATIENCE_S):
        while not await condition():  # noqa: ASYNC110 - no event reports it
            await asyncio.sleep(PAUSE_S)


def names_by_order() -> tuple[str, str]:
    """Two connector names.

    The first has its status in an earlier partition than its task's, the second in a later one.
    """
    partitions = WORKER["status.storage.partitions"]
    assert isinstance(partitions, int)

    def place(key: str) -> int:
        return partition_of(key.encode(), partitions)

    names = [f"edge{number}" for number in range(100)]
    ranks = {
        name: place(f"status-connector-{name}") - place(f"status-task-{name}-0") for name in names
    }
    return (
        next(name for name in names if ranks[name] < 0),
        next(name for name in names if ranks[name] > 0),
    )


async def test_workers_that_differ_from_their_log_are_found(broker: Broker, tmp_path: Path) -> None:
    """A cluster verifies clean; then workers differ by the order of partitions and a lost batch."""
    cluster = CheckedCluster(broker, tmp_path)
    async with cluster.worker() as first:
        await _clean(cluster, first)
        await _edge_20(cluster, first)
        await _batch_lost(cluster, first, broker)


async def _clean(cluster: CheckedCluster, worker: KafkaWorker) -> None:
    """An empty cluster, then one with a source, a sink, a failed task and a stopped connector."""
    await until(worker, "/connectors", lambda _: True)  # its topics are there by then
    empty = await cluster.verify(worker)
    assert empty.code == 0, empty
    sink = {"connector.class": SINK, "topics": "lines", "file": str(cluster.lines) + ".out"}
    await cluster.create(worker, "lines")
    await cluster.create(worker, "archive", **sink)
    await cluster.create(worker, "broken", **{**sink, "file": "/missing/folder/file"})
    await cluster.create(worker, "resting")
    await request_until_done(worker, "PUT", "/connectors/resting/stop")
    await until(worker, "/connectors/resting/status", lambda status: not status["tasks"])
    result = await cluster.verify(worker, options=("-o", "json"))
    (document,) = result.json["workers"]
    assert (result.code, result.json["differences"], document["unsettled"]) == (0, [], {})
    assert document["same"] == document["compared"] >= 25
    offsets = {"/connectors/archive/offsets", "/connectors/broken/offsets"}
    assert document["left_out"].keys() <= offsets
    for name in ("lines", "archive", "broken", "resting"):
        await cluster.delete(worker, name)


async def _edge_20(cluster: CheckedCluster, first: KafkaWorker) -> None:
    """A later worker reads a connector's tombstone after a newer task status, and drops the status.

    The two records lie in two partitions (edge 20 of docs/releases.md). The worker chooses the
    order of the partitions, so the test tries a name for each order. There is no other connector: a
    rebalance would write new statuses, and the difference would disappear.
    """
    for name in names_by_order():
        await cluster.create(first, name)
        await cluster.delete(first, name)
        await cluster.create(first, name)
        async with cluster.worker() as second:
            assert (await cluster.verify(first)).code == 0
            result = await cluster.verify(first, second, options=("-o", "json"))
            table = await cluster.verify(first, second)
            await second.stop()
        await cluster.delete(first, name)
        if result.code:
            break
    assert result.code == table.code == 1
    assert {difference["worker"] for difference in result.json["differences"]} == {second.url}
    by_path = {difference["path"]: difference for difference in result.json["differences"]}
    assert by_path.keys() == {
        "/connectors?expand=status&expand=info",
        f"/connectors/{name}/status",
        f"/connectors/{name}/tasks/0/status",
    }
    for difference in by_path.values():
        assert difference["order_edge"]
        cause = difference["cause"]
        assert (cause["key"], cause["value"]) == (f"status-connector-{name}", None)
    assert by_path[f"/connectors/{name}/tasks/0/status"]["of_worker"]["status"] == 404
    assert f"status-connector-{name}" in table.out
    assert "order between partitions: only a worker that read status@" in table.out


async def _batch_lost(cluster: CheckedCluster, worker: KafkaWorker, broker: Broker) -> None:
    """A foreign record makes the worker throw: the connector that follows in the batch is lost."""
    await cluster.create(worker, "lines")
    value = b'{"properties":{"name":"ghost"}}'
    async with writer(broker) as out:
        batch = out.producer.create_batch()
        for key, content in ((b"commit-lines", b'{"tasks":"x"}'), (b"connector-ghost", value)):
            assert batch.append(key=key, value=content, timestamp=None) is not None
        batch.close()
        await (await out.producer.send_batch(batch, cluster.config_topic, partition=0))
    result = await cluster.verify(worker, options=("-o", "json"))
    assert result.code == 1, result
    differences = {difference["path"]: difference for difference in result.json["differences"]}
    assert differences.keys() >= {"/connectors", "/connectors/ghost/config"}
    listed = differences["/connectors"]
    assert listed["of_worker"]["answer"] == ["lines"]
    assert listed["of_log"]["answer"] == ["ghost", "lines"]
    for difference in (listed, differences["/connectors/ghost/config"]):
        assert difference["cause"]["key"] == "commit-lines"
        assert "a worker throws at this record" in difference["reason"]
