"""A stopped connector leaves no asyncio task, thread, open file or child process."""

import asyncio
import gc
import subprocess
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from controlplane.connect import Source, key
from controlplane.connect.source import SourceRun
from controlplane.core.commands import (
    CreateConnector,
    DeleteConnector,
    RestartTask,
    ResumeConnector,
    StopConnector,
)
from controlplane.logs.log import Log
from controlplane.logs.memory import MemoryLog
from controlplane.logs.sqlite import SqliteLog
from controlplane.worker.offsets.source_offsets import SourceOffsetStore
from tests.conftest import PROVE
from tests.worker.leak_checks import (
    LOG_FILE,
    Draining,
    Ticking,
    files_of_log,
    idle,
    inventory,
    run_cycles,
    settled,
    surplus,
    until_same,
    without_warnings,
)
from tests.worker.worker_fixture import (
    config_of,
    connector_status,
    offsets,
    running,
    task_states,
    until,
    until_state,
)

CYCLES = 1_000 if PROVE else 15
"""Number of cycles. Each one stops, resumes, restarts, pauses and reconfigures a connector."""

SQLITE_CYCLES = 1_000 if PROVE else 3
FAILURES = 100 if PROVE else 10

LATE_S = 0.2
"""Delay in the cancellation of a `watch`; it fixes the order in which two threads act."""


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


CLASSES = {"ticking": Ticking, "plain": PlainTicking, "forgetful": Forgetful, "sink": Draining}

CONFIGS = {
    name: config_of(connector, topics="t", tasks_max="2")
    if connector is Draining
    else config_of(connector, tasks_max="2")
    for name, connector in CLASSES.items()
}


@pytest.mark.slow
async def test_cycles_leave_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """The inventory stays equal over many cycles; after the deletion it is that of the start."""
    await _check_cycles(MemoryLog(), CYCLES, caplog)


@pytest.mark.slow
async def test_cycles_on_sqlite_leave_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Cycles on a log with open files leak none; the closed log leaves none.

    The log keeps a connection for each thread that has read it: two files, and one for its lock.
    """
    log = await SqliteLog.open(tmp_path / LOG_FILE)
    try:
        await _check_cycles(log, SQLITE_CYCLES, caplog)
        threads = inventory().threads["asyncio_"]
        assert 0 < len(files_of_log()) <= 3 * (threads + 3)
    finally:
        await log.close()
    assert files_of_log() == []


async def _check_cycles(log: Log, cycles: int, caplog: pytest.LogCaptureFixture) -> None:
    """Run cycles of commands; compare the inventory before, in between and behind them.

    Neither the worker nor a library warns.
    """
    async with (
        without_warnings(caplog) as notices,
        running(*CLASSES.values(), log=log, notices=notices) as worker,
    ):
        empty = await idle()
        for name, config in CONFIGS.items():
            await worker.plane.execute(CreateConnector(name, config))
        for name in CONFIGS:
            await settled(worker, name, "RUNNING")
        await until(lambda: inventory().tasks["consumer"])
        before = inventory()
        await run_cycles(worker, CONFIGS, cycles)
        for name in CONFIGS:
            await worker.plane.execute(ResumeConnector(name))
            await settled(worker, name, "RUNNING")
        await until_same(before)
        for name in CONFIGS:
            await worker.plane.execute(DeleteConnector(name))
        await until_same(empty)
    assert notices.warnings == []


async def test_failures_leave_nothing() -> None:
    """A failed task holds no task, thread, file or process, however often it is restarted."""
    async with running(FailingAtOnce) as worker:
        empty = await idle()
        await worker.plane.execute(CreateConnector("f", config_of(FailingAtOnce)))
        await until_state(worker, "f", "RUNNING", "FAILED")
        before = await idle()
        for _ in range(FAILURES):
            await worker.plane.execute(RestartTask("f", 0))
            await until_state(worker, "f", "RUNNING", "FAILED")
        await until_same(before)
        await worker.plane.execute(DeleteConnector("f"))
        await until(lambda: connector_status(worker, "f") is None)
        assert task_states(worker, "f") == []
        await until_same(empty)


@pytest.mark.parametrize("raises", ["true", "false"])
async def test_failed_watches_leave_nothing(raises: str) -> None:
    """A failed connector's watch has ended; a stopped and resumed one has one watch."""
    async with running(FailingWatch) as worker:
        empty = await idle()
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
        await until_same(empty)


async def test_the_end_of_a_watch_logs_nothing(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread of `watch` is cancelled before it ends: asyncio would log a later cancellation."""
    cancel, invoke_callbacks = Future.cancel, Future._invoke_callbacks  # type: ignore[attr-defined]

    def cancel_late(future: Future[Any]) -> bool:
        if threading.current_thread().name == "watch ticking":
            time.sleep(LATE_S)  # lets the worker act first
        return cancel(future)

    def invoke_late(future: Future[Any]) -> None:
        if threading.current_thread() is threading.main_thread():
            for thread in threading.enumerate():
                if thread.name == "watch ticking":
                    thread.join(2 * LATE_S)  # it ends meanwhile if it has been told to
        invoke_callbacks(future)

    monkeypatch.setattr(Future, "cancel", cancel_late)
    monkeypatch.setattr(Future, "_invoke_callbacks", invoke_late)
    async with running(Ticking) as worker:
        await worker.plane.execute(CreateConnector("ticking", CONFIGS["ticking"]))
        await settled(worker, "ticking", "RUNNING")
        await worker.plane.execute(StopConnector("ticking"))
        await settled(worker, "ticking", "STOPPED")
        await until(lambda: not inventory().threads["watch ticking"])
    assert caplog.records == []


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
    await until_same(empty)


@pytest.mark.slow
async def test_children_are_counted() -> None:
    """A child process is a surplus while it runs, and until it has been waited for."""
    empty = inventory()
    with _sleeping_child() as child:
        assert surplus(empty) == ({}, {}, 0, 1)
        child.kill()
        assert surplus(empty) == ({}, {}, 0, 1)
    assert surplus(empty) == ({}, {}, 0, 0)


def _sleeping_child() -> subprocess.Popen[bytes]:
    """Start a child process; leaving its block waits for it."""
    return subprocess.Popen(["sleep", "5"])
