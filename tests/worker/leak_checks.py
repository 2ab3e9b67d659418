"""Cycles of commands, and a census of this process: what a connector leaves behind."""

import asyncio
import gc
import logging
import os
import threading
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from controlplane.connect import Sink, SinkRecord, SinkTaskContext, Source, key
from controlplane.connect.source import SourceRun
from controlplane.core.commands import (
    AnyCommand,
    PauseConnector,
    PutConfig,
    RestartConnector,
    RestartTask,
    ResumeConnector,
    StopConnector,
)
from controlplane.worker.worker import ConnectWorker
from tests.worker.worker_fixture import RecordedNotices, until, until_state

LOG_FILE = "cycles.db"
"""Name of a log whose files are not counted."""


class Ticking(Source):
    """Reads and watches without end, with tasks and threads of its own."""

    config = (key("topic", default="t"),)

    async def watch(self, *_: Any) -> None:
        """Wait until the task is cancelled."""
        await asyncio.Event().wait()

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Yield numbers; use a task and a thread of the loop's executor."""
        waiting = asyncio.create_task(asyncio.Event().wait())
        at = 0
        try:
            await asyncio.to_thread(len, "")
            while True:
                at += 1
                yield task.record(str(at), {"p": task.number}, {"at": at})
                yield task.idle(0.005)
        finally:
            waiting.cancel()


class Draining(Sink):
    """Sink that keeps no records."""

    def put(self, task: SinkTaskContext, records: Sequence[SinkRecord]) -> None:
        """Drop the records and keep nothing."""


class Inventory(NamedTuple):
    """Tasks, threads, open files (and sockets), and children of this process; no files of a log."""

    tasks: Counter[str]
    threads: Counter[str]
    files: int
    children: int


def inventory() -> Inventory:
    """Tasks, threads, files and child processes that exist now."""
    return Inventory(
        Counter(task.get_name().rstrip("0123456789") for task in asyncio.all_tasks()),
        Counter(thread.name.rstrip("0123456789") for thread in threading.enumerate()),
        len(_open_files()) - len(files_of_log()),
        len(_children()),
    )


def _open_files() -> list[str]:
    """Targets of the open file descriptors; empty on systems without `/proc`."""
    folder = Path("/proc/self/fd")
    targets: list[str] = []
    for descriptor in folder.iterdir() if folder.exists() else ():
        with suppress(FileNotFoundError):  # the descriptor of the listing itself
            targets.append(str(descriptor.readlink()))
    return targets


def _children() -> list[int]:
    """Ids of child processes, also of unreaped ones; empty on systems without `/proc`."""
    own = str(os.getpid())
    children: list[int] = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):  # the process has just ended
            _, _, fields = status.read_text("utf-8", "replace").rpartition(") ")
            if fields.split()[1] == own:
                children.append(int(status.parent.name))
    return children


def files_of_log() -> list[str]:
    """Open files of the log that is not counted."""
    return [target for target in _open_files() if LOG_FILE in target]


def commands_of(name: str, config: Mapping[str, str]) -> list[tuple[AnyCommand, str]]:
    """Commands of one cycle of a connector, with its state after each."""
    return [
        (StopConnector(name), "STOPPED"),
        (ResumeConnector(name), "RUNNING"),
        (RestartConnector(name), "RUNNING"),
        (RestartConnector(name, include_tasks=True), "RUNNING"),
        (RestartTask(name, 0), "RUNNING"),
        (PauseConnector(name), "PAUSED"),
        (ResumeConnector(name), "RUNNING"),
        (PutConfig(name, config), "RUNNING"),
    ]


@asynccontextmanager
async def without_warnings(
    caplog: pytest.LogCaptureFixture, expected: tuple[str, ...] = ()
) -> AsyncIterator[RecordedNotices]:
    """Fail if anything is logged as a warning, or if asyncio reports a defect.

    Pytest turns Python's own warnings into failures. Notices of the worker are kept in the result.
    `expected`: suffixes of log lines that are allowed.
    """
    defects: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: defects.append(context))
    notices = RecordedNotices()
    yield notices
    gc.collect()  # finalisers warn of what was not closed
    assert defects == [], defects
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert [line for line in lines if not line.endswith(expected)] == []


async def run_cycles(
    worker: ConnectWorker, configs: Mapping[str, Mapping[str, str]], cycles: int
) -> None:
    """Run cycles of commands, one connector after the other."""
    for name in islice(cycle(configs), cycles):
        for command, state in commands_of(name, configs[name]):
            await worker.plane.execute(command)
            await settled(worker, name, state)


async def settled(worker: ConnectWorker, name: str, state: str) -> None:
    """Wait until a connector and its tasks have this state: two tasks of `sink`, one of others."""
    tasks = 2 if name == "sink" else 1
    await until_state(worker, name, state, *([state] * tasks if state != "STOPPED" else []))


async def idle() -> Inventory:
    """Inventory of a worker that waits for its log to grow."""
    await asyncio.sleep(0.1)
    return inventory()


async def until_same(expected: Inventory) -> None:
    """Wait until the inventory is equal; report the surplus."""
    try:
        await until(lambda: not any(surplus(expected)))
    except TimeoutError:
        raise AssertionError(f"left: {surplus(expected)}") from None


def surplus(expected: Inventory) -> tuple[dict[str, int], dict[str, int], int, int]:
    """Objects beyond this inventory. The loop's executor keeps its idle threads."""
    now = inventory()
    threads = now.threads - expected.threads
    return (
        dict(now.tasks - expected.tasks),
        {name: count for name, count in threads.items() if not name.startswith("asyncio_")},
        max(0, now.files - expected.files),
        max(0, now.children - expected.children),
    )
