"""The library kafka-connect-api 0.5.10: the full life of a connector."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from kafka_connect_api.errors import GenericConflict, GenericNotFound
from kafka_connect_api.kafka_connect_api import Api, Cluster

from tests.rest.running_plane import SOURCE, RunningPlane, running_plane_of

CONFIG = {"connector.class": SOURCE, "tasks.max": "1", "file": "/orders.txt", "topic": "orders"}
FILES = {"/orders.txt": ["one", "two"]}


class LibraryClient:
    """The library in a thread; each call waits until the connectors have settled."""

    def __init__(self, world: RunningPlane) -> None:
        self._world = world
        self.cluster = Cluster(Api(url=world.url))

    async def ask(self, call: Callable[[], Any]) -> Any:
        """Make a call in a thread and wait until the cluster is quiet."""
        answer = await asyncio.to_thread(call)
        await self._world.settle()
        return answer


@pytest.mark.slow
@pytest.mark.parametrize("release", ["3.9.1", "4.3.0"])
async def test_each_method_of_the_library_works(release: str) -> None:
    """The library creates, changes and deletes a connector with each of its methods."""
    async with running_plane_of(release, files=FILES) as world:
        library = LibraryClient(world)
        assert await library.ask(lambda: library.cluster.version) == release
        await _check_creation(library)
        await world.append("/orders.txt", "three")
        topics = await library.ask(lambda: library.cluster.api.get("/connectors/orders/topics"))
        assert topics == {"orders": {"topics": ["orders", "orders-2"]}}
        await _check_pause_and_restart(library)
        await _check_deletion(library)


async def _check_creation(library: LibraryClient) -> None:
    api, cluster = library.cluster.api, library.cluster
    body = {"name": "orders", "config": CONFIG}
    made = await library.ask(lambda: api.post("/connectors", json=body))
    assert made["config"] == {**CONFIG, "name": "orders"}
    with pytest.raises(GenericConflict, match="Connector orders already exists"):
        await library.ask(lambda: api.post("/connectors", json=body))
    orders = (await library.ask(lambda: cluster.connectors))["orders"]
    assert await library.ask(orders.exists)
    await library.ask(lambda: setattr(orders, "config", {**CONFIG, "topic": "orders-2"}))
    assert (await library.ask(lambda: orders.config))["topic"] == "orders-2"
    assert await library.ask(lambda: orders.connector_class) == SOURCE


async def _check_pause_and_restart(library: LibraryClient) -> None:
    orders = (await library.ask(lambda: library.cluster.connectors))["orders"]
    (task,) = await library.ask(lambda: orders.tasks)
    assert (task.id, task.config["topic"]) == (0, "orders-2")
    assert await library.ask(task.is_running)
    await library.ask(orders.pause)
    assert await library.ask(lambda: orders.state) == "PAUSED"
    assert not await library.ask(task.is_running)
    await library.ask(orders.resume)
    await library.ask(orders.restart)
    await library.ask(orders.restart_all_tasks)
    await library.ask(orders.cycle_connector)
    status = await library.ask(lambda: orders.status)
    assert [status["connector"]["state"], *(task["state"] for task in status["tasks"])] == [
        "RUNNING",
        "RUNNING",
    ]


async def _check_deletion(library: LibraryClient) -> None:
    orders = (await library.ask(lambda: library.cluster.connectors))["orders"]
    await library.ask(orders.delete)
    assert await library.ask(lambda: library.cluster.connectors) == {}
    with pytest.raises(GenericNotFound, match="Connector orders not found"):
        await library.ask(orders.exists)
    with pytest.raises(GenericNotFound, match="Connector orders not found"):
        await library.ask(orders.delete)


async def test_plain_requests_reach_offsets_plugins_and_loggers() -> None:
    """The library's plain requests reach offsets and plugins; its methods set logger levels."""
    async with running_plane_of("3.9.1", files=FILES) as world:
        library = LibraryClient(world)
        api, cluster = library.cluster.api, library.cluster
        await library.ask(
            lambda: api.post("/connectors", json={"name": "orders", "config": CONFIG})
        )
        await library.ask(lambda: api.put_raw("/connectors/orders/stop"))
        offset = {"partition": {"filename": "/orders.txt"}, "offset": {"position": 8}}
        shown = await library.ask(lambda: api.get("/connectors/orders/offsets"))
        assert shown == {"offsets": [offset]}
        reset = await library.ask(lambda: api.delete("/connectors/orders/offsets"))
        assert reset == {"message": "The offsets for this connector have been reset successfully"}
        assert await library.ask(lambda: api.get("/connectors/orders/offsets")) == {"offsets": []}
        plugins = await library.ask(lambda: api.get("/connector-plugins"))
        assert SOURCE in [plugin["class"] for plugin in plugins]
        path = "/connector-plugins/FileStreamSource/config/validate"
        assert (await library.ask(lambda: api.put(path, json=CONFIG)))["error_count"] > 0
        before = await library.ask(lambda: cluster.root_logger)
        assert before["level"] == "INFO"
        await library.ask(lambda: setattr(cluster, "root_logger", "DEBUG"))
        assert (await library.ask(lambda: cluster.root_logger))["level"] == "DEBUG"
