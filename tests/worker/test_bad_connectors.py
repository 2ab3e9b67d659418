"""Connectors that raise or hang in every method.

Such a connector is FAILED. Its neighbour continues, REST answers, no half batch is committed, and
the connector can be deleted.
"""

import asyncio

import pytest

from controlplane.core.commands import (
    RestartConnector,
    RestartTask,
    ResumeConnector,
    StopConnector,
)
from tests.conftest import paired
from tests.worker.bad_connectors import (
    FAILS_CONNECTOR,
    FAILS_SINK,
    FAILS_TASK,
    RAISING,
    BadSink,
    BadSource,
    calls,
    check_trace,
    counted,
    create_bad,
    delete,
    ended,
    group_offsets,
    message_of,
    plan,
    released,
    rest_of,
    threads_of,
    with_neighbour,
)
from tests.worker.worker_fixture import (
    RecordedNotices,
    closed_producers,
    connector_status,
    offsets,
    task_states,
    task_trace,
    until,
    until_state,
    values_in,
)

REASONS = {
    "unprintable": "Unprintable: <exception repr() failed>",
    "cancel task": "The connector cancelled its asyncio task at ",
}
"""Reasons in log lines, where they are not the exception's message."""


# --- raising --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("where", "how"), paired(FAILS_CONNECTOR, RAISING))
async def test_a_raising_connector_is_failed(where: str, how: str) -> None:
    """The connector is FAILED with the author's line; its restart fails, too."""
    plan.update(where=where, how=how)
    async with with_neighbour(BadSource) as worker:
        await create_bad(worker, BadSource)
        await until_state(worker, "bad", "FAILED")
        status = connector_status(worker, "bad")
        check_trace(str(status and status.trace), where, how)
        async with rest_of(worker) as client:
            answer = await client.post("/connectors/bad/restart")
            assert answer.status_code == 500
            assert answer.json()["message"].startswith("Failed to start connector: bad")
        plan.clear()
        await worker.plane.execute(RestartConnector("bad"))
        await until_state(worker, "bad", "RUNNING", "RUNNING")
        await delete(worker, "bad")


@pytest.mark.parametrize(("where", "how"), paired([*FAILS_TASK, *FAILS_SINK], RAISING))
async def test_a_raising_task_is_failed(where: str, how: str) -> None:
    """The task is FAILED with the author's line, and runs again after a restart."""
    plan.update(where=where, how=how)
    connector = BadSink if where in FAILS_SINK else BadSource
    async with with_neighbour(BadSource, BadSink) as worker:
        await create_bad(worker, connector)
        await until_state(worker, "bad", "RUNNING", "FAILED")
        check_trace(task_trace(worker, "bad"), where, how)
        assert offsets(worker, "bad") == {}
        assert group_offsets(worker) == {}
        plan.clear()
        await worker.plane.execute(RestartTask("bad", 0))
        await until_state(worker, "bad", "RUNNING", "RUNNING")
        await delete(worker, "bad")


LOGGED = {
    "task.commit": "commit_hook_failed",
    "task.commit_record": "acked_hook_failed",
    "connector.task_configs": "task_configs_not_published",
    "sink.flush": "sink_not_flushed",
    "sink.pre_commit": "sink_not_flushed",
}
"""Methods whose failures are only logged, and the log event."""


@pytest.mark.parametrize(("where", "how"), paired([*LOGGED], RAISING))
async def test_some_failures_are_only_logged(where: str, how: str) -> None:
    """Kafka logs these failures; the task continues, and a sink's offsets stay uncommitted."""
    event = LOGGED[where]
    plan.update(where=where, how=how)
    notices = RecordedNotices()
    connector = BadSink if where.startswith("sink") else BadSource
    async with with_neighbour(BadSource, BadSink, notices=notices) as worker:
        await create_bad(worker, connector)
        await until(lambda: notices.of(event))
        reason = notices.of(event)[0]["reason"]
        assert REASONS.get(how, message_of(where, how)) in reason
        assert group_offsets(worker) == {}
        status = await until(lambda: connector_status(worker, "bad"))
        assert status.state.value == "RUNNING"
        assert "FAILED" not in task_states(worker, "bad")
        if where.startswith("task."):
            await until(lambda: offsets(worker, "bad") == {"{'p': 1}": {"at": 1}})
        await delete(worker, "bad")


@pytest.mark.parametrize(
    ("where", "how"), paired(["connector.stop", "task.stop", "sink.close", "sink.stop"], RAISING)
)
async def test_a_stop_succeeds_whatever_it_raises(where: str, how: str) -> None:
    """A stop succeeds whatever the author's code raises in it."""
    plan.update(where=where, how=how)
    connector = BadSink if where.startswith("sink") else BadSource
    async with with_neighbour(BadSource, BadSink) as worker:
        await create_bad(worker, connector)
        await until_state(worker, "bad", "RUNNING", "RUNNING")
        await worker.plane.execute(StopConnector("bad"))
        await until_state(worker, "bad", "STOPPED")
        await until(lambda: calls == [where])
        await worker.plane.execute(ResumeConnector("bad"))
        await until_state(worker, "bad", "RUNNING", "RUNNING")
        await delete(worker, "bad")


# --- hanging --------------------------------------------------------------------------------------

HANGING = [
    *FAILS_CONNECTOR,
    "connector.task_configs",
    "connector.stop",
    *FAILS_TASK,
    "task.commit",
    "task.commit_record",
    "task.stop",
    *FAILS_SINK,
    "sink.flush",
    "sink.pre_commit",
    "sink.close",
    "sink.stop",
]


@pytest.mark.parametrize(
    ("where", "how"),
    [
        (where, how)
        for where in HANGING
        for how in ("hang", "block")
        if how == "hang" or not where.endswith("init")  # a constructor is no coroutine
    ],
)
async def test_a_hanging_method_blocks_no_command(where: str, how: str) -> None:
    """REST answers meanwhile; the connector can be stopped and deleted; its thread ends later.

    The method still hangs after all commands of the test.
    """
    plan.update(where=where, how=how)
    connector = BadSink if where.startswith("sink") else BadSource
    async with with_neighbour(BadSource, BadSink) as worker:
        await create_bad(worker, connector)
        if where.endswith(("stop", "close")):
            await until_state(worker, "bad", "RUNNING", "RUNNING")
            await worker.plane.execute(StopConnector("bad"))
        await until(lambda: calls)
        async with rest_of(worker) as client:
            for path in ("/", "/connectors/bad", "/connectors/good/status"):
                assert (await client.get(path)).status_code == 200
            assert (await client.get("/connectors/good/tasks/0/status")).json()["state"] == (
                "RUNNING"
            )
            assert ended == []
        await delete(worker, "bad")
        assert ended == []
        released.set()
        await until(lambda: not threads_of("bad"))


async def test_a_resume_during_a_slow_stop_publishes_tasks() -> None:
    """The stop has removed the task configs; the connector publishes them after its start."""
    plan.update(where="connector.stop", how="hang")
    async with with_neighbour(BadSource) as worker:
        await create_bad(worker, BadSource)
        await until_state(worker, "bad", "RUNNING", "RUNNING")
        await worker.plane.execute(StopConnector("bad"))
        await until(lambda: calls and not worker.plane.state.config.task_ids("bad"))
        await worker.plane.execute(ResumeConnector("bad"))
        await asyncio.sleep(0.1)  # the worker has read the resume
        plan.clear()
        released.set()
        await until_state(worker, "bad", "RUNNING", "RUNNING")


async def test_a_busy_loop_does_not_stop_the_worker() -> None:
    """A busy loop still runs after all commands of the test.

    REST has answered, another connector has delivered records, and the busy one is deleted.
    """
    plan.update(where="task.poll", how="spin")
    async with with_neighbour(BadSource) as worker:
        await create_bad(worker, BadSource)
        await until(lambda: calls)
        before = counted(worker)
        async with rest_of(worker) as client:
            assert (await client.get("/connectors/good/status")).status_code == 200
            assert calls == ["task.poll"]
        await until(lambda: counted(worker) > before)
        await delete(worker, "bad")
        assert calls == ["task.poll"]
        released.set()
        await until(lambda: calls == ["task.poll", "task.poll ended"])


async def test_a_hanging_task_commits_nothing_after_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The producer is closed; records of a poll that returns late are not sent, nor committed."""
    closed = closed_producers(monkeypatch)
    plan.update(where="task.poll", how="hang")
    async with with_neighbour(BadSource) as worker:
        await create_bad(worker, BadSource)
        await until(lambda: calls)
        await worker.plane.execute(StopConnector("bad"))
        await until_state(worker, "bad", "STOPPED")
        await until(lambda: closed == ["abandoned"])  # it may follow the status
        plan.clear()
        released.set()
        await until(lambda: not threads_of("task bad"))
        assert await values_in(worker.plane.log, "bad") == []
        assert offsets(worker, "bad") == {}
