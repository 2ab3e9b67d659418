"""Process of `controlplane standalone` in a folder with its files."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.cli.command_calls import CommandResult
from tests.cli.running_service import CURLS, RunningService
from tests.forked_commands import completed, started
from tests.patience import PATIENCE_S

POLL_S = 0.05

STRING = "org.apache.kafka.connect.storage.StringConverter"

WORKER: Mapping[str, str] = {
    "key.converter": STRING,
    "value.converter": STRING,
    "offset.storage.file.filename": "connect.offsets",
    "offset.flush.interval.ms": "50",
    "plugin.path": "controlplane.connectors",
    "connectors.folders": ".",
}
"""Settings of a worker that commits soon."""

LINES: Mapping[str, str] = {
    "name": "lines",
    "connector.class": "FileStreamSource",
    "file": "in.txt",
    "topic": "lines",
}
OUT: Mapping[str, str] = {
    "name": "out",
    "connector.class": "FileStreamSink",
    "file": "out.txt",
    "topics": "lines",
}


def write_properties(file: Path, settings: Mapping[str, str]) -> Path:
    """Write settings as a `.properties` file and return its path."""
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), "ascii")
    return file


def write_json(file: Path, document: Any) -> Path:
    """Write a document as a JSON file and return its path."""
    file.write_text(json.dumps(document), "ascii")
    return file


class StandaloneProcess(RunningService):
    """Running standalone worker and its printed lines."""

    @property
    def url(self) -> str:
        """URL of the REST API, from the line that the worker prints."""
        (line,) = (line for line in self.lines if " answered as " in line)
        return line.rpartition(" on ")[2]


@asynccontextmanager
async def running_worker(
    folder: Path,
    *files: Path,
    settings: Mapping[str, str] | None = None,
    options: tuple[str, ...] = (),
) -> AsyncIterator[StandaloneProcess]:
    """Run a worker with the connectors of these files, on a free port."""
    properties = write_properties(folder / "worker.properties", {**WORKER, **(settings or {})})
    async with running_from(properties, *files, options=options) as worker:
        yield worker


@asynccontextmanager
async def running_from(
    properties: Path, *files: Path, options: tuple[str, ...] = ()
) -> AsyncIterator[StandaloneProcess]:
    """Run a worker with its own file, in the folder of that file, on a free port."""
    names = (properties.name, *(file.name for file in files))
    process = await started("standalone", "--port", "0", *options, *names, cwd=properties.parent)
    assert process.stdout is not None
    try:
        lines: list[str] = []
        async for line in process.stdout:
            lines.append(line.decode().rstrip("\n"))
            if sum(line.startswith("  curl") for line in lines) == CURLS:
                break
        else:
            _, stderr = await process.communicate()
            raise AssertionError(stderr.decode())
        yield StandaloneProcess(process, lines)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


def ended_worker(
    folder: Path, *files: Path, settings: Mapping[str, str] | None = None
) -> CommandResult:
    """Run a worker that ends by itself."""
    properties = write_properties(folder / "worker.properties", {**WORKER, **(settings or {})})
    names = (properties.name, *(file.name for file in files))
    done = completed("standalone", "--port", "0", *names, cwd=folder)
    return CommandResult(done.returncode, done.stdout.decode(), done.stderr.decode())


async def until_lines(file: Path, *lines: str) -> None:
    """Wait until a file has exactly these lines; raise AssertionError after the patience."""

    async def written_lines() -> Any:
        return _lines(file)

    await _until(written_lines, [*lines])


async def until_last_line(file: Path, line: str) -> None:
    """Wait until a file ends with this line; raise AssertionError after the patience."""

    async def last() -> Any:
        return _lines(file)[-1:]

    await _until(last, [line])


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


async def until_position(
    client: httpx.AsyncClient, name: str, position: int, path: str = "/compat/3.9"
) -> None:
    """Wait until the offset of a file source is committed; raise AssertionError after the patience.

    `path` is empty for a Java worker.
    """

    async def positions() -> Any:
        answer = (await client.get(f"{path}/connectors/{name}/offsets")).json()
        return [offset["offset"]["position"] for offset in answer.get("offsets", ())]

    await _until(positions, [position])


async def until_task_state(client: httpx.AsyncClient, name: str, state: str) -> None:
    """Wait until a connector's only task is in a state; raise AssertionError after the patience."""

    async def states() -> Any:
        status = (await client.get(f"/connectors/{name}/status")).json()
        return [task["state"] for task in status["tasks"]]

    await _until(states, [state])


async def _until(ask: Callable[[], Awaitable[Any]], expected: Any) -> None:
    answer = None
    for _ in range(int(PATIENCE_S / POLL_S)):
        answer = await ask()
        if answer == expected:
            return
        await asyncio.sleep(POLL_S)
    raise AssertionError(f"{answer} does not become {expected}")
