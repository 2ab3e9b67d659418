"""Client commands against one cluster."""

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import click
import httpx

from controlplane.client.http.api import Api
from controlplane.core.entry import TopicPartition
from controlplane.logs.names import path_of
from controlplane.logs.sqlite import SqliteLog
from tests.cli.command_calls import CommandResult, call
from tests.controller.scene import commit_offsets

SOURCE = {
    "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
    "file": "/in.txt",
    "topic": "lines",
}
PARTITION = {"filename": "/in.txt"}


class ClusterCalls:
    """Cluster, and a folder for its input files."""

    def __init__(self, where: str, folder: Path) -> None:
        self.where = where
        self.folder = folder

    def ask(
        self, *words: object, typed: str | None = None, editor: str | None = None
    ) -> CommandResult:
        """Run a command with this cluster as its `-c`."""
        environment = {"VISUAL": None, "EDITOR": editor, "CONTROLPLANE_TOKEN": None}
        return call(*words, "-c", self.where, typed=typed, environment=environment, columns=200)

    def output(self, *words: object, typed: str | None = None, editor: str | None = None) -> str:
        """Run a command that must succeed and print nothing but its answer."""
        result = self.ask(*words, typed=typed, editor=editor)
        assert result.code == 0, result
        return result.out

    def json(self, *words: object) -> Any:
        """Run a command for JSON; return the document."""
        return json.loads(self.output(*words, "-o", "json"))

    def refused(self, *words: object, code: int = 3, typed: str | None = None) -> str:
        """Error sentence of a refused command."""
        result = self.ask(*words, typed=typed)
        assert (result.code, result.out) == (code, ""), result
        assert result.err.startswith("Error: "), result
        return result.err.removeprefix("Error: ").strip()

    def file(self, name: str, content: Any) -> Path:
        """File with a text or a JSON document."""
        path = self.folder / name
        path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
        return path

    def create(self, name: str = "orders", **fields: Any) -> None:
        """Create a source connector with `apply`."""
        document = {"name": name, "config": SOURCE, **fields}
        assert self.output("apply", "-f", self.file(f"{name}.json", document))

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets of a consumer group to the log, as a worker does."""

        async def commit() -> None:
            log = await SqliteLog.open(path_of(self.where))
            await commit_offsets(log, group, offsets)
            await log.close()

        asyncio.run(commit())

    def editor(self, find: str, put: str) -> str:
        """Editor that replaces a text by another."""
        script = self.file("editor.sh", f"#!/bin/sh\nsed -i 's/{find}/{put}/' \"$1\"\n")
        script.chmod(0o700)
        return str(script)


def command_body(command: click.Command) -> Callable[..., Awaitable[None]]:
    """The function of a command, which takes a client; its options are not applied."""
    assert command.callback is not None
    body: Callable[..., Awaitable[None]] = inspect.unwrap(command.callback)
    return body


def error(status: int, message: str | None) -> httpx.Response:
    """Error as Connect writes it."""
    return httpx.Response(status, json={"error_code": status, "message": message})


class FakeWorker:
    """Answers like a worker of Kafka, and keeps the requests."""

    def __init__(self, *answers: httpx.Response, server: str = "Jetty(9.4.57)") -> None:
        self.requests: list[httpx.Request] = []
        self._answers = list(answers)
        self._server = server

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Answer `/` with a root document, everything else with the next prepared answer."""
        if request.url.path == "/":
            about = {"version": "3.9.1", "commit": "x", "kafka_cluster_id": "k"}
            return httpx.Response(200, json=about, headers={"server": self._server})
        self.requests.append(request)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    async def api(self, **options: Any) -> Api:
        """Client that has read the worker's root document."""
        client = httpx.AsyncClient(transport=httpx.MockTransport(self), base_url="http://worker")
        api = Api(client, "http://worker", **options)
        await api.identify()
        return api
