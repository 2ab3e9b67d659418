"""Connectors whose code forks the worker's process."""

import asyncio
import os
import sys
import warnings
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from signal import SIGKILL
from typing import Any

import pytest

from controlplane.connect import Sink, SinkRecord, SinkTaskContext, Source
from controlplane.connect.source import SourceRun
from controlplane.core.commands import CreateConnector
from controlplane.worker.drivers.author_thread import FORKED_EXIT
from tests.worker.worker_fixture import (
    committed_offsets,
    config_of,
    produce,
    running,
    until,
    until_values,
)

# In `make quick`, a fork raises pytest's exception for a skip. In a connector, that exception fails
# the connector and skips no test.
pytestmark = pytest.mark.slow

children: list[int] = []
"""Process ids of the forked children."""


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    children.clear()
    yield
    for child in children:
        with suppress(ChildProcessError):  # it has been waited for
            if _waited(child) is None:
                os.kill(child, SIGKILL)
                os.waitpid(child, 0)


def fork() -> bool:
    """Fork; return True in the child."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: there are threads
        child = os.fork()
    if child:
        children.append(child)
    return not child


class PlainFork(Source):
    """Source that forks in a plain generator."""

    def read(self, task: SourceRun) -> Iterator[Any]:
        """Yield a record before and after the fork, in both processes."""
        yield task.record("1", {"p": 1}, {"at": 1}, topic="t")
        fork()
        yield task.record("2", {"p": 1}, {"at": 2}, topic="t")
        yield task.idle(60)


class AsyncFork(Source):
    """Forks in an async generator, and then waits."""

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Wait and yield in both processes."""
        yield task.record("1", {"p": 1}, {"at": 1}, topic="t")
        fork()
        await asyncio.sleep(0.01)
        yield task.record("2", {"p": 1}, {"at": 2}, topic="t")
        yield task.idle(60)


class ExitingFork(Source):
    """Exits the child with `sys.exit`."""

    def read(self, task: SourceRun) -> Iterator[Any]:
        """Exit in the child; yield on in the parent."""
        yield task.record("1", {"p": 1}, {"at": 1}, topic="t")
        if fork():
            sys.exit()
        yield task.record("2", {"p": 1}, {"at": 2}, topic="t")
        yield task.idle(60)


class EndingFork(Source):
    """Ends the child with `os._exit`."""

    def read(self, task: SourceRun) -> Iterator[Any]:
        """End the child; yield on in the parent."""
        yield task.record("1", {"p": 1}, {"at": 1}, topic="t")
        if fork():
            os._exit(FORKED_EXIT + 1)
        yield task.record("2", {"p": 1}, {"at": 2}, topic="t")
        yield task.idle(60)


class SinkFork(Sink):
    """Sink that forks in `put`."""

    def put(self, task: SinkTaskContext, records: Sequence[SinkRecord]) -> None:
        """Fork at the first records and return in both processes."""
        del task
        if records:
            fork()


async def ended_child() -> int:
    """Wait for the child; return its exit code."""
    [child] = children
    pid, status = await until(lambda: _waited(child))
    assert pid == child
    return os.waitstatus_to_exitcode(status)


def _waited(child: int) -> tuple[int, int] | None:
    pid, status = os.waitpid(child, os.WNOHANG)
    return (pid, status) if pid else None


@pytest.mark.parametrize("connector", [PlainFork, AsyncFork, ExitingFork])
async def test_the_child_of_a_source_ends(connector: type[Source]) -> None:
    """The child ends once it leaves the connector's code; the parent sends each record once."""
    async with running(connector) as worker:
        await worker.plane.execute(CreateConnector("c", config_of(connector)))
        await until_values(worker.plane.log, "t", [b"1", b"2"])
        assert await ended_child() == FORKED_EXIT


async def test_a_child_may_end_itself() -> None:
    """The child has the exit code that it gave to `os._exit`."""
    async with running(EndingFork) as worker:
        await worker.plane.execute(CreateConnector("c", config_of(EndingFork)))
        await until_values(worker.plane.log, "t", [b"1", b"2"])
        assert await ended_child() == FORKED_EXIT + 1


async def test_the_child_of_a_sink_commits_nothing() -> None:
    """The child commits nothing; the parent continues."""
    async with running(SinkFork) as worker:
        await produce(worker.plane.log, "t", "a")
        await worker.plane.execute(CreateConnector("c", config_of(SinkFork, topics="t")))
        await until(lambda: committed_offsets(worker, "connect-c") == {("t", 0): 1})
        assert await ended_child() == FORKED_EXIT
