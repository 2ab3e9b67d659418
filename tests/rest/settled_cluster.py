"""A settled cluster: one running source, and a stopped source and sink that have run."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx

from controlplane.core.context import DecisionSettings
from controlplane.core.plan import GroupOffsets
from controlplane.core.releases.profiles import Profile
from controlplane.logs.memory import MemoryLog
from controlplane.plane import ControlPlane, Settings
from tests.controller.scene import plane_on
from tests.rest.broker import SimulatedBroker
from tests.rest.probes.rows import ProbeRow
from tests.rest.probes.runtime import Recording, Runtime
from tests.rest.running_plane import JSON, SINK, SOURCE
from tests.rest.served_history import catalogue, client_of


class Scene(NamedTuple):
    """A cluster: `orders` runs; `copies` and `sink` have run and are stopped."""

    plane: ControlPlane
    client: httpx.AsyncClient
    broker: SimulatedBroker
    runtime: Runtime

    async def changeable_state(self) -> tuple[Any, GroupOffsets, Any]:
        """Everything that a command can change: the log, consumer groups, this worker's loggers."""
        levels = (await self.client.get("/admin/loggers")).json()
        ends = await self.plane.log.ends([*await self.plane.log.topics()])
        return ends, await self.broker.group_offsets("connect-sink"), levels


@asynccontextmanager
async def at_rest() -> AsyncIterator[Scene]:
    """The cluster, once connectors and offsets have settled."""
    log, broker = MemoryLog(), SimulatedBroker()
    settings = Settings(worker=DecisionSettings(key_converter=JSON, value_converter=JSON))
    async with (
        plane_on(log, settings, plugins=catalogue(), outside=broker) as plane,
        client_of(plane.app) as client,
    ):
        runtime = Runtime(log, plane, broker, Recording({FAILURE: FAILURE}, {}), Profile.of("kip"))
        await runtime.lead()
        runtime.write(ProbeRow(n=0, kind="file", path="a.txt", lines=["one", "two"]))
        for name, about in _CONFIGS.items():
            created = await client.post("/connectors", json={"name": name, "config": about})
            assert created.status_code == 201
        await runtime.settle(long=True)
        for name in ("copies", "sink"):
            assert (await client.put(f"/connectors/{name}/stop")).status_code == 204
        await runtime.settle(long=True)
        yield Scene(plane, client, broker, runtime)


FAILURE = "org.apache.kafka.connect.errors.ConnectException: told to fail in connector start"
"""Failure that a connector with `fail` = `connector` reports."""

FILE = {"connector.class": SOURCE, "file": "a.txt", "topic": "lines"}
_CONFIGS: Mapping[str, Mapping[str, str]] = {
    "orders": FILE,
    "copies": FILE,
    "sink": {"connector.class": SINK, "file": "b.txt", "topics": "lines"},
}
