"""A stopped connector leaves no asyncio task, thread, open file or child process."""

import asyncio
import gc
import os
import subprocess
import threading
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from controlplane.connect import Sink, SinkRecord, SinkTaskContext, Source, key
from controlplane.connect.source import SourceRun
from controlplane.core.commands import (
    AnyCommand,
    CreateConnector,
    DeleteConnector,
    PauseConnector,
    PutConfig,
    RestartConnector,
    RestartTask,
    ResumeConnector,
    StopConnector,
)
from controlplane.logs.log import Log
from controlplane.logs.memory import MemoryLog
from controlplane.logs.sqlite import SqliteLog
from controlplane.worker.offsets.source_offsets import SourceOffsetStore
from controlplane.worker.worker import ConnectWorker
from tests.conftest import PROVE
from tests.worker.worker_fixture import (
    config_of,
    connector_status,
    offsets,
    running,
    task_states,
    until,
    until_state,
)

CYCLES = 1_000 if PROVE else 25
"""Number of cycles. Each one stops, resumes, restarts, pauses and reconfigures a connector."""

SQLITE_CYCLES = 1_000 if PROVE else 5
FAILURES = 100 if PROVE else 20
LOG_FILE = "cycles.db"


class Ticking(Source):
    """Reads and watches without end, with tasks and threads of its own."""

    async def watch(self, *_: Any) -> None:
        """Wait until the task is cancelled."""
        await asyncio.Event().wait()

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Yield numbers; use a task and a thread of the loop's executor."""
        waiting = asyncio.create_task(asyncio.Event().wait())
        await asyncio.to_thread(len, "")
        at = 0
        try:
            while True:
                at += 1
                yield task.record(str(at), {"p": task.number}, {"at": at}, topic="t")
                yield task.idle(0.005)
        finally:
            waiting.cancel()


class PlainTicking(Source):
    """Reads in synchronous code without end."""

    def read(self, task: SourceRun) -> Any:
        """Yield one record every 5 ms, without end."""
        while True:
            yield task.record("x", {"p": 1}, {"at": 1}, topic="t")
            yield task.idle(0.005)


class Forgetful(Source):
    """Leaves an asyncio task running that it never ends."""

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Start a background task that never ends."""
        self.left = asyncio.create_task(asyncio.Event().wait())
        while True:
            yield task.idle(0.005)


class FailingAtOnce(Source):
    """Source that raises after its first idle period."""

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Raise ValueError after an idle period."""
        yield task.idle(0)
        raise ValueError("at once")


class FailingWatch(Source):
    """Watches until it reports a failure itself, or raises one."""

    config = (key("raise"),)

    async def watch(self, connector: Any) -> None:
        """Fail, and then continue as if no failure had happened."""
        if connector.config["raise"] == "true":
            raise ValueError("watch")
        connector.fail(ValueError("watch"))
        await asyncio.Event().wait()

    def split(self, config: Any, limit: int) -> Any:
        """Return no task configs."""
        del config, limit
        return []


class Draining(Sink):
    """Sink that keeps no records."""

    def put(self, task: SinkTaskContext, records: Sequence[SinkRecord]) -> None:
        """Drop the records and keep nothing."""


class Inventory(NamedTuple):
    """Tasks, threads, open files and children of this process, without files of a log."""

    tasks: Counter[str]
    threads: Counter[str]
    files: int
    children: int


def inventory() -> Inventory:
    """Tasks, threads, files and child processes that exist now."""
    return Inventory(
        Counter(task.get_name().rstrip("0123456789") for task in asyncio.all_tasks()),
        Counter(thread.name.rstrip("0123456789") for thread in threading.enumerate()),
        len(_open_files()) - len(_files_of_log()),
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
    """Ids of child processes, ended ones that nobody has waited for included; as `_open_files`."""
    own = str(os.getpid())
    children: list[int] = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):  # the process has just ended
            _, _, fields = status.read_text("utf-8", "replace").rpartition(") ")
            if fields.split()[1] == own:
                children.append(int(status.parent.name))
    return children


def _files_of_log() -> list[str]:
    return [target for target in _open_files() if LOG_FILE in target]


CLASSES = {"ticking": Ticking, "plain": PlainTicking, "forgetful": Forgetful, "sink": Draining}

CONFIGS = {
    name: config_of(connector, topics="t", tasks_max="2")
    if connector is Draining
    else config_of(connector, tasks_max="2")
    for name, connector in CLASSES.items()
}


def commands_of(name: str) -> list[tuple[AnyCommand, str]]:
    """Commands of one cycle of a connector, with its state after each."""
    return [
        (StopConnector(name), "STOPPED"),
        (ResumeConnector(name), "RUNNING"),
        (RestartConnector(name), "RUNNING"),
        (RestartConnector(name, include_tasks=True), "RUNNING"),
        (RestartTask(name, 0), "RUNNING"),
        (PauseConnector(name), "PAUSED"),
        (ResumeConnector(name), "RUNNING"),
        (PutConfig(name, CONFIGS[name]), "RUNNING"),
    ]


async def settled(worker: ConnectWorker, name: str, state: str) -> None:
    """Wait until a connector and its tasks have this state."""
    tasks = 2 if name == "sink" else 1
    await until_state(worker, name, state, *([state] * tasks if state != "STOPPED" else []))


@pytest.mark.slow
async def test_cycles_leave_nothing() -> None:
    """The inventory stays equal over many cycles; after the deletion it is that of the start."""
    await _check_cycles(MemoryLog(), CYCLES)


@pytest.mark.slow
async def test_cycles_on_sqlite_leave_nothing(tmp_path: Path) -> None:
    """Cycles on a log with open files leak none; the closed log leaves none.

    The log keeps a connection for each thread that has read it: two files, and one for its lock.
    """
    log = await SqliteLog.open(tmp_path / LOG_FILE)
    try:
        await _check_cycles(log, SQLITE_CYCLES)
        threads = inventory().threads["asyncio_"]
        assert 0 < len(_files_of_log()) <= 3 * (threads + 3)
    finally:
        await log.close()
    assert _files_of_log() == []


async def _check_cycles(log: Log, cycles: int) -> None:
    """Run cycles of commands; compare the inventory before, in between and behind them."""
    async with running(*CLASSES.values(), log=log) as worker:
        empty = await _idle()
        for name, config in CONFIGS.items():
            await worker.plane.execute(CreateConnector(name, config))
        for name in CONFIGS:
            await settled(worker, name, "RUNNING")
        await until(lambda: inventory().tasks["consumer"])
        before = inventory()
        for name in islice(cycle(CONFIGS), cycles):
            for command, state in commands_of(name):
                await worker.plane.execute(command)
                await settled(worker, name, state)
        for name in CONFIGS:
            await worker.plane.execute(ResumeConnector(name))
            await settled(worker, name, "RUNNING")
        await _until_same(before)
        for name in CONFIGS:
            await worker.plane.execute(DeleteConnector(name))
        await _until_same(empty)


async def test_failures_leave_nothing() -> None:
    """A failed task holds no task, thread, file or process, however often it is restarted."""
    async with running(FailingAtOnce) as worker:
        empty = await _idle()
        await worker.plane.execute(CreateConnector("f", config_of(FailingAtOnce)))
        await until_state(worker, "f", "RUNNING", "FAILED")
        before = await _idle()
        for _ in range(FAILURES):
            await worker.plane.execute(RestartTask("f", 0))
            await until_state(worker, "f", "RUNNING", "FAILED")
        await _until_same(before)
        await worker.plane.execute(DeleteConnector("f"))
        await until(lambda: connector_status(worker, "f") is None)
        assert task_states(worker, "f") == []
        await _until_same(empty)


@pytest.mark.parametrize("raises", ["true", "false"])
async def test_failed_watches_leave_nothing(raises: str) -> None:
    """A failed connector's watch has ended; a stopped and resumed one has one watch."""
    async with running(FailingWatch) as worker:
        empty = await _idle()
        config = config_of(FailingWatch) | {"raise": raises}
        await worker.plane.execute(CreateConnector("f", config))
        await until_state(worker, "f", "FAILED")
        for _ in range(FAILURES):
            await until(lambda: not inventory().threads["watch f"])
            await worker.plane.execute(StopConnector("f"))
            await until_state(worker, "f", "STOPPED")
            await worker.plane.execute(ResumeConnector("f"))
            await until_state(worker, "f", "FAILED")
        await worker.plane.execute(DeleteConnector("f"))
        await until(lambda: connector_status(worker, "f") is None)
        await _until_same(empty)


@pytest.mark.slow
async def test_deleted_connectors_leave_no_offsets() -> None:
    """A deleted connector leaves no `SourceOffsetStore` in memory."""
    before = _instances(SourceOffsetStore)
    async with running(Ticking) as worker:
        for number in range(3):
            await worker.plane.execute(CreateConnector(f"s{number}", config_of(Ticking)))
        for number in range(3):
            await until(partial(offsets, worker, f"s{number}"))
        assert _instances(SourceOffsetStore) == before + 3
        for number in range(3):
            await worker.plane.execute(DeleteConnector(f"s{number}"))
        await until(lambda: _instances(SourceOffsetStore) <= before)


def _instances(kind: type[Any]) -> int:
    gc.collect()
    return sum(isinstance(instance, kind) for instance in gc.get_objects())


async def test_a_closed_worker_leaves_nothing() -> None:
    """No task, thread, file or process outlives the block."""
    await asyncio.to_thread(len, "")  # the executor of this loop stays
    empty = inventory()
    for _ in range(3):
        async with running(*CLASSES.values()) as worker:
            for name, config in CONFIGS.items():
                await worker.plane.execute(CreateConnector(name, config))
            for name in CONFIGS:
                await settled(worker, name, "RUNNING")
    await _until_same(empty)


@pytest.mark.slow
async def test_children_are_counted() -> None:
    """A child process is a surplus while it runs, and until it has been waited for."""
    empty = inventory()
    with _sleeping_child() as child:
        assert _surplus(empty) == ({}, {}, 0, 1)
        child.kill()
        assert _surplus(empty) == ({}, {}, 0, 1)
    assert _surplus(empty) == ({}, {}, 0, 0)


def _sleeping_child() -> subprocess.Popen[bytes]:
    """Start a child process; leaving its block waits for it."""
    return subprocess.Popen(["sleep", "5"])


async def _idle() -> Inventory:
    """Inventory of a worker that waits for its log to grow."""
    await asyncio.sleep(0.1)
    return inventory()


async def _until_same(expected: Inventory) -> None:
    """Wait until the inventory is equal; report the surplus."""
    try:
        await until(lambda: not any(_surplus(expected)))
    except TimeoutError:
        raise AssertionError(f"left: {_surplus(expected)}") from None


def _surplus(expected: Inventory) -> tuple[dict[str, int], dict[str, int], int, int]:
    """Objects beyond this inventory. The loop's executor keeps its idle threads."""
    now = inventory()
    threads = now.threads - expected.threads
    return (
        dict(now.tasks - expected.tasks),
        {name: count for name, count in threads.items() if not name.startswith("asyncio_")},
        max(0, now.files - expected.files),
        max(0, now.children - expected.children),
    )
