"""The library kafka-connect-api 0.5.10: the full life of a connector."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from kafka_connect_api.errors import GenericConflict, GenericNotFound
from kafka_connect_api.kafka_connect_api import Api, Cluster

from tests.rest.running_plane import SOURCE, AtWork, at_work

CONFIG = {"connector.class": SOURCE, "tasks.max": "1", "file": "/orders.txt", "topic": "orders"}
FILES = {"/orders.txt": ["one", "two"]}


class Using:
    """The library in a thread; each call waits until the connectors have settled."""

    def __init__(self, world: AtWork) -> None:
        self._world = world
        self.cluster = Cluster(Api(url=world.url))

    async def ask(self, call: Callable[[], Any]) -> Any:
        """Make a call in a thread and wait until the cluster is quiet."""
        answer = await asyncio.to_thread(call)
        await self._world.settle()
        return answer


@pytest.mark.parametrize("release", ["3.9.1", "4.3.0"])
async def test_a_whole_life(release: str) -> None:
    """The library creates, changes and deletes a connector with each of its methods."""
    async with at_work(release, files=FILES) as world:
        using = Using(world)
        assert await using.ask(lambda: using.cluster.version) == release
        await _created(using)
        await world.append("/orders.txt", "three")
        topics = await using.ask(lambda: using.cluster.api.get("/connectors/orders/topics"))
        assert topics == {"orders": {"topics": ["orders", "orders-2"]}}
        await _paused_and_restarted(using)
        await _deleted(using)


async def _created(using: Using) -> None:
    api, cluster = using.cluster.api, using.cluster
    body = {"name": "orders", "config": CONFIG}
    made = await using.ask(lambda: api.post("/connectors", json=body))
    assert made["config"] == {**CONFIG, "name": "orders"}
    with pytest.raises(GenericConflict, match="Connector orders already exists"):
        await using.ask(lambda: api.post("/connectors", json=body))
    orders = (await using.ask(lambda: cluster.connectors))["orders"]
    assert await using.ask(orders.exists)
    await using.ask(lambda: setattr(orders, "config", {**CONFIG, "topic": "orders-2"}))
    assert (await using.ask(lambda: orders.config))["topic"] == "orders-2"
    assert await using.ask(lambda: orders.connector_class) == SOURCE


async def _paused_and_restarted(using: Using) -> None:
    orders = (await using.ask(lambda: using.cluster.connectors))["orders"]
    (task,) = await using.ask(lambda: orders.tasks)
    assert (task.id, task.config["topic"]) == (0, "orders-2")
    assert await using.ask(task.is_running)
    await using.ask(orders.pause)
    assert await using.ask(lambda: orders.state) == "PAUSED"
    assert not await using.ask(task.is_running)
    await using.ask(orders.resume)
    await using.ask(orders.restart)
    await using.ask(orders.restart_all_tasks)
    await using.ask(orders.cycle_connector)
    status = await using.ask(lambda: orders.status)
    assert [status["connector"]["state"], *(task["state"] for task in status["tasks"])] == [
        "RUNNING",
        "RUNNING",
    ]


async def _deleted(using: Using) -> None:
    orders = (await using.ask(lambda: using.cluster.connectors))["orders"]
    await using.ask(orders.delete)
    assert await using.ask(lambda: using.cluster.connectors) == {}
    with pytest.raises(GenericNotFound, match="Connector orders not found"):
        await using.ask(orders.exists)
    with pytest.raises(GenericNotFound, match="Connector orders not found"):
        await using.ask(orders.delete)


async def test_offsets_plugins_and_loggers() -> None:
    """The library's plain requests reach offsets and plugins; its methods set logger levels."""
    async with at_work("3.9.1", files=FILES) as world:
        using = Using(world)
        api, cluster = using.cluster.api, using.cluster
        await using.ask(lambda: api.post("/connectors", json={"name": "orders", "config": CONFIG}))
        await using.ask(lambda: api.put_raw("/connectors/orders/stop"))
        offset = {"partition": {"filename": "/orders.txt"}, "offset": {"position": 8}}
        shown = await using.ask(lambda: api.get("/connectors/orders/offsets"))
        assert shown == {"offsets": [offset]}
        reset = await using.ask(lambda: api.delete("/connectors/orders/offsets"))
        assert reset == {"message": "The offsets for this connector have been reset successfully"}
        assert await using.ask(lambda: api.get("/connectors/orders/offsets")) == {"offsets": []}
        plugins = await using.ask(lambda: api.get("/connector-plugins"))
        assert SOURCE in [plugin["class"] for plugin in plugins]
        path = "/connector-plugins/FileStreamSource/config/validate"
        assert (await using.ask(lambda: api.put(path, json=CONFIG)))["error_count"] > 0
        before = await using.ask(lambda: cluster.root_logger)
        assert before["level"] == "INFO"
        await using.ask(lambda: setattr(cluster, "root_logger", "DEBUG"))
        assert (await using.ask(lambda: cluster.root_logger))["level"] == "DEBUG"
