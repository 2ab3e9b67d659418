"""Connectors that cancel asyncio tasks: their own call, or all of their thread."""

import asyncio
import re
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import CancelledError as FutureCancelled
from concurrent.futures import Future
from typing import Any

import pytest

from controlplane.connect import Source
from controlplane.connect.source import SourceRun
from controlplane.core.commands import CreateConnector, RestartConnector
from controlplane.event_loop import in_daemon_thread
from controlplane.worker.drivers.author_thread import AuthorExit, AuthorThread
from controlplane.worker.factory import InstanceFactory
from tests.conftest import ROOT
from tests.patience import PATIENCE_S
from tests.worker.bad_connectors import (
    SHORT,
    calls,
    create_bad,
    delete,
    plan,
    threads_of,
    with_neighbour,
)
from tests.worker.scripted_source import ScriptedSource, begin, failing, row, script, scripted
from tests.worker.worker_fixture import (
    RecordedNotices,
    config_of,
    offsets,
    running,
    task_trace,
    until,
    until_state,
    until_values,
)


class CancellingSource(Source):
    """Source that cancels asyncio tasks as the test plans."""

    def split(self, config: Any, limit: int) -> Any:
        """Cancel, if the plan names `split`."""
        del limit
        _act("split")
        return [dict(config)]

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Yield two records without end, and cancel after the first."""
        while True:
            yield task.record("a", {"p": 1}, {"at": 1}, topic="t")
            _act("read")
            if plan["where"] == "read and await":
                plan["how"]()
                await asyncio.sleep(0)
            yield task.record("b", {"p": 1}, {"at": 2}, topic="t")
            yield task.idle(0.01)


def _act(place: str) -> None:
    if plan["where"] == place:
        plan["how"]()


def _present_task() -> "asyncio.Task[Any]":
    task = asyncio.current_task()
    assert task is not None
    return task


def cancel_own() -> None:
    """Cancel the present asyncio task."""
    _present_task().cancel()


def cancel_all() -> None:
    """Cancel all asyncio tasks of the thread."""
    for task in asyncio.all_tasks():
        task.cancel()


def cancel_soon() -> None:
    """Cancel the present asyncio task by a callback of its event loop."""
    asyncio.get_running_loop().call_soon(_present_task().cancel)


def line_in(method: str) -> str:
    """Pattern of a line of this module in a trace."""
    return rf'test_cancelled_calls\.py", line \d+, in {method}\n'


@pytest.mark.parametrize(
    ("where", "how", "methods"),
    [
        ("read", cancel_own, ["read", "_act", "cancel_own"]),
        ("read", cancel_all, ["read", "_act", "cancel_all"]),
        ("read and await", cancel_own, ["read", "cancel_own", "read"]),
        ("read and await", cancel_soon, ["read"]),
    ],
)
async def test_a_task_that_cancels_itself_is_failed(
    where: str, how: Callable[[], None], methods: list[str]
) -> None:
    """The trace has the line that cancelled, and the line that awaited."""
    plan.update(where=where, how=how)
    async with with_neighbour(CancellingSource) as worker:
        await create_bad(worker, CancellingSource)
        await until_state(worker, "bad", "RUNNING", "FAILED")
        trace = task_trace(worker, "bad")
        assert re.search("(.|\n)*".join(map(line_in, methods)), trace), trace
        assert "AuthorExit: The connector cancelled its asyncio task at " in trace


async def test_a_split_that_cancels_itself_is_logged() -> None:
    """`split` fails as by an exception: the log says so, and it is called again."""
    plan.update(where="split", how=cancel_all)
    notices = RecordedNotices()
    async with with_neighbour(CancellingSource, notices=notices) as worker:
        await create_bad(worker, CancellingSource)
        await until(lambda: notices.of("task_configs_not_published"))
        assert "cancelled its asyncio task at " in str(notices.of("task_configs_not_published")[0])
        plan["where"] = ""
        await until_state(worker, "bad", "RUNNING", "RUNNING")


def await_cancelled_future(*_: Any) -> Any:
    """Raise `concurrent.futures.CancelledError`, as a call that awaits a cancelled watcher."""
    watcher: Future[None] = Future()
    watcher.cancel()
    return watcher.result()


async def test_a_cancelled_future_does_not_cancel_the_caller() -> None:
    """A future of asyncio would turn the exception into a cancellation of the caller."""
    thread = AuthorThread("cancelled")
    with pytest.raises(AuthorExit, match=r"The connector raised CancelledError\("):
        await thread.call(await_cancelled_future)
    thread.abandon()
    for cancellation in (FutureCancelled, asyncio.CancelledError):
        with pytest.raises(RuntimeError, match=r"The text raised CancelledError\("):
            await asyncio.wrap_future(in_daemon_thread(failing(cancellation()), "text"))


class WatchingSource(ScriptedSource):
    """Source connector whose `stop` cancels a future and awaits it."""

    def stop(self) -> None:
        """Raise `concurrent.futures.CancelledError`."""
        await_cancelled_future()


async def test_a_stop_that_awaits_a_cancelled_future_stops_its_tasks() -> None:
    """After the deletion, no task runs; the connector can be created again."""
    async with running(WatchingSource, runtime=SHORT) as worker:
        for _ in range(2):
            script.calls.clear()
            await worker.plane.execute(CreateConnector("watching", config_of(WatchingSource)))
            await until_state(worker, "watching", "RUNNING", "RUNNING")
            await delete(worker, "watching")
            assert script.calls[-1] == "stop"
            await until(lambda: not threads_of("watching"))


async def test_a_commit_that_awaits_a_cancelled_future_is_logged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Commits go on, and the log has a line about the hook."""
    notices = RecordedNotices()
    monkeypatch.setattr(ScriptedSource.task, "commit", await_cancelled_future)
    async with running(ScriptedSource, runtime=SHORT, notices=notices) as worker:
        await begin(worker)
        for at in (1, 2):
            script.polls.append([row(at)])
            await until(lambda: offsets(worker, "s") == {"{'p': 1}": {"at": at}})  # noqa: B023
        assert "CancelledError" in str(notices.of("commit_hook_failed"))
        await until_state(worker, "s", "RUNNING", "RUNNING")


async def test_a_client_that_raises_a_cancellation_does_not_end_the_actor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The connector is FAILED. A restart finds its actor running."""

    async def prepare_tasks(*_: Any) -> None:
        raise asyncio.CancelledError

    async with running(ScriptedSource, runtime=SHORT) as worker:
        with monkeypatch.context() as patched:
            patched.setattr(InstanceFactory, "prepare_tasks", prepare_tasks)
            await worker.plane.execute(CreateConnector("s", scripted()))
            await until_state(worker, "s", "FAILED")
        restart = RestartConnector("s", include_tasks=True)
        await worker.plane.execute(restart)
        await until_state(worker, "s", "RUNNING", "RUNNING")


async def test_a_call_that_is_cancelled_before_it_begins_fails() -> None:
    """An earlier call of the thread cancels all asyncio tasks."""
    thread = AuthorThread("cancelling")
    both_submitted = threading.Event()

    def wait() -> None:
        calls.append("waiting")
        both_submitted.wait(PATIENCE_S)

    thread.submit(wait)
    await until(lambda: calls)
    submitted = [thread.submit(cancel_all), thread.submit(list)]
    both_submitted.set()
    async with asyncio.timeout(PATIENCE_S):
        for call in submitted:
            with pytest.raises(AuthorExit, match="cancelled its asyncio task at "):
                await call
    thread.abandon()


async def test_a_thread_ends_although_its_code_cancels_the_end() -> None:
    """A `finally` that cancels all asyncio tasks keeps no thread, and prints no trace."""
    thread = AuthorThread("task cancelling-0")

    async def wait() -> None:
        try:
            calls.append("waiting")
            await asyncio.Event().wait()
        finally:
            cancel_all()

    call = thread.submit(wait)
    await until(lambda: calls)
    thread.abandon()
    await until(lambda: not threads_of("cancelling"))
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_a_thread_ends_once() -> None:
    """A second end that comes during the first one, or a `stop` by the code, prints no trace."""
    thread = AuthorThread("task ending-0")

    async def wait() -> None:
        try:
            calls.append("waiting")
            await asyncio.Event().wait()
        finally:
            asyncio.get_running_loop().stop()
            await asyncio.sleep(0)
            calls.append("cleaned up")

    def end_twice() -> None:
        thread.abandon()
        asyncio.get_running_loop().call_soon(thread.abandon)

    call = thread.submit(wait)
    await until(lambda: calls)
    await thread.submit(end_twice)
    await until(lambda: not threads_of("ending"))
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(PATIENCE_S):
            await call
    assert calls == ["waiting", "cleaned up"]


BLOCKED = """
import asyncio, threading
from controlplane.event_loop import in_daemon_thread
from controlplane.worker.drivers.author_thread import AuthorThread

async def main():
    thread, begun = AuthorThread("c"), threading.Event()

    def block():
        begun.set()
        threading.Event().wait()

    thread.submit(asyncio.to_thread, block)
    begun.wait()
    thread.abandon()

asyncio.run(main())
"""
"""Program that leaves behind a call in another thread, which blocks for ever."""


def test_a_call_in_another_thread_does_not_keep_the_process_alive() -> None:
    """The process ends although a call by `asyncio.to_thread` blocks."""
    subprocess.run([sys.executable, "-c", BLOCKED], cwd=ROOT, check=True, timeout=PATIENCE_S)


class TimingOut(Source):
    """Source that uses asyncio's own cancellations."""

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Yield a record after a timeout, and after a cancellation that is caught."""
        try:
            async with asyncio.timeout(0):
                await asyncio.sleep(1)
        except TimeoutError:
            yield task.record("timed out", {"p": 1}, {"at": 1}, topic="t")
        cancel_own()
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            yield task.record("caught", {"p": 1}, {"at": 2}, topic="t")
        while True:
            yield task.idle(0.01)


async def test_cancellations_that_the_connector_handles_fail_no_task() -> None:
    """A timeout or a caught cancellation is the connector's own affair."""
    async with running(TimingOut, runtime=SHORT) as worker:
        await worker.plane.execute(CreateConnector("c", config_of(TimingOut)))
        await until_values(worker.plane.log, "t", [b"timed out", b"caught"])
        await until_state(worker, "c", "RUNNING", "RUNNING")
