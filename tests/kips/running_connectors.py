"""A running source, a running sink, and the REST API of their worker.

Both deliver the numbers from 1 on as text, so a test sees where reading begins.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx

from controlplane.logs.log import Log
from controlplane.plane import Settings
from controlplane.rest.app import App
from controlplane.rest.service import Commands
from controlplane.worker.worker import ConnectWorker
from tests.patience import PATIENCE_S
from tests.rest.served_history import client_of
from tests.worker.numbered_records import CollectingSink, CountingSource, put
from tests.worker.worker_fixture import config_of, produce, running, until_state, values_in

SOURCE, SINK = "source", "sink"
NUMBERS = ["1", "2", "3"]
MORE = ["4", "5"]
SOURCE_CONFIG = config_of(CountingSource, topic="t")
SINK_CONFIG = config_of(CollectingSink, topics="u")
CONFIGS = {SOURCE: SOURCE_CONFIG, SINK: SINK_CONFIG}


def offsets_at(name: str, number: int) -> dict[str, Any]:
    """Answer of the endpoint for offsets once this number has been delivered."""
    if name == SOURCE:
        entry = {"partition": {"source": "numbers"}, "offset": {"at": number}}
    else:
        partition = {"kafka_topic": "u", "kafka_partition": 0}
        entry = {"partition": partition, "offset": {"kafka_offset": number}}
    return {"offsets": {name: [entry]}}


class RunningConnectors:
    """Client of a worker that runs connectors named `source` and `sink`."""

    def __init__(self, worker: ConnectWorker, client: httpx.AsyncClient) -> None:
        self.worker = worker
        self._client = client

    async def ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """Send a request about connectors."""
        return await self._client.request(method, f"/connectors{path}", json=body)

    async def code(self, method: str, path: str, body: Any = None) -> int:
        """Send a request about connectors; return the code of the answer."""
        return (await self.ask(method, path, body)).status_code

    async def shows(self, path: str) -> Any:
        """Return the body of a GET, which must succeed."""
        answer = await self.ask("GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def states(self, name: str) -> list[str]:
        """Return the states of a connector and then of its tasks, as REST shows them."""
        status = await self.shows(f"/{name}/status")
        return [status["connector"]["state"], *(task["state"] for task in status["tasks"])]

    async def offsets(self, name: str) -> Any:
        """Return the answer of the endpoint for offsets."""
        return await self.shows(f"/{name}/offsets")

    async def delivered(self, name: str) -> list[str]:
        """Return the numbers that a connector has delivered, in order."""
        if name == SINK:
            return [*put.get(SINK, [])]
        return [(value or b"").decode() for value in await values_in(self.worker.plane.log, "t")]

    async def create(self, name: str, **config: str) -> None:
        """Create a connector; `config` extends its config. Wait until it has read everything."""
        body = {"name": name, "config": CONFIGS[name] | config}
        assert await self.code("POST", "", body) == 201
        await self.until_states(name, "RUNNING", "RUNNING")
        await self.until_delivered(name, NUMBERS)
        await self.until_offsets(name, offsets_at(name, 3))

    async def change(self, name: str, way: str, *states: str) -> None:
        """Ask for another state, such as `pause`, and wait until the statuses show it."""
        answered = 204 if way == "stop" else 202
        assert await self.code("PUT", f"/{name}/{way}") == answered
        await self.until_states(name, *states)

    async def grow(self, name: str) -> None:
        """Provide the numbers 4 and 5 for a connector."""
        if name == SINK:
            await produce(self.worker.plane.log, "u", *MORE)
        else:
            config = SOURCE_CONFIG | {"count": "5"}
            assert await self.code("PUT", f"/{name}/config", config) == 200

    async def until_states(self, name: str, connector: str, *tasks: str) -> None:
        """Wait until the worker has reported these states, which REST then shows."""
        await until_state(self.worker, name, connector, *tasks)
        assert await self.states(name) == [connector, *tasks]

    async def until_delivered(self, name: str, numbers: list[str]) -> None:
        """Wait until a connector has delivered exactly these numbers."""
        await until_equal(lambda: self.delivered(name), numbers)

    async def until_offsets(self, name: str, offsets: Any) -> None:
        """Wait until the endpoint for offsets shows these."""
        await until_equal(lambda: self.offsets(name), offsets)


async def until_equal(actual: Callable[[], Awaitable[Any]], expected: Any) -> None:
    """Wait until a value is the expected one; the failure shows the last value."""
    value = None
    try:
        async with asyncio.timeout(PATIENCE_S):
            while (value := await actual()) != expected:  # noqa: ASYNC110 - no single event changes it
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"{value} is not {expected}") from None


@asynccontextmanager
async def running_connectors(
    log: Log | None = None, settings: Settings | None = None
) -> AsyncIterator[RunningConnectors]:
    """Run a worker on a log in memory, whose topic `u` has the numbers for the sink."""
    put.clear()
    async with running(CountingSource, CollectingSink, log=log, settings=settings) as worker:
        await produce(worker.plane.log, "u", *NUMBERS)
        async with client_of(worker.plane.app) as client:
            yield RunningConnectors(worker, client)


@asynccontextmanager
async def asked_by(worker: ConnectWorker, commands: Commands) -> AsyncIterator[RunningConnectors]:
    """Yield a client of a worker's REST API; `commands` carries out the commands."""
    async with client_of(App(worker.plane.compose_service(commands))) as client:
        yield RunningConnectors(worker, client)
