"""Life of a running source task: Kafka's `WorkerSourceTaskTest`, and the waits at its end.

docs/kafka-unit-tests.md says which test is which.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from controlplane.connect import RetriableError, SourceTask
from controlplane.core.codec.status import decode_status
from controlplane.core.commands import (
    CreateConnector,
    PauseConnector,
    RestartTask,
    ResumeConnector,
    StopConnector,
)
from controlplane.core.records import Target, TaskStatus
from controlplane.logs.log import Fenced, LogNotUsable, LogUnavailable
from controlplane.worker.settings import ProducerLimits
from controlplane.worker.worker import ConnectWorker
from tests.patience import PATIENCE_S
from tests.worker.faulty_log import FaultyLog
from tests.worker.scripted_source import ScriptedSource, begin, failing, row, script, scripted
from tests.worker.worker_fixture import (
    QUICK,
    RecordedNotices,
    entries_in,
    offsets,
    running,
    task_trace,
    until,
    until_state,
    until_values,
    values_in,
)

COMMITTED = "{'p': 1}"
AWAY = LogUnavailable("away")
RARELY = msgspec.structs.replace(QUICK, offset_flush_interval_ms=3_600_000)
"""Runtime without commits at intervals: only at the end of a task."""


async def task_history(worker: ConnectWorker) -> list[str]:
    """States that the task has reported, in order."""
    plane = worker.plane
    records = [
        decode_status(entry.key, entry.value, plane.state.profile)
        for entry in await entries_in(plane.log, plane.state.topics.status)
    ]
    return [
        record.status.state.value
        for record in records
        if isinstance(record, TaskStatus) and record.status is not None
    ]


async def test_a_task_that_is_created_paused_does_not_start() -> None:
    """The status is PAUSED; the task starts when it is resumed."""
    async with running(ScriptedSource) as worker:
        create = CreateConnector("s", scripted(), initial_state=Target.PAUSED)
        await worker.plane.execute(create)
        await until_state(worker, "s", "PAUSED")
        assert script.calls == []
        await worker.plane.execute(ResumeConnector("s"))
        await until_state(worker, "s", "RUNNING", "RUNNING")
        await worker.plane.execute(PauseConnector("s"))
        await until_state(worker, "s", "PAUSED", "PAUSED")
        script.calls.clear()
        await worker.plane.execute(RestartTask("s", 0))
        await until(lambda: "stop" in script.calls)
        await until_state(worker, "s", "PAUSED", "PAUSED")
        assert "start" not in script.calls
        await worker.plane.execute(ResumeConnector("s"))
        await until(lambda: "start" in script.calls)


@pytest.mark.parametrize("exactly_once", [False, True])
async def test_a_task_that_never_started_is_not_called(exactly_once: bool) -> None:
    """The worker calls neither `commit` nor `stop` of a task that was paused all its life."""
    runtime = msgspec.structs.replace(QUICK, exactly_once=exactly_once)
    async with running(ScriptedSource, runtime=runtime) as worker:
        await begin(worker)
        await worker.plane.execute(PauseConnector("s"))
        await until_state(worker, "s", "PAUSED", "PAUSED")
        await worker.plane.execute(RestartTask("s", 0))
        await until(lambda: "stop" in script.calls)
        await until_state(worker, "s", "PAUSED", "PAUSED")
        script.calls.clear()
        await asyncio.sleep(0.05)
        await worker.plane.execute(StopConnector("s"))
        await until_state(worker, "s", "STOPPED")
        assert script.calls == []


async def test_a_pause_ends_the_polls() -> None:
    """Records of earlier polls are sent and committed."""
    async with running(ScriptedSource) as worker:
        script.polls.append([row(1), row(2)])
        await begin(worker)
        await until_values(worker.plane.log, "t", [b"v1", b"v2"])
        await worker.plane.execute(PauseConnector("s"))
        await until_state(worker, "s", "PAUSED", "PAUSED")
        await until(lambda: offsets(worker, "s") == {COMMITTED: {"at": 2}})
        polls = script.calls.count("poll")
        await asyncio.sleep(0.05)
        assert script.calls.count("poll") == polls


async def test_polls_follow_each_other() -> None:
    """Each batch is sent in the order of the polls."""
    async with running(ScriptedSource) as worker:
        script.polls.extend([[row(at)] for at in range(1, 11)])
        await begin(worker)
        await until_values(worker.plane.log, "t", [f"v{at}".encode() for at in range(1, 11)])
        await until(lambda: offsets(worker, "s") == {COMMITTED: {"at": 10}})
        assert script.calls.count("poll") >= 10


async def test_a_failing_poll_commits_sent_records() -> None:
    """The task is FAILED and stopped; `commit` is not called for its last commit."""
    async with running(ScriptedSource, runtime=RARELY) as worker:
        script.polls.extend([[row(1)], failing(ValueError("no poll"))])
        await worker.plane.execute(CreateConnector("s", scripted()))
        await until_state(worker, "s", "RUNNING", "FAILED")
        assert task_trace(worker, "s").splitlines()[-1] == "ValueError: no poll"
        assert offsets(worker, "s") == {COMMITTED: {"at": 1}}
        assert script.calls[-1] == "stop"
        assert "commit" not in script.calls


async def until_acknowledged_during_a_poll(log: FaultyLog, then: Callable[[], Any]) -> None:
    """Let the log acknowledge a record while the next poll waits; `then` ends that poll."""

    async def poll(_: SourceTask) -> Any:
        script.calls.append("waiting")
        while not script.released.is_set():  # noqa: ASYNC110 - another thread sets it
            await asyncio.sleep(0.002)
        return then()

    log.held.add("t")
    script.polls.extend([[row(1)], poll])
    await until(lambda: "waiting" in script.calls and "t" in log.waiting)
    assert not script.acknowledged
    log.release("t")
    await until_values(log, "t", [b"v1"])


async def test_a_task_hears_of_its_records_while_a_poll_waits() -> None:
    """The worker calls `commit_record` at the next interval, once for each record."""
    log = FaultyLog()
    async with running(ScriptedSource, log=log) as worker:
        await begin(worker)
        await until_acknowledged_during_a_poll(log, list)
        await until(lambda: script.acknowledged)
        commits = script.calls.count("commit")
        await until(lambda: script.calls.count("commit") > commits + 2)
        script.released.set()
        await worker.plane.execute(StopConnector("s"))
        await until_state(worker, "s", "STOPPED")
    assert [value for value, _ in script.acknowledged] == ["v1"]


@pytest.mark.parametrize("fails", [False, True])
async def test_a_task_hears_of_its_last_records(*, fails: bool) -> None:
    """The worker calls `commit_record` before `stop`, also if the task has failed."""
    log = FaultyLog()
    at_stop: list[Any] = []
    async with running(ScriptedSource, log=log, runtime=RARELY) as worker:
        script.stopping = lambda: at_stop.extend(script.acknowledged)
        await begin(worker)
        await until_acknowledged_during_a_poll(log, failing(ValueError("no poll")))
        assert not script.acknowledged
        if fails:
            script.released.set()
            await until_state(worker, "s", "RUNNING", "FAILED")
        else:
            await worker.plane.execute(StopConnector("s"))
            await until_state(worker, "s", "STOPPED")
    assert [value for value, _ in at_stop] == ["v1"]


async def test_at_least_once_has_no_transaction() -> None:
    """Without exactly-once support, a task that sets boundaries has no transaction."""
    transactions: list[Any] = []
    script.polls.append(lambda task: transactions.append(task.context.transaction))
    async with running(ScriptedSource) as worker:
        await begin(worker, transaction_boundary="connector")
        await until(lambda: transactions)
    assert transactions == [None]


async def test_a_poll_is_repeated_after_a_retriable_error() -> None:
    """The task stays RUNNING, and a notice names the cause."""
    notices = RecordedNotices()
    script.polls.extend([failing(RetriableError("not now")), [row(1)]])
    async with running(ScriptedSource, notices=notices) as worker:
        await begin(worker)
        await until_values(worker.plane.log, "t", [b"v1"])
        await until_state(worker, "s", "RUNNING", "RUNNING")
    assert notices.of("source_polled_again") == [{"reason": "RetriableError('not now')"}]


async def test_a_poll_that_fails_after_a_stop_is_no_failure() -> None:
    """The status is UNASSIGNED, not FAILED: the task had been stopped before its poll failed."""
    async with running(ScriptedSource) as worker:
        await begin(worker)
        script.polls.append(script.blocked(failing(ValueError("too late"))))
        await until(lambda: "blocked" in script.calls)
        stopping = asyncio.ensure_future(worker.plane.execute(RestartTask("s", 0)))
        await until(lambda: not worker._actors["s"].task_metrics)  # the task is told to stop
        script.released.set()
        await stopping
        await until(lambda: script.calls.count("start") == 2)
        async with asyncio.timeout(PATIENCE_S):  # the state may still have the first RUNNING
            while len(await task_history(worker)) < 3:  # noqa: ASYNC110 - a log sends no event
                await asyncio.sleep(0.005)
        assert await task_history(worker) == ["RUNNING", "UNASSIGNED", "RUNNING"]


async def test_a_poll_that_fails_after_its_task_was_abandoned_reports_nothing() -> None:
    """The task reports nothing more; `stop` is called once, at the end.

    Acknowledged records are committed when the stop begins, within the graceful time-out.
    """
    runtime = msgspec.structs.replace(RARELY, task_shutdown_graceful_timeout_ms=2_000)
    async with running(ScriptedSource, runtime=runtime) as worker:
        script.polls.append([row(1)])
        await begin(worker)
        await until_values(worker.plane.log, "t", [b"v1"])
        script.polls.append(script.blocked(failing(ValueError("too late"))))
        await until(lambda: "blocked" in script.calls)
        await worker.plane.execute(StopConnector("s"))
        await until_state(worker, "s", "STOPPED")
        script.released.set()
        await until(lambda: script.calls[-1] == "stop")
        assert await task_history(worker) == ["RUNNING"]
        assert offsets(worker, "s") == {COMMITTED: {"at": 1}}
    assert script.calls.count("stop") == 1


@pytest.mark.parametrize("nothing", [None, []])
async def test_polls_without_records_are_followed_by_commits(nothing: Any) -> None:
    """The task continues; `commit` is called after each interval without records, too."""
    async with running(ScriptedSource) as worker:
        script.polls.extend([nothing] * 3)
        await begin(worker)
        await until(lambda: script.calls.count("commit") >= 2)
        assert offsets(worker, "s") == {}


async def test_a_failed_commit_is_repeated() -> None:
    """The task continues; the next commit has the offsets, and newer ones win."""
    log, notices = FaultyLog(), RecordedNotices()
    async with running(ScriptedSource, log=log, notices=notices) as worker:
        await begin(worker)
        topic = worker.plane.state.topics.offsets
        log.failures[topic] = [LogNotUsable("no commit")]
        script.polls.append([row(1), row(1, part=2)])
        await until(lambda: notices.of("offsets_not_committed"))
        script.polls.append([row(2)])
        await until(lambda: len(offsets(worker, "s")) == 2)
        await until(lambda: offsets(worker, "s")[COMMITTED] == {"at": 2})
        assert offsets(worker, "s")["{'p': 2}"] == {"at": 1}
        await until_state(worker, "s", "RUNNING", "RUNNING")


async def test_a_commit_that_takes_too_long_is_repeated() -> None:
    """After `offset.flush.timeout.ms` the task continues, and commits again."""
    log, notices = FaultyLog(), RecordedNotices()
    runtime = msgspec.structs.replace(QUICK, offset_flush_timeout_ms=20)
    async with running(ScriptedSource, log=log, notices=notices, runtime=runtime) as worker:
        await begin(worker)
        topic = worker.plane.state.topics.offsets
        log.held.add(topic)
        script.polls.append([row(1)])
        await until(lambda: notices.of("offsets_not_committed"))
        assert notices.of("offsets_not_committed")[0]["reason"] == "the commit timed out"
        log.release(topic)
        await until(lambda: offsets(worker, "s") == {COMMITTED: {"at": 1}})


async def test_a_slow_copy_does_not_repeat_a_commit() -> None:
    """A slow copy to the worker's topic repeats no commit to the connector's own topic."""
    log, notices = FaultyLog(), RecordedNotices()
    runtime = msgspec.structs.replace(QUICK, offset_flush_timeout_ms=2_000)
    async with running(ScriptedSource, log=log, notices=notices, runtime=runtime) as worker:
        await begin(worker, offsets_storage_topic="own")
        log.held.add(worker.plane.state.topics.offsets)
        script.polls.append([row(1)])
        await until(lambda: notices.of("offsets_copy_not_written"))
        assert not notices.of("offsets_not_committed")
        assert offsets(worker, "s") == {COMMITTED: {"at": 1}}
        log.release(worker.plane.state.topics.offsets)
        commits = script.calls.count("commit")
        await until(lambda: script.calls.count("commit") > commits + 2)
        assert len(await entries_in(log, "own")) == 1


async def test_sends_are_retried() -> None:
    """Records wait during an outage of the log; then they arrive once and in order."""
    log = FaultyLog()
    log.failures["t"] = [AWAY] * 3
    script.polls.extend([[row(1), row(2), row(3)], [row(4)]])
    async with running(ScriptedSource, log=log) as worker:
        await begin(worker)
        await until(lambda: offsets(worker, "s") == {COMMITTED: {"at": 4}})
        assert await values_in(log, "t") == [b"v1", b"v2", b"v3", b"v4"]


@pytest.mark.parametrize(
    ("cause", "words"),
    [({"kafka_partition": 9}, "has no partition 9"), ({"value": "x" * 2_000}, "max.request.size")],
)
async def test_a_record_that_the_log_refuses_fails_the_task(
    cause: dict[str, Any], words: str
) -> None:
    """Only records before the refused one are committed."""
    runtime = msgspec.structs.replace(QUICK, producer=ProducerLimits(max_request_size=1_000))
    script.polls.append([row(1), row(2, **cause), row(3)])
    async with running(ScriptedSource, runtime=runtime) as worker:
        await worker.plane.execute(CreateConnector("s", scripted()))
        await until_state(worker, "s", "RUNNING", "FAILED")
        trace = task_trace(worker, "s")
        assert "Unrecoverable exception from producer send callback" in trace
        assert words in trace
        assert offsets(worker, "s") == {COMMITTED: {"at": 1}}


async def test_a_tolerated_send_failure_counts_as_sent() -> None:
    """With `errors.tolerance=all` the offset is committed; the task gets no position for it."""
    notices = RecordedNotices()
    script.polls.append([row(1), row(2, kafka_partition=9)])
    async with running(ScriptedSource, notices=notices) as worker:
        await begin(worker, errors_tolerance="all", errors_log_enable="true")
        await until(lambda: offsets(worker, "s") == {COMMITTED: {"at": 2}})
        await until(lambda: len(script.acknowledged) == 2)
        (_, sent), (value, lost) = script.acknowledged
        assert sent is not None
        assert (value, lost) == ("v2", None)
        assert await values_in(worker.plane.log, "t") == [b"v1"]
    (unsent,) = notices.of("record_not_sent")
    assert unsent == {"topic": "t", "reason": "Topic t has no partition 9: it has 1"}
    assert [line["stage"] for line in notices.of("record_failed")] == ["KAFKA_PRODUCE"]


async def test_an_outage_is_not_tolerated() -> None:
    """An outage that outlasts the time limit of a record fails the task; no offset passes it."""
    log = FaultyLog()
    limits = ProducerLimits(delivery_timeout_ms=20, retry_first_ms=1)
    runtime = msgspec.structs.replace(QUICK, producer=limits)
    async with running(ScriptedSource, log=log, runtime=runtime) as worker:
        await begin(worker, errors_tolerance="all")
        log.failures["t"] = [AWAY] * 1_000
        script.polls.append([row(1)])
        await until_state(worker, "s", "RUNNING", "FAILED")
        assert "producer send callback: away" in task_trace(worker, "s")
        assert offsets(worker, "s") == {}


async def test_a_topic_that_cannot_be_created_fails_the_task_at_once() -> None:
    """The end of the task does not wait for records that were never sent."""
    log = FaultyLog()
    runtime = msgspec.structs.replace(QUICK, offset_flush_timeout_ms=3_600_000)
    async with running(ScriptedSource, log=log, runtime=runtime) as worker:
        await begin(
            worker,
            topic_creation_default_partitions="1",
            topic_creation_default_replication_factor="1",
        )
        log.creation_failures.append(LogNotUsable("refused"))
        script.polls.append([row(1)])
        await until_state(worker, "s", "RUNNING", "FAILED")
        assert "refused" in task_trace(worker, "s")


async def test_a_refusal_by_a_newer_process_is_not_tolerated() -> None:
    """The task fails, and does not hear that its record was dropped: it could remove the record."""
    log = FaultyLog()
    async with running(ScriptedSource, log=log) as worker:
        await begin(worker, errors_tolerance="all")
        log.failures["t"] = [Fenced("a newer process")]
        script.polls.append([row(1)])
        await until_state(worker, "s", "RUNNING", "FAILED")
        assert "producer send callback: a newer process" in task_trace(worker, "s")
        assert script.acknowledged == []
        assert offsets(worker, "s") == {}


async def test_a_stop_during_a_slow_start_prevents_polls() -> None:
    """The task is neither polled nor committed; it is stopped once its start has returned."""
    script.starting = script.released.wait
    async with running(ScriptedSource) as worker:
        await worker.plane.execute(CreateConnector("s", scripted()))
        await until(lambda: script.calls == ["start"])
        stopping = asyncio.ensure_future(worker.plane.execute(StopConnector("s")))
        await until(lambda: not worker._actors["s"].task_metrics)  # the task is told to stop
        script.released.set()
        await stopping
        await until_state(worker, "s", "STOPPED")
        await until(lambda: "stop" in script.calls)
        assert "poll" not in script.calls
        assert offsets(worker, "s") == {}


async def test_an_end_waits_for_records_in_flight() -> None:
    """The last commit includes the offsets of records in flight."""
    log = FaultyLog()
    async with running(ScriptedSource, log=log, runtime=RARELY) as worker:
        await begin(worker)
        log.held.add("t")
        script.polls.append([row(1), row(1, part=2)])
        await until(lambda: "t" in log.waiting)
        stopping = asyncio.ensure_future(worker.plane.execute(StopConnector("s")))
        await until(lambda: not worker._actors["s"].task_metrics)  # the task is told to stop
        assert offsets(worker, "s") == {}
        log.release("t")
        await stopping
        await until(lambda: len(offsets(worker, "s")) == 2)


async def test_an_end_waits_no_longer_than_its_time_out() -> None:
    """Records without an acknowledgement within `offset.flush.timeout.ms` give no offset."""
    log = FaultyLog()
    runtime = msgspec.structs.replace(
        RARELY, offset_flush_timeout_ms=300, task_shutdown_graceful_timeout_ms=1_000
    )
    async with running(ScriptedSource, log=log, runtime=runtime) as worker:
        await begin(worker)
        script.polls.append([row(1, part=2, topic="quick")])
        await until(lambda: script.acknowledged)
        log.held.add("t")
        script.polls.append([row(1)])
        await until(lambda: "t" in log.waiting)
        await worker.plane.execute(StopConnector("s"))
        await until_state(worker, "s", "STOPPED")
        await until(lambda: offsets(worker, "s") == {"{'p': 2}": {"at": 1}})
        log.release("t")
