"""`kc`, the command of kafka-connect-py 1.0.0: the full life of a connector, and its output."""

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kafka_connect import KafkaConnect

from tests.rest.running_plane import SINK, SOURCE, RunningPlane, running_plane_of

KC = Path(sys.executable).parent / "kc"
CONFIG = {"connector.class": SOURCE, "tasks.max": "1", "file": "/orders.txt", "topic": "orders"}
FILES = {"/orders.txt": ["one", "two"]}
WORKER = "127.0.0.1:8083"


class Kc:
    """The command: each call starts a new process and waits until the connectors have settled."""

    def __init__(self, world: RunningPlane) -> None:
        self._world = world

    async def __call__(self, *arguments: str) -> str:
        """Run `kc` and return its output."""
        process = await asyncio.create_subprocess_exec(
            *(str(KC), "--url", self._world.url, *arguments),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, trouble = await process.communicate()
        assert (process.returncode, trouble) == (0, b"")
        await self._world.settle()
        return out.decode().rstrip("\n")

    async def json_of(self, *arguments: str) -> Any:
        """Run `kc` and return its output as JSON."""
        return json.loads(await self(*arguments))


def _status(state: str, *tasks: str) -> dict[str, Any]:
    return {
        "name": "orders",
        "connector": {"state": state, "worker_id": WORKER},
        "tasks": [
            {"id": number, "state": task, "worker_id": WORKER} for number, task in enumerate(tasks)
        ],
        "type": "source",
    }


@pytest.mark.prove
async def test_each_command_of_kc_works() -> None:
    """`kc` creates, changes and deletes a connector with each of its commands."""
    async with running_plane_of("3.9.1", files=FILES) as world:
        kc = Kc(world)
        assert (await kc.json_of("info"))["version"] == "3.9.1"
        await _check_creation(kc)
        await world.append("/orders.txt", "three")
        await _check_reads(kc)
        await _check_pause_and_restart(kc)
        await _check_deletion(kc)


async def _check_creation(kc: Kc) -> None:
    body = json.dumps({"name": "orders", "config": CONFIG})
    assert await kc.json_of("create", "--config-data", body) == {
        "name": "orders",
        "config": {**CONFIG, "name": "orders"},
        "tasks": [],
        "type": "source",
    }
    refused = await kc("create", "--config-data", body)
    assert refused.startswith("409 Client Error: Conflict for url: http://127.0.0.1:")
    changed = json.dumps({**CONFIG, "topic": "orders-2"})
    updated = await kc.json_of("update", "orders", "--config-data", changed)
    assert updated["config"] == {**CONFIG, "name": "orders", "topic": "orders-2"}
    assert updated["tasks"] == [{"connector": "orders", "task": 0}]


async def _check_reads(kc: Kc) -> None:
    shown = await kc.json_of("get", "orders")
    assert await kc.json_of("config", "orders") == shown["config"]
    assert await kc.json_of("list") == ["orders"]
    assert await kc.json_of("list", "--state", "running", "--pattern", "ord") == ["orders"]
    assert await kc.json_of("list", "--state", "failed") == []
    assert await kc.json_of("list", "--expand", "info") == {"orders": {"info": shown}}
    running = _status("RUNNING", "RUNNING")
    assert await kc.json_of("list", "--expand", "status") == {"orders": {"status": running}}
    (task,) = await kc.json_of("list-tasks", "orders")
    assert task["id"] == {"connector": "orders", "task": 0}
    assert task["config"]["task.class"] == "org.apache.kafka.connect.file.FileStreamSourceTask"
    assert await kc.json_of("task-status", "orders", "0") == running["tasks"][0]
    # The third line went to the connector's second topic.
    topics = {"orders": {"topics": ["orders", "orders-2"]}}
    assert await kc.json_of("list-topics", "orders") == topics
    assert await kc("reset-topics", "orders") == "null"


async def _check_pause_and_restart(kc: Kc) -> None:
    assert await kc("pause", "orders") == ""
    assert await kc.json_of("status", "orders") == _status("PAUSED", "PAUSED")
    assert await kc("resume", "--all", "--state", "paused") == ""
    assert await kc.json_of("status", "orders") == _status("RUNNING", "RUNNING")
    assert await kc.json_of("restart", "orders") == _status("RUNNING", "RUNNING")
    assert await kc("restart-task", "orders", "0") == "null"
    restarted = await kc.json_of("restart", "orders", "--include-tasks", "--only-failed")
    assert restarted == _status("RUNNING", "RUNNING")


async def _check_deletion(kc: Kc) -> None:
    assert await kc("delete", "orders") == ""
    assert await kc.json_of("list") == []
    for verb in ("get", "status", "pause", "delete"):
        refused = await kc(verb, "orders")
        assert refused.startswith("404 Client Error: Not Found for url: http://127.0.0.1:")


async def test_plugins_are_listed_and_configs_validated() -> None:
    """`kc` lists plugins and validates a config.

    `kc validate-config` sends its config as a text within JSON; a worker fails on it, too.
    """
    async with running_plane_of("3.9.1") as world:
        kc = Kc(world)
        classes = {plugin["class"]: plugin["type"] for plugin in await kc.json_of("list-plugins")}
        assert {SOURCE: "source", SINK: "sink"}.items() <= classes.items()
        failed = await kc("validate-config", SOURCE, "--config-data", json.dumps(CONFIG))
        assert failed.startswith("500 Server Error: Internal Server Error for url: ")


async def test_the_library_under_kc_validates_and_stops() -> None:
    """The library under `kc` validates and stops; the `kc` command cannot."""
    async with running_plane_of("3.9.1", files=FILES) as world:
        client = KafkaConnect(world.url)

        async def ask(method: Callable[..., Any], *arguments: Any) -> Any:
            answer = await asyncio.to_thread(method, *arguments)
            await world.settle()
            return answer

        wrong = {"connector.class": SOURCE, "tasks.max": "none"}
        validation = await ask(client.validate_connector_config, "FileStreamSource", wrong)
        errors = {
            config["value"]["name"]: config["value"]["errors"] for config in validation["configs"]
        }
        assert validation["error_count"] == sum(map(len, errors.values())) > 1
        assert errors["topic"] == [
            'Missing required configuration "topic" which has no default value.'
        ]
        await ask(client.create_connector, {"name": "orders", "config": CONFIG})
        assert await ask(client.stop_connector, "orders") is None
        assert await ask(client.get_connector_status, "orders") == _status("STOPPED")
        assert await ask(client.resume_all_connectors) is None
        assert await ask(client.get_connector_status, "orders") == _status("RUNNING", "RUNNING")
