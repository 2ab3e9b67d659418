"""Failures that cannot be described or logged still end in a status."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from controlplane.connect import RetriableError, Sink, Source
from controlplane.connect.source import SourceRun
from controlplane.core.commands import CreateConnector, DeleteConnector, RestartTask, StopConnector
from controlplane.failure_text import MAX_CHARACTERS
from controlplane.logs.memory import MemoryLog
from controlplane.worker.lifecycle.connector_actor import ConnectorActor
from controlplane.worker.lifecycle.connector_instance import ConnectorInstance
from tests.worker.bad_connectors import (
    BadSource,
    Unprintable,
    act,
    calls,
    create_bad,
    delete,
    group_offsets,
    plan,
    with_neighbour,
)
from tests.worker.worker_fixture import (
    RecordedNotices,
    config_of,
    connector_status,
    entries_in,
    running,
    task_trace,
    until,
    until_state,
)


class RaisingReader(Source):
    """Misbehaves in `read` if the plan names `read`."""

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Misbehave if the plan says so; yield nothing."""
        act("read")
        while True:
            yield task.idle(0.01)


async def test_an_unprintable_exception_of_a_read_fails_the_task() -> None:
    """The task is FAILED, and runs after a restart."""
    plan.update(where="read", how="unprintable")
    async with with_neighbour(RaisingReader) as worker:
        await create_bad(worker, RaisingReader)
        await until_state(worker, "bad", "RUNNING", "FAILED")
        assert "Unprintable: <exception str() failed>" in task_trace(worker, "bad")
        plan.clear()
        await worker.plane.execute(RestartTask("bad", 0))
        await until_state(worker, "bad", "RUNNING", "RUNNING")


class UnprintableRetry(Unprintable, RetriableError):
    """Retriable exception whose text cannot be read."""


class Retrying(Sink):
    """Sink whose first `put` raises a retriable exception."""

    def put(self, *_: Any) -> None:
        """Raise at the first call only."""
        calls.append("put")
        if len(calls) == 1:
            raise UnprintableRetry

    def start(self, task: Any) -> None:
        """Let the worker put again after 10 ms."""
        task.retry_after(0.01)


async def test_an_unprintable_retriable_exception_is_retried() -> None:
    """The records are put again."""
    notices = RecordedNotices()
    async with with_neighbour(Retrying, notices=notices) as worker:
        await create_bad(worker, Retrying)
        await until(lambda: group_offsets(worker) == {("t", 0): 2})
        reason = notices.of("sink_put_again")[0]["reason"]
        assert reason == "UnprintableRetry: <exception str() failed>"


class Verbose(Source):
    """Source that fails with megabytes of text."""

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Fail with a long text after an idle period."""
        yield task.idle(0)
        raise ValueError("a" * 3_000_000)


async def test_a_text_of_megabytes_is_shortened() -> None:
    """Status and log line leave characters out, and say so."""
    notices = RecordedNotices()
    async with with_neighbour(Verbose, notices=notices) as worker:
        await create_bad(worker, Verbose)
        await until_state(worker, "bad", "RUNNING", "FAILED")
        line = notices.of("task_failed")[0]
        for text in (task_trace(worker, "bad"), line["reason"], line["trace"]):
            assert "characters left out" in text
            assert len(text) < MAX_CHARACTERS + 100


class FailingNotices(RecordedNotices):
    """Logger that raises for each warning."""

    def warning(self, event: str, **facts: Any) -> None:
        """Keep the event, and fail."""
        super().warning(event, **facts)
        raise OSError("no space left")


async def test_a_task_fails_while_the_log_fails() -> None:
    """The task is FAILED although its failure cannot be logged."""
    plan.update(where="read", how="raise")
    async with running(RaisingReader, notices=FailingNotices()) as worker:
        await worker.plane.execute(CreateConnector("bad", config_of(RaisingReader)))
        await until_state(worker, "bad", "RUNNING", "FAILED")
        assert "ValueError: bad read" in task_trace(worker, "bad")


async def test_a_connector_fails_while_the_log_fails() -> None:
    """A failed stop is reported as with a log that works; the connector can be deleted."""
    plan.update(where="connector.stop", how="raise")
    async with running(BadSource, notices=FailingNotices()) as worker:
        await worker.plane.execute(CreateConnector("bad", config_of(BadSource)))
        await until_state(worker, "bad", "RUNNING", "RUNNING")
        await worker.plane.execute(StopConnector("bad"))
        await until_state(worker, "bad", "STOPPED")
        await delete(worker, "bad")


async def test_a_worker_ends_while_the_log_fails() -> None:
    """The task is UNASSIGNED although the failure of its `stop` cannot be logged."""
    plan.update(where="task.stop", how="raise")
    log = MemoryLog()
    async with running(BadSource, log=log, notices=FailingNotices()) as worker:
        await worker.plane.execute(CreateConnector("bad", config_of(BadSource)))
        await until_state(worker, "bad", "RUNNING", "RUNNING")
    statuses = {entry.key: entry.value or b"" for entry in await entries_in(log, "connect-status")}
    assert b'"UNASSIGNED"' in statuses[b"status-task-bad-0"]


async def _defect(*_: Any) -> None:
    raise RuntimeError("defect of the runtime")


async def test_a_defect_while_a_connector_stops_leaves_no_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A deletion still removes all statuses."""
    async with running(BadSource) as worker:
        await worker.plane.execute(CreateConnector("bad", config_of(BadSource)))
        await until_state(worker, "bad", "RUNNING", "RUNNING")
        with monkeypatch.context() as patch:
            patch.setattr(ConnectorInstance, "shut_down", _defect)
            await delete(worker, "bad")


async def test_a_defect_that_ends_an_actor_fails_the_connector(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The connector is FAILED with the trace of the defect, and the log has a warning."""
    notices = RecordedNotices()
    async with running(BadSource, notices=notices) as worker:
        await worker.plane.execute(CreateConnector("bad", config_of(BadSource)))
        await until_state(worker, "bad", "RUNNING", "RUNNING")
        with monkeypatch.context() as patch:
            patch.setattr(ConnectorActor, "_remove", _defect)
            await worker.plane.execute(DeleteConnector("bad"))
            await until_state(worker, "bad", "FAILED", "RUNNING")
        await until(lambda: notices.of("connector_not_run"))
        status = connector_status(worker, "bad")
        assert "defect of the runtime" in str(status and status.trace)
