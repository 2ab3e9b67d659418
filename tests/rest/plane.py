"""A control plane on a memory log, with an HTTP client."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from controlplane.core.commands import CreateConnector
from controlplane.logs.memory import MemoryLog
from controlplane.plane import ControlPlane, Settings
from tests.controller.scene import plane_on
from tests.rest.served_history import catalogue, client_of

ORDERS = {
    "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
    "file": "orders.txt",
    "topic": "orders",
}


@asynccontextmanager
async def orders_plane(
    settings: Settings | None = None, **options: Any
) -> AsyncIterator[tuple[ControlPlane, httpx.AsyncClient]]:
    """A plane with a connector `orders`, and a client of it."""
    async with plane_on(MemoryLog(), settings, plugins=catalogue(), **options) as plane:
        await plane.execute(CreateConnector("orders", ORDERS))
        async with client_of(plane.app) as client:
            yield plane, client
