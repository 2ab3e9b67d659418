"""Exceptions whose texts block, and hold up neither REST nor other connectors."""

import asyncio
from typing import Any

import pytest

from controlplane.connect import Sink, Source
from controlplane.connect.transforms import Transformation
from controlplane.failure_text import message_of
from controlplane.worker import failure_reader
from controlplane.worker.failure_reader import text_in_time
from controlplane.worker.log_context import connector_logs
from controlplane.worker.worker import ConnectWorker
from tests.patience import PATIENCE_S
from tests.worker.bad_connectors import (
    BadSink,
    BadSource,
    BlockingText,
    act,
    block_text,
    calls,
    counted,
    create_bad,
    delete,
    plan,
    released,
    rest_of,
    with_neighbour,
)
from tests.worker.failing_records import WITH_HEADERS, transformed_by
from tests.worker.worker_fixture import (
    RecordedNotices,
    connector_status,
    task_trace,
    until,
    until_state,
)

TIMED_OUT = "BlockingText: <exception text timed out>"


class BlockingNotes(Exception):
    """Exception whose notes block."""

    @property
    def __notes__(self) -> list[str]:  # type: ignore[override]
        """Block, as a note that is made on demand may."""
        return [block_text()]


class BlockingCause(Exception):
    """Exception whose cause blocks."""

    @property
    def __cause__(self) -> BaseException:  # type: ignore[override]
        """Block."""
        return ValueError(block_text())


class BlockingWatch(Source):
    """Source whose `watch` raises, or reports, an exception whose text blocks."""

    async def watch(self, connector: Any) -> None:
        """Fail as the plan says."""
        if plan["where"] == "fail":
            connector.fail(BlockingText())
            await asyncio.Event().wait()
        act("watch")

    def split(self, *_: Any) -> Any:
        """Return no task configs."""
        return []


@pytest.fixture(autouse=True)
def _short_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failure_reader, "TIMEOUT_S", 0.03)


async def _check_neighbour(worker: ConnectWorker) -> None:
    """Check that REST answers, and that the neighbour works, while the text blocks."""
    await until(lambda: "text" in calls)
    before = counted(worker)
    async with rest_of(worker) as client:
        assert (await client.get("/connectors/good/status")).status_code == 200
    await until(lambda: counted(worker) > before)
    assert "text ended" not in calls


@pytest.mark.parametrize("raised", [BlockingText, BlockingNotes, BlockingCause])
@pytest.mark.parametrize("where", ["task.init", "task.start", "task.poll", "sink.start"])
async def test_a_task_with_a_blocking_text_is_failed(where: str, raised: type) -> None:
    """The task is FAILED, with the class of the exception as its trace."""
    plan.update(where=where, how="blocking text", raised=raised)
    connector = BadSink if where.startswith("sink") else BadSource
    notices = RecordedNotices()
    async with with_neighbour(BadSource, BadSink, notices=notices) as worker:
        await create_bad(worker, connector)
        await _check_neighbour(worker)
        await until_state(worker, "bad", "RUNNING", "FAILED")
        line = notices.of("task_failed")[0]
        timed_out = f"{raised.__name__}: <exception text timed out>"
        assert (task_trace(worker, "bad"), line["trace"], line["reason"]) == (timed_out,) * 3
        await delete(worker, "bad")
        assert "text ended" not in calls


@pytest.mark.parametrize("where", ["connector.init", "connector.start"])
async def test_a_connector_with_a_blocking_text_is_failed(where: str) -> None:
    """The connector is FAILED, and its restart answers with the class of the exception."""
    plan.update(where=where, how="blocking text")
    async with with_neighbour(BadSource) as worker:
        await create_bad(worker, BadSource)
        await _check_neighbour(worker)
        await until_state(worker, "bad", "FAILED")
        async with rest_of(worker) as client:
            answer = await client.post("/connectors/bad/restart")
        assert (answer.status_code, TIMED_OUT in answer.json()["message"]) == (500, True)
        status = connector_status(worker, "bad")
        assert status is not None
        assert status.trace == TIMED_OUT
        await delete(worker, "bad")
        assert "text ended" not in calls


@pytest.mark.parametrize("where", ["watch", "fail"])
async def test_a_watch_with_a_blocking_text_is_failed(where: str) -> None:
    """The connector is FAILED, whether `watch` raises the exception or reports it."""
    plan.update(where=where, how="blocking text")
    async with with_neighbour(BlockingWatch) as worker:
        await create_bad(worker, BlockingWatch)
        await _check_neighbour(worker)
        await until_state(worker, "bad", "FAILED")
        status = connector_status(worker, "bad")
        assert status is not None
        assert status.trace == TIMED_OUT
        await delete(worker, "bad")
        assert "text ended" not in calls


@pytest.mark.parametrize(
    ("where", "event"),
    [
        ("task.commit", "commit_hook_failed"),
        ("task.commit_record", "acked_hook_failed"),
        ("task.stop", "task_stop_failed"),
        ("connector.task_configs", "task_configs_not_published"),
        ("connector.stop", "connector_stop_failed"),
        ("sink.flush", "sink_not_flushed"),
    ],
)
async def test_a_logged_failure_with_a_blocking_text_is_its_class(where: str, event: str) -> None:
    """The log line names the class of the exception."""
    plan.update(where=where, how="blocking text")
    notices = RecordedNotices()
    connector = BadSink if where.startswith("sink") else BadSource
    async with with_neighbour(BadSource, BadSink, notices=notices) as worker:
        await create_bad(worker, connector)
        if where.endswith("stop"):
            await until_state(worker, "bad", "RUNNING", "RUNNING")
            async with rest_of(worker) as client:
                await client.put("/connectors/bad/stop")
        await _check_neighbour(worker)
        await until(lambda: notices.of(event))
        assert notices.of(event)[0]["reason"] == TIMED_OUT
        await delete(worker, "bad")
        assert "text ended" not in calls


class BlockingTransformation(Transformation):
    """Transformation that raises an exception whose text blocks."""

    def apply(self, *_: Any) -> Any:
        """Raise."""
        raise BlockingText


class Accepting(Sink):
    """Sink that takes every record, or reports each with an exception whose text blocks."""

    async def put(self, task: Any, records: Any) -> None:
        """Report the records if the plan says so."""
        for record in records if plan.get("where") == "report" else ():
            await task.report(record, BlockingText())


@pytest.mark.parametrize("where", ["transformation", "report"])
async def test_a_failed_record_with_a_blocking_text_holds_up_its_task_only(where: str) -> None:
    """The task's thread reads the texts: the author may block it."""
    plan.update(where=where)
    config = WITH_HEADERS | {"errors.log.enable": "true"}
    if where == "transformation":
        config |= transformed_by(BlockingTransformation)
    async with with_neighbour(Accepting, others=[BlockingTransformation]) as worker:
        await create_bad(worker, Accepting, **config)
        await _check_neighbour(worker)
        await delete(worker, "bad")
        assert "text ended" not in calls


async def test_a_blocked_context_gets_no_second_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a text blocks, its log context gets classes instead of texts, without a wait.

    Other contexts get texts.
    """
    with connector_logs("blocked"):
        assert await text_in_time(message_of, BlockingText()) == TIMED_OUT
        monkeypatch.setattr(failure_reader, "TIMEOUT_S", PATIENCE_S)
        assert await text_in_time(message_of, ValueError("x")) == (
            "ValueError: <exception text timed out>"
        )
    with connector_logs("other"):
        assert await text_in_time(message_of, ValueError("x")) == "x"
    assert calls == ["text"]
    released.set()
    await until(lambda: "text ended" in calls)
    with connector_logs("blocked"):
        await until(lambda: not failure_reader._blocked)
        assert await text_in_time(message_of, ValueError("x")) == "x"
