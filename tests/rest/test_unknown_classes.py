"""Connectors of unknown classes: creation is refused, existing ones are shown."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from controlplane import ControlPlane
from controlplane.logs.memory import MemoryLog
from controlplane.observe import silent
from controlplane.plane import Settings, Surroundings
from tests.rest.served_history import client_of

CONFIG = {"connector.class": "org.example.Jdbc", "url": "jdbc:x"}
UNKNOWN_CLASS = (
    "Failed to find any class that implements Connector and which name matches org.example.Jdbc"
)
BASES = pytest.mark.parametrize("base", ["", "/compat/3.9.1", "/compat/4.3.0"])


@asynccontextmanager
async def asking(log: MemoryLog, **settings: bool) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a plane that knows only Kafka's own classes."""
    around = Surroundings(notices=silent())
    async with (
        ControlPlane.open(log, Settings(**settings), around) as plane,  # type: ignore[arg-type]
        client_of(plane.app) as client,
    ):
        yield client


@BASES
async def test_a_connector_of_an_unknown_class_is_not_created(base: str) -> None:
    """The creation gets the worker's message: a server error up to 4.0, a client error later."""
    async with asking(MemoryLog()) as client:
        posted = await client.post(f"{base}/connectors", json={"name": "a", "config": CONFIG})
        assert posted.status_code == (500 if "3.9" in base else 400)
        assert posted.json()["message"].startswith(UNKNOWN_CLASS)
        assert (await client.get(f"{base}/connectors")).json() == []


async def test_a_setting_trusts_unknown_classes() -> None:
    """A setting, which is off by default, allows the creation of connectors of unknown classes."""
    async with asking(MemoryLog(), trust_unknown_classes=True) as client:
        posted = await client.post("/connectors", json={"name": "a", "config": CONFIG})
        assert posted.status_code == 201
        assert posted.json()["type"] == "unknown"


@BASES
async def test_an_existing_connector_of_an_unknown_class_is_read_and_steered(base: str) -> None:
    """Requests that need the class are refused, as in a worker without it; others succeed."""
    log = MemoryLog()
    async with asking(log, trust_unknown_classes=True) as client:
        await client.post("/connectors", json={"name": "a", "config": CONFIG})
    async with asking(log) as client:
        path = f"{base}/connectors/a"
        connector = (await client.get(path)).json()
        assert connector["config"] == CONFIG | {"name": "a"}
        assert connector["type"] == "unknown"
        for verb, status in (("pause", 202), ("resume", 202), ("stop", 204)):
            assert (await client.put(f"{path}/{verb}")).status_code == status
        failed = 500 if "3.9" in base else 400
        for refused in (
            await client.put(f"{path}/config", json=CONFIG | {"url": "jdbc:y"}),
            await client.patch(f"{path}/config", json={"url": "jdbc:y"}),
        ):
            assert refused.status_code == failed
            assert refused.json()["message"].startswith(UNKNOWN_CLASS)
        reset = await client.delete(f"{path}/offsets")
        assert reset.status_code == 500
        assert reset.json()["message"].startswith(UNKNOWN_CLASS)
        assert (await client.delete(path)).status_code == 204


@pytest.mark.parametrize(
    ("base", "plugin_type"),
    [("", "unknown"), ("/compat/4.3.0", "unknown"), ("/compat/3.4.1", "sink")],
)
async def test_a_class_that_later_releases_lack_keeps_its_type(base: str, plugin_type: str) -> None:
    """Kafka had `VerifiableSinkConnector` until 3.6; workers of those releases show its type."""
    name = "org.apache.kafka.connect.tools.VerifiableSinkConnector"
    config = {"connector.class": name, "topics": "t"}
    async with asking(MemoryLog(), trust_unknown_classes=True) as client:
        posted = await client.post("/connectors", json={"name": "a", "config": config})
        assert posted.status_code == 201
        assert (await client.get(f"{base}/connectors/a")).json()["type"] == plugin_type
