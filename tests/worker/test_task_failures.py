"""Failures of tasks in the log and in their statuses."""

from collections.abc import Iterable, Iterator

import msgspec
import pytest

from controlplane.core.commands import CreateConnector, StopConnector
from controlplane.core.order import Ends
from controlplane.logs.memory import MemoryLog
from tests.patience import PATIENCE_S
from tests.worker.faulty_log import FaultyLog
from tests.worker.scripted_source import ScriptedSource, failing, row, script, scripted
from tests.worker.worker_fixture import (
    QUICK,
    RecordedNotices,
    running,
    task_trace,
    until,
    until_state,
)


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    script.reset()
    yield
    script.released.set()


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


@pytest.mark.parametrize("exactly_once", [False, True])
async def test_a_failure_while_stopping_is_logged(exactly_once: bool) -> None:
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
        await until_state(worker, "c", "STOPPED", "RUNNING")
        log.refused_keys.add(b"k")
        log.release("t")
        [line] = await until(lambda: notices.of("task_failed_while_stopping"))
        assert "refused" in line["reason"]
        await until_state(worker, "c", "STOPPED")
        assert not notices.of("task_failed")


class UnmeasurableLog(MemoryLog):
    """Log with a defect: it cannot give the end of the offsets topic alone."""

    async def ends(self, topics: Iterable[str]) -> Ends:
        """Answer, or fail as no log should."""
        topics = [*topics]
        if topics == ["connect-offsets"]:
            raise RuntimeError("a defect")
        return await super().ends(topics)


async def test_tasks_that_cannot_be_prepared() -> None:
    """Tasks are FAILED if their preparation fails, for any reason."""
    notices = RecordedNotices()
    async with running(ScriptedSource, log=UnmeasurableLog(), notices=notices) as worker:
        await worker.plane.execute(CreateConnector("c", scripted()))
        await until_state(worker, "c", "RUNNING", "FAILED")
        assert "a defect" in task_trace(worker, "c")
        [line] = notices.of("task_failed")
        assert line["reason"] == "RuntimeError('a defect')"
