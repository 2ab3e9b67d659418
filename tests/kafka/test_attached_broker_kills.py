"""`kill -9` of the broker while a worker has a request of `controlplane serve --connect-url`."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from controlplane.core.commands import CommandRequest
from tests.kafka.attached_cluster import attached_to, ended
from tests.kafka.test_attached_crashes import (
    AT_4,
    CONFIG,
    SteeredCluster,
    creation,
    offsets_of,
    steered_cluster,
)
from tests.kafka.test_attached_process_kills import serving
from tests.kafka.worker_gate import GatedRequest, HoldMoment, WorkerGate
from tests.kafka.worker_service import until

pytestmark = [pytest.mark.java, pytest.mark.broker]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SteeredCluster]:
    """Cluster of all tests of this module."""
    async with steered_cluster(tmp_path_factory.mktemp("kafka")) as steered:
        yield steered


@pytest.mark.parametrize("moment", [HoldMoment.LATE, HoldMoment.ANSWERED])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param("POST", "", marks=pytest.mark.prove),
        pytest.param("DELETE", "/offsets", marks=pytest.mark.prove),
        ("PATCH", "/offsets"),
        pytest.param("PUT", "/pause", marks=pytest.mark.prove),
    ],
)
async def test_a_creation_outlives_its_broker(
    cluster: SteeredCluster, tmp_path: Path, method: str, path: str, moment: HoldMoment
) -> None:
    """A creation with offsets ends as planned if the broker restarts within one of its requests.

    The broker is killed before the worker gets the request, or after its answer.
    """
    name = f"outlives-{method}-{moment.name}".lower()
    await cluster.leaves_offsets(name)
    async with (
        WorkerGate(cluster.worker).running() as gate,
        serving(cluster.broker, gate, tmp_path / "trail.db") as (_, rest),
    ):
        held = gate.hold(GatedRequest(method, f"/connectors/{name}{path}"), moment)
        command = asyncio.create_task(rest.post("/connectors", json=creation(name)))
        await held.reached.wait()
        await cluster.broker.kill9()
        held.released.set()
        await cluster.broker.start()
        answer = await command
        row = await ended(rest)
    assert answer.is_success, answer.text
    assert (row["outcome"], row["compared"]) == ("done", "as planned"), row

    async def is_at_4() -> bool:
        return bool(await offsets_of(cluster, name) == AT_4)

    await until(is_at_4)  # after the outage, the worker may still lag behind the topic


@pytest.mark.prove
@pytest.mark.parametrize("step", ["accepted", "create", "reset", "offsets"])
async def test_a_creation_without_a_broker_is_done_or_taken_back(
    cluster: SteeredCluster, tmp_path: Path, step: str
) -> None:
    """The worker gets the request after this step without its broker, and may refuse it."""
    name = f"without-{step}"
    await cluster.leaves_offsets(name)

    async def killed(_: CommandRequest, done: str) -> None:
        if done == step:
            await cluster.broker.kill9()
            cluster.broker.launch()  # it listens in some seconds

    attached = attached_to(cluster.broker, [cluster.worker], trail=tmp_path / "t", stepped=killed)
    async with attached as rest:
        await rest.post("/connectors", json=creation(name))
        row = await ended(rest)
    if row["outcome"] == "done":
        assert await offsets_of(cluster, name) == AT_4
        return
    assert row["outcome"] == "failed", row
    assert await offsets_of(cluster, name) is None
    body = {"name": name, "config": CONFIG, "initial_state": "STOPPED"}
    assert (await cluster.ask("POST", "/connectors", body)).is_success
    assert await offsets_of(cluster, name) == []


@pytest.mark.prove
async def test_a_connector_that_is_written_late_gets_its_offsets(
    cluster: SteeredCluster, tmp_path: Path
) -> None:
    """A worker gives up a write after 30 s, and its producer still writes the record later."""

    async def killed(_: CommandRequest, done: str) -> None:
        if done == "accepted":
            await cluster.broker.kill9()

    attached = attached_to(cluster.broker, [cluster.worker], trail=tmp_path / "t", stepped=killed)
    async with attached as rest:
        answer = await rest.post("/connectors", json=creation("late"))
        await cluster.broker.start()
        row = await ended(rest)
    assert answer.is_server_error
    assert (row["outcome"], row["recovered"]) == ("done", True), row
    assert await offsets_of(cluster, "late") == AT_4
