"""The Java client `org.sourcelab:kafka-connect-client`: the full life of a connector."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.jars import SHORT_LIVED, JarsUnavailable, classpath, compiled, java
from tests.oracle.kafka import CACHE
from tests.rest.running_plane import SINK, SOURCE, RunningPlane, running_plane_of

pytestmark = pytest.mark.java

CLIENT = "org.sourcelab:kafka-connect-client:4.0.5"
SOURCES = Path(__file__).parent
"""Folder of `Client.java`."""

CONFIG = {"connector.class": SOURCE, "tasks.max": "1", "file": "/orders.txt", "topic": "orders"}
FILES = {"/orders.txt": ["one", "two"]}
NAMES = {"3.9.1": "orders 1/2 %+", "4.3.0": "orders? 1 +"}
"""Names that need encoding in a path.

The client sends bodies as Latin-1, so they are ASCII. Kafka 4 refuses slashes and percent signs in
a path, encoded or not.
"""


class Client:
    """The client in its own JVM; each call waits until the connectors have settled."""

    def __init__(self, process: asyncio.subprocess.Process, world: RunningPlane) -> None:
        self._process = process
        self.world = world

    async def __call__(self, method: str, name: str = "", config: object = None) -> Any:
        """Call a method and return its result."""
        answer = await self._called(method, name, config)
        assert answer.keys() == {"returned"}, answer
        return answer["returned"]

    async def thrown(self, method: str, name: str = "", config: object = None) -> str:
        """Call a method and return the exception with its message."""
        answer = await self._called(method, name, config)
        return f"{answer['thrown']}: {answer['message']}"

    async def _called(self, method: str, name: str, config: object) -> Any:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        call = {"method": method, "name": name, "config": config or {}}
        stdin.write(json.dumps(call).encode() + b"\n")
        answer = json.loads(await stdout.readline())
        await self.world.settle()
        return answer


@asynccontextmanager
async def client_of(release: str) -> AsyncIterator[Client]:
    """A client of a control plane that answers as a worker of a release."""
    try:
        path = classpath(CLIENT)
        program = compiled(SOURCES, path, CACHE)
    except JarsUnavailable as missing:
        pytest.skip(str(missing))
    async with running_plane_of(release, files=FILES) as world:
        process = await asyncio.create_subprocess_exec(
            *(
                str(java()),
                *SHORT_LIVED,
                "-cp",
                os.pathsep.join((str(program), path)),
                "Client",
                world.url,
            ),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=1 << 22,  # a validation is a long line
        )
        try:
            yield Client(process, world)
        finally:
            process.kill()
            await process.communicate()


@pytest.mark.prove
@pytest.mark.parametrize("release", NAMES)
async def test_each_method_of_the_client_works(release: str) -> None:
    """The client creates, changes and deletes a connector with each of its methods."""
    name = NAMES[release]
    async with client_of(release) as client:
        assert (await client("getConnectServerVersion"))["version"] == release
        await _check_creation(client, name)
        await client.world.append("/orders.txt", "three")
        await _check_reads(client, name)
        await _check_state_changes(client, name)
        await _check_deletion(client, name)


async def _check_creation(client: Client, name: str) -> None:
    made = await client("addConnector", name, CONFIG)
    assert (made["name"], made["type"]) == (name, "source")
    assert made["config"] == {**CONFIG, "name": name}
    refused = await client.thrown("addConnector", name, CONFIG)
    assert "already exists" in refused
    refused = await client.thrown("addConnector", "wrong", {**CONFIG, "tasks.max": "none"})
    assert refused.startswith("InvalidRequestException: ")
    updated = await client("updateConnectorConfig", name, {**CONFIG, "topic": "orders-2"})
    assert updated["config"]["topic"] == "orders-2"


async def _check_reads(client: Client, name: str) -> None:
    assert await client("getConnectors") == [name]
    shown = await client("getConnector", name)
    assert await client("getConnectorConfig", name) == shown["config"]
    status = await client("getConnectorStatus", name)
    assert status["connector"]["state"] == "RUNNING"
    expanded = await client("getConnectorsWithAllExpandedMetadata")
    assert expanded["mappedStatuses"] == {name: status}
    (task,) = await client("getConnectorTasks", name)
    assert task["config"]["topic"] == "orders-2"
    assert (await client("getConnectorTaskStatus", name))["state"] == "RUNNING"
    assert await client("getConnectorTopics", name) == {
        "name": name,
        "topics": ["orders", "orders-2"],
    }
    assert await client("resetConnectorTopics", name) is True


async def _check_state_changes(client: Client, name: str) -> None:
    for method, state in (
        ("pauseConnector", "PAUSED"),
        ("resumeConnector", "RUNNING"),
        ("restartConnector", "RUNNING"),
        ("restartConnectorAndTasks", "RUNNING"),
        ("restartConnectorTask", "RUNNING"),
        ("stopConnector", "STOPPED"),
    ):
        assert await client(method, name) is True
        assert (await client("getConnectorStatus", name))["connector"]["state"] == state


async def _check_deletion(client: Client, name: str) -> None:
    assert await client("deleteConnector", name) is True
    assert await client("getConnectors") == []
    refused = await client.thrown("getConnector", name)
    assert refused.startswith("ResourceNotFoundException: ")


async def test_plugins_are_listed_and_configs_validated() -> None:
    """The client lists plugins and validates a config."""
    async with client_of("3.9.1") as client:
        listed = {
            plugin["className"]: plugin["type"] for plugin in await client("getConnectorPlugins")
        }
        assert {SOURCE: "source", SINK: "sink"}.items() <= listed.items()
        config = {**CONFIG, "name": "orders", "tasks.max": "none"}
        validation = await client("validateConnectorPluginConfig", "FileStreamSource", config)
        errors = {
            key_info["value"]["name"]: key_info["value"]["errors"]
            for key_info in validation["configs"]
        }
        assert validation["errorCount"] == sum(map(len, errors.values()))
        assert "Not a number of type INT" in errors["tasks.max"][0]
