"""A notice reports each background task that ends with a defect."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from controlplane.core.commands import CreateConnector
from controlplane.core.entry import Position
from controlplane.logs.log import Record
from controlplane.logs.memory import MemoryLog
from controlplane.worker import worker as worker_module
from controlplane.worker.tasks import at_least_once
from tests.worker.scripted_source import ScriptedSource, row, script, scripted
from tests.worker.worker_fixture import RecordedNotices, running, task_trace, until, until_state


class UnwritableLog(MemoryLog):
    """Log with a defect: it cannot append to one topic."""

    def __init__(self, topic: str) -> None:
        super().__init__()
        self._topic = topic

    async def append(
        self, records: Sequence[Record], epoch: int | None = None
    ) -> Sequence[Position]:
        """Append, or fail as no log should."""
        if self._topic in {record.topic for record in records}:
            raise RuntimeError("a defect")
        return await super().append(records, epoch)


async def reported(notices: RecordedNotices, task: str) -> None:
    """Wait for the line about a task."""
    [line] = await until(lambda: notices.of("background_task_failed"))
    assert line == {"task": task, "reason": "RuntimeError('a defect')"}


async def test_a_failed_status_writer_is_reported() -> None:
    """A failure to write statuses is reported as a failed background task."""
    notices = RecordedNotices()
    async with running(
        ScriptedSource, log=UnwritableLog("connect-status"), notices=notices
    ) as worker:
        await worker.plane.execute(CreateConnector("c", scripted()))
        await reported(notices, "statuses")


async def test_a_source_that_cannot_commit_is_failed() -> None:
    """A source that can no longer commit is FAILED."""
    notices = RecordedNotices()
    script.polls.append([row(1)])
    async with running(
        ScriptedSource, log=UnwritableLog("connect-offsets"), notices=notices
    ) as worker:
        await worker.plane.execute(CreateConnector("c", scripted()))
        await until_state(worker, "c", "RUNNING", "FAILED")
        await reported(notices, "offset commits")


async def test_a_source_whose_commits_are_cancelled_is_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client that raises `CancelledError` ends the commits, so the source is FAILED."""

    async def write_offsets(*_: Any) -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr(at_least_once, "write_offsets", write_offsets)
    script.polls.append([row(1)])
    async with running(ScriptedSource) as worker:
        await worker.plane.execute(CreateConnector("c", scripted()))
        await until_state(worker, "c", "RUNNING", "FAILED")
        assert "commits of offsets at an interval were cancelled" in task_trace(worker, "c")
        monkeypatch.undo()


async def test_a_failed_follower_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect in the follower is reported: the worker no longer follows the log."""

    def assignment_of(*_: Any) -> None:
        raise RuntimeError("a defect")

    notices = RecordedNotices()
    async with running(ScriptedSource, notices=notices) as worker:
        monkeypatch.setattr(worker_module, "assignment_of", assignment_of)
        await worker.plane.execute(CreateConnector("c", scripted()))
        await reported(notices, "worker")
