"""Failures of tasks in the log and in their statuses."""

import asyncio
from collections.abc import Iterable, Sequence
from itertools import groupby
from threading import Event

import msgspec
import pytest

from controlplane.connect import Sink, SinkRecord, SinkTaskContext, key
from controlplane.core.codec.status import decode_status
from controlplane.core.commands import CreateConnector, StopConnector
from controlplane.core.order import Ends
from controlplane.core.records import TaskStatus
from controlplane.core.releases.profiles import Profile
from controlplane.logs.log import Log
from controlplane.logs.memory import MemoryLog
from controlplane.worker.data_topics.embedded_producer import LogProducer
from controlplane.worker.lifecycle.task_instance import TaskInstance
from tests.patience import PATIENCE_S
from tests.worker.faulty_log import FaultyLog
from tests.worker.scripted_source import ScriptedSource, failing, row, script, scripted
from tests.worker.worker_fixture import (
    QUICK,
    RecordedNotices,
    config_of,
    entries_in,
    produce,
    running,
    task_trace,
    until,
    until_state,
)


@pytest.fixture
def stopping(monkeypatch: pytest.MonkeyPatch) -> Event:
    """Set once a task is asked to stop. Its connector may be STOPPED before that, or later."""
    stop, is_asked = TaskInstance.stop, Event()

    def noted_stop(task: TaskInstance) -> None:
        stop(task)
        is_asked.set()

    monkeypatch.setattr(TaskInstance, "stop", noted_stop)
    return is_asked


async def test_a_failure_is_logged() -> None:
    """The line has the reason and the trace, as in Kafka."""
    script.polls.append(failing(RuntimeError("the cause")))
    notices = RecordedNotices()
    async with running(ScriptedSource, notices=notices) as worker:
        await worker.plane.execute(CreateConnector("c", scripted()))
        await until_state(worker, "c", "RUNNING", "FAILED")
        [line] = notices.of("task_failed")
        assert (line["connector"], line["task"]) == ("c", 0)
        assert line["reason"] == "RuntimeError('the cause')"
        assert line["trace"] == task_trace(worker, "c")


async def test_a_cancelled_error_of_a_client_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client raises `CancelledError` although the task is not cancelled: the task is FAILED."""

    async def cancelled(*_: object) -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr(LogProducer, "send", cancelled)
    script.polls.append([row(1)])
    async with running(ScriptedSource) as worker:
        await worker.plane.execute(CreateConnector("c", scripted()))
        await until_state(worker, "c", "RUNNING", "FAILED")
        assert "CancelledError" in task_trace(worker, "c")


@pytest.mark.parametrize("exactly_once", [False, True])
async def test_a_failure_while_stopping_is_logged(exactly_once: bool, stopping: Event) -> None:
    """The log refuses the last records of a stopping task; only a log line reports it."""
    runtime = msgspec.structs.replace(
        QUICK,
        exactly_once=exactly_once,
        offset_flush_timeout_ms=1_000 * PATIENCE_S,
        task_shutdown_graceful_timeout_ms=1_000 * PATIENCE_S,
    )
    log, notices = FaultyLog(), RecordedNotices()
    log.held.add("t")
    script.polls.append([row(1, key="k")])
    async with running(ScriptedSource, runtime=runtime, log=log, notices=notices) as worker:
        await worker.plane.execute(CreateConnector("c", scripted()))
        await until(lambda: "t" in log.waiting)
        await worker.plane.execute(StopConnector("c"))
        await until(stopping.is_set)
        log.refused_keys.add(b"k")
        log.release("t")
        [line] = await until(lambda: notices.of("task_failed_while_stopping"))
        assert "refused" in line["reason"]
        await until_state(worker, "c", "STOPPED")
        assert not notices.of("task_failed")


class FailingSink(Sink):
    """Blocks in `put` until it is released; then the method that its config names raises."""

    config = (key("fail"),)
    blocked = Event()
    released = Event()

    def put(self, task: SinkTaskContext, records: Sequence[SinkRecord]) -> None:
        """Block at the first record; then raise if the config says so."""
        if not records:
            return
        self.blocked.set()
        self.released.wait(PATIENCE_S)
        if task.config["fail"] == "put":
            raise ValueError("put failed")

    def stop(self, task: SinkTaskContext) -> None:
        """Raise if the config says so."""
        if task.config["fail"] == "stop":
            raise ValueError("stop failed")


async def reported_states(log: Log) -> list[str | None]:
    """States of all task reports in the status topic; None for a removal."""
    profile = Profile.of("kip")
    records = [
        decode_status(entry.key, entry.value, profile)
        for entry in await entries_in(log, "connect-status")
    ]
    return [
        None if record.status is None else record.status.state.value
        for record in records
        if isinstance(record, TaskStatus)
    ]


@pytest.mark.parametrize("fail", ["put", "stop"])
async def test_a_failure_while_stopping_is_no_status(fail: str, stopping: Event) -> None:
    """A task that throws while it is being stopped reports UNASSIGNED, and never FAILED."""
    FailingSink.blocked.clear()
    FailingSink.released.clear()
    graceful = msgspec.structs.replace(QUICK, task_shutdown_graceful_timeout_ms=1_000 * PATIENCE_S)
    notices = RecordedNotices()
    async with running(FailingSink, runtime=graceful, notices=notices) as worker:
        await produce(worker.plane.log, "t", "a")
        config = config_of(FailingSink, topics="t", fail=fail)
        await worker.plane.execute(CreateConnector("c", config))
        await until(FailingSink.blocked.is_set)
        await worker.plane.execute(StopConnector("c"))
        await until(stopping.is_set)
        FailingSink.released.set()
        await until_state(worker, "c", "STOPPED")
        states = await reported_states(worker.plane.log)
        # The removal may be written twice: by the change of the tasks, and by the end of the task.
        assert [state for state, _ in groupby(states)] == ["RUNNING", "UNASSIGNED", None]
        event = "task_failed_while_stopping" if fail == "put" else "task_stop_failed"
        assert len(notices.of(event)) == 1


class UnmeasurableLog(MemoryLog):
    """Log with a defect: `ends` fails if it is called for the offsets topic only."""

    async def ends(self, topics: Iterable[str]) -> Ends:
        """Answer, or fail as no log should."""
        topics = [*topics]
        if topics == ["connect-offsets"]:
            raise RuntimeError("a defect")
        return await super().ends(topics)


async def test_tasks_that_cannot_be_prepared_fail() -> None:
    """Tasks are FAILED if their preparation fails, for any reason."""
    notices = RecordedNotices()
    async with running(ScriptedSource, log=UnmeasurableLog(), notices=notices) as worker:
        await worker.plane.execute(CreateConnector("c", scripted()))
        await until_state(worker, "c", "RUNNING", "FAILED")
        assert "a defect" in task_trace(worker, "c")
        [line] = notices.of("task_failed")
        assert line["reason"] == "RuntimeError('a defect')"
