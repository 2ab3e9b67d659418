"""Life of a source task with transactions: Kafka's `ExactlyOnceWorkerSourceTaskTest`.

docs/kafka-unit-tests.md says which test is which.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest

from controlplane.connect import RecordHeader, SourceTask
from controlplane.connect.transforms import Transformation
from controlplane.core.commands import (
    CreateConnector,
    PauseConnector,
    RestartTask,
    ResumeConnector,
    StopConnector,
)
from controlplane.core.context import DecisionSettings
from controlplane.core.records import Target
from controlplane.logs.log import LogNotUsable, LogUnavailable
from controlplane.plane import Settings
from controlplane.worker.connector_classes import class_name
from controlplane.worker.settings import ProducerLimits, RuntimeSettings
from controlplane.worker.tasks import exactly_once
from controlplane.worker.worker import ConnectWorker
from tests.worker.faulty_log import FaultyLog
from tests.worker.scripted_source import ScriptedSource, begin, failing, row, script, scripted
from tests.worker.worker_fixture import (
    QUICK,
    closed_producers,
    offsets,
    running,
    task_trace,
    until,
    until_state,
    until_values,
    values_in,
)

EXACTLY_ONCE = msgspec.structs.replace(QUICK, exactly_once=True)
SETTINGS = Settings(exactly_once=True, worker=DecisionSettings(exactly_once_source=True))
COMMITTED = "{'p': 1}"
NEVER = {"transaction_boundary": "interval", "transaction_boundary_interval_ms": "3600000"}
"""Config of a connector whose transactions end with its task only."""


def worker_of(
    log: FaultyLog | None = None,
    runtime: RuntimeSettings = EXACTLY_ONCE,
    others: Iterable[type[Any]] = (),
) -> Any:
    """Run a worker with exactly-once support."""
    log = log or FaultyLog()
    return running(ScriptedSource, log=log, runtime=runtime, settings=SETTINGS, others=others)


async def ask(worker: ConnectWorker, request: Callable[[Any], None], batch: list[Any]) -> None:
    """Let the task request a boundary, return a batch, and be polled again."""

    def poll(task: SourceTask) -> list[Any]:
        request(task.context.transaction)
        return batch

    script.polls.append(poll)
    await until(lambda: not script.polls)
    polls = script.calls.count("poll")
    await until(lambda: script.calls.count("poll") > polls + 1)


async def test_a_task_that_is_created_paused_does_not_start() -> None:
    """The task writes no record, and starts when it is resumed."""
    async with worker_of() as worker:
        create = CreateConnector("s", scripted(), initial_state=Target.PAUSED)
        await worker.plane.execute(create)
        await until_state(worker, "s", "PAUSED")
        assert script.calls == []
        script.polls.append([row(1)])
        await worker.plane.execute(ResumeConnector("s"))
        await until_values(worker.plane.log, "t", [b"v1"])


async def test_a_pause_commits() -> None:
    """A pause commits the open transaction, unless the connector sets the boundaries."""
    async with worker_of() as worker:
        await begin(worker, **NEVER)
        script.polls.append([row(1), row(2)])
        await until(lambda: not script.polls)
        assert await values_in(worker.plane.log, "t") == []
        await worker.plane.execute(PauseConnector("s"))
        await until_state(worker, "s", "PAUSED", "PAUSED")
        assert await values_in(worker.plane.log, "t") == [b"v1", b"v2"]
        await until(lambda: offsets(worker, "s") == {COMMITTED: {"at": 2}})


async def test_a_fencing_that_fails_fails_the_task() -> None:
    """A task is FAILED, and not started, if earlier tasks of its connector cannot be fenced."""
    log = FaultyLog()
    async with worker_of(log) as worker:
        await begin(worker)
        await worker.plane.execute(StopConnector("s"))
        await until_state(worker, "s", "STOPPED")
        script.calls.clear()
        log.refused_keys.add(b"tasks-fencing-s")
        await worker.plane.execute(ResumeConnector("s"))
        await until_state(worker, "s", "RUNNING", "FAILED")
        assert "Failed to fence zombie tasks" in task_trace(worker, "s")
        assert script.calls == []


async def test_offsets_that_cannot_be_read_fail_the_task() -> None:
    """The task is not started, because it would begin at a wrong place."""
    log = FaultyLog()
    async with worker_of(log) as worker:
        await begin(worker)
        await worker.plane.execute(StopConnector("s"))
        await until_state(worker, "s", "STOPPED")
        script.calls.clear()
        log.without_ends.add(worker.plane.state.topics.offsets)
        await worker.plane.execute(ResumeConnector("s"))
        await until_state(worker, "s", "RUNNING", "FAILED")
        assert "no ends" in task_trace(worker, "s")
        assert script.calls == []


async def test_each_poll_is_one_transaction() -> None:
    """The records of a poll and their offset are one append."""
    log = FaultyLog()
    script.polls.extend([[row(1), row(2)], [row(3)]])
    async with worker_of(log) as worker:
        await begin(worker)
        await until(lambda: offsets(worker, "s") == {COMMITTED: {"at": 3}})
        offsets_topic = worker.plane.state.topics.offsets
        written = [topics for topics in log.appended if offsets_topic in topics]
        assert written == [["t", "t", offsets_topic], ["t", offsets_topic]]


async def test_an_interval_ends_a_transaction() -> None:
    """One transaction has several polls; its commit waits for the interval."""
    async with worker_of() as worker:
        await begin(worker, transaction_boundary="interval", transaction_boundary_interval_ms="150")
        script.polls.extend([[row(1)], [row(2)]])
        await until_values(worker.plane.log, "t", [b"v1", b"v2"])
        await until(lambda: offsets(worker, "s") == {COMMITTED: {"at": 2}})
        await until(lambda: script.calls.count("commit") >= 2)
        # With a commit after each poll, there would be one more poll at most.
        assert script.calls.count("poll") > script.calls.count("commit") + 1


def small(transaction_max_bytes: int) -> RuntimeSettings:
    """Settings with this limit of a transaction."""
    return msgspec.structs.replace(EXACTLY_ONCE, transaction_max_bytes=transaction_max_bytes)


async def test_a_large_transaction_ends_before_its_interval() -> None:
    """A transaction ends at half of the limit of its bytes. Before, the task failed."""
    async with worker_of(runtime=small(40)) as worker:
        await begin(worker, **NEVER)
        script.polls.extend([row(number, value="x" * 15)] for number in range(1, 6))
        await until(lambda: offsets(worker, "s") == {COMMITTED: {"at": 4}})
        assert await values_in(worker.plane.log, "t") == [b"x" * 15] * 4


async def test_many_records_end_a_transaction_before_its_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Small records take memory, too."""
    monkeypatch.setattr(exactly_once, "INTERVAL_RECORDS", 3)
    async with worker_of() as worker:
        await begin(worker, **NEVER)
        script.polls.extend([[row(1), row(2)], [row(3), row(4)], [row(5)]])
        await until(lambda: offsets(worker, "s") == {COMMITTED: {"at": 4}})
        assert len(await values_in(worker.plane.log, "t")) == 4


async def test_headers_count_in_the_limit_of_a_transaction() -> None:
    """Headers wait in memory, as keys and values do."""
    headers = (RecordHeader("h", "x" * 100),)
    script.polls.append([row(1, headers=headers)])
    async with worker_of(runtime=small(100)) as worker:
        await worker.plane.execute(CreateConnector("s", scripted()))
        await until_state(worker, "s", "RUNNING", "FAILED")
        assert "The transaction exceeds 100 bytes" in task_trace(worker, "s")


async def test_polls_without_records_commit() -> None:
    """`commit` is called after each empty poll; no record is written."""
    async with worker_of() as worker:
        script.polls.extend([[], None, []])
        await begin(worker)
        await until(lambda: script.calls.count("commit") >= 3)
        assert "t" not in await worker.plane.log.topics()
        assert offsets(worker, "s") == {}


FIRST, SECOND = row(1), row(2)

BOUNDARIES: list[tuple[str, Callable[[Any], None], list[bytes], int]] = [
    ("commit of the batch", lambda transaction: transaction.commit(), [b"v1", b"v2"], 2),
    ("commit of a record", lambda transaction: transaction.commit(FIRST), [b"v1"], 1),
    ("abort of the batch", lambda transaction: transaction.abort(), [], 2),
    ("abort of a record", lambda transaction: transaction.abort(FIRST), [], 1),
]


@pytest.mark.parametrize(
    ("request_", "values", "at"),
    [case[1:] for case in BOUNDARIES],
    ids=[case[0] for case in BOUNDARIES],
)
async def test_only_a_requested_boundary_ends_a_transaction(
    request_: Callable[[Any], None], values: list[bytes], at: int
) -> None:
    """A requested boundary alone ends a transaction; offsets of aborted records are committed."""
    async with worker_of() as worker:
        await begin(worker, transaction_boundary="connector")
        await ask(worker, request_, [FIRST, SECOND])
        await until(lambda: offsets(worker, "s") == {COMMITTED: {"at": at}})
        assert await values_in(worker.plane.log, "t") == values
        await ask(worker, lambda _: None, [row(3)])
        await worker.plane.execute(StopConnector("s"))
        await until_state(worker, "s", "STOPPED")
        assert offsets(worker, "s") == {COMMITTED: {"at": at}}
        assert await values_in(worker.plane.log, "t") == values


class Unwritable:
    """Value that no converter takes."""

    def __str__(self) -> str:
        raise ValueError("cannot be written")


class DropFirst(Transformation):
    """Transformation that drops the record `v1`."""

    def apply(self, record: Any) -> Any:
        """Drop the record `v1` and keep all others."""
        return None if record.value == "v1" else record


async def test_dropped_records_are_acknowledged_at_once() -> None:
    """A filtered record does not wait for the transaction; one that is sent does."""
    config = {"transforms": "f", "transforms_f_type": class_name(DropFirst)}
    script.polls.append([row(1), row(2)])
    async with worker_of(others=[DropFirst]) as worker:
        await begin(worker, **NEVER, **config)
        await until(lambda: script.acknowledged)
        assert script.acknowledged == [("v1", None)]
        await worker.plane.execute(StopConnector("s"))
        await until_state(worker, "s", "STOPPED")
        assert [value for value, _ in script.acknowledged] == ["v1", "v2"]
        assert await values_in(worker.plane.log, "t") == [b"v2"]


async def test_aborted_records_are_acknowledged() -> None:
    """The task learns of aborted records, without a position."""
    async with worker_of() as worker:
        await begin(worker, transaction_boundary="connector")
        await ask(worker, lambda transaction: transaction.abort(), [row(1)])
        assert script.acknowledged == [("v1", None)]


async def test_an_empty_transaction_is_aborted() -> None:
    """The abort writes no record; the commit before it stays."""
    async with worker_of() as worker:
        await begin(worker, transaction_boundary="connector")
        await ask(worker, lambda transaction: transaction.commit(), [row(1)])
        await ask(worker, lambda transaction: transaction.abort(), [])
        assert await values_in(worker.plane.log, "t") == [b"v1"]
        assert offsets(worker, "s") == {COMMITTED: {"at": 1}}
        await until_state(worker, "s", "RUNNING", "RUNNING")


@pytest.mark.parametrize(("last", "values"), [("commit", [b"v1", b"v2"]), ("abort", [])])
async def test_the_boundary_of_the_last_record_wins(last: str, values: list[bytes]) -> None:
    """The boundary of the last record wins over the one of its batch; the task runs on."""

    def request(transaction: Any) -> None:
        other = "abort" if last == "commit" else "commit"
        getattr(transaction, other)()
        getattr(transaction, last)(SECOND)

    async with worker_of() as worker:
        await begin(worker, transaction_boundary="connector")
        await ask(worker, request, [FIRST, SECOND])
        await until(lambda: offsets(worker, "s") == {COMMITTED: {"at": 2}})
        assert await values_in(worker.plane.log, "t") == values
        await until_state(worker, "s", "RUNNING", "RUNNING")


async def test_a_commit_that_fails_fails_the_task() -> None:
    """Records and offsets are one append: the log has neither, also after the end of the task."""
    log = FaultyLog()
    async with worker_of(log) as worker:
        await begin(worker)
        log.failures[worker.plane.state.topics.offsets] = [LogNotUsable("no commit")]
        script.polls.append([row(1)])
        await until_state(worker, "s", "RUNNING", "FAILED")
        trace = task_trace(worker, "s")
        assert "The transaction could not be committed: no commit" in trace
        assert await values_in(log, "t") == []
        assert offsets(worker, "s") == {}


async def test_a_transaction_waits_for_the_log() -> None:
    """The next poll waits until the transaction is repeated after the outage.

    The log has each record once, in order.
    """
    log = FaultyLog()
    appended_before_poll: list[list[str]] = []

    def poll(_: SourceTask) -> Any:
        appended_before_poll.extend(topics for topics in log.appended if "t" in topics)
        return [row(3)]

    async with worker_of(log) as worker:
        await begin(worker)
        log.failures["t"] = [LogUnavailable("away")] * 3
        script.polls.extend([[row(1), row(2)], poll])
        await until(lambda: offsets(worker, "s") == {COMMITTED: {"at": 3}})
        assert appended_before_poll == [["t", "t", worker.plane.state.topics.offsets]]
        assert await values_in(log, "t") == [b"v1", b"v2", b"v3"]


@pytest.mark.parametrize(
    ("cause", "words"),
    [({"kafka_partition": 9}, "has no partition 9"), ({"value": "x" * 2_000}, "max.request.size")],
)
async def test_a_record_that_the_log_refuses_fails_the_task(
    cause: dict[str, Any], words: str
) -> None:
    """The task is FAILED, and nothing of the transaction is in the log."""
    producer = ProducerLimits(max_request_size=1_000)
    runtime = msgspec.structs.replace(EXACTLY_ONCE, producer=producer)
    script.polls.append([row(1), row(2, **cause)])
    async with worker_of(runtime=runtime) as worker:
        await worker.plane.execute(CreateConnector("s", scripted()))
        await until_state(worker, "s", "RUNNING", "FAILED")
        assert words in task_trace(worker, "s")
        assert await values_in(worker.plane.log, "t") == []
        assert offsets(worker, "s") == {}


async def test_a_failing_poll_commits_nothing() -> None:
    """Records of the open transaction are dropped; the task is stopped."""
    script.polls.extend([[row(1)], failing(ValueError("no poll"))])
    async with worker_of() as worker:
        await worker.plane.execute(CreateConnector("s", scripted(**NEVER)))
        await until_state(worker, "s", "RUNNING", "FAILED")
        assert "no poll" in task_trace(worker, "s")
        assert await values_in(worker.plane.log, "t") == []
        assert offsets(worker, "s") == {}
        assert script.calls[-1] == "stop"


@pytest.mark.parametrize("boundary", ["poll", "connector"])
async def test_a_failed_record_ends_no_transaction(
    boundary: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a boundary that the connector requests before the failed record ends a transaction.

    `update_offsets` is not called there: its answer could cover the failed record.
    """
    hook_calls: list[Any] = []

    def update_offsets(_: SourceTask, offsets: Any) -> None:
        hook_calls.append(offsets)

    def poll(task: SourceTask) -> list[Any]:
        if boundary == "connector":
            task.context.transaction.commit(FIRST)  # type: ignore[union-attr]
        hook_calls.clear()
        return [FIRST, row(2, value=Unwritable())]

    monkeypatch.setattr(ScriptedSource.task, "update_offsets", update_offsets)
    script.polls.append(poll)
    async with worker_of() as worker:
        config = scripted(transaction_boundary=boundary)
        await worker.plane.execute(CreateConnector("s", config))
        await until_state(worker, "s", "RUNNING", "FAILED")
        assert "cannot be written" in task_trace(worker, "s")
        is_requested = boundary == "connector"
        assert await values_in(worker.plane.log, "t") == ([b"v1"] if is_requested else [])
        assert offsets(worker, "s") == ({COMMITTED: {"at": 1}} if is_requested else {})
        assert hook_calls == []


async def test_a_poll_that_fails_after_a_stop_is_no_failure() -> None:
    """The task is not FAILED, because it had been stopped before its poll failed; it runs again."""
    async with worker_of() as worker:
        await begin(worker)
        script.polls.append(script.blocked(failing(ValueError("too late"))))
        await until(lambda: "blocked" in script.calls)
        restarting = asyncio.ensure_future(worker.plane.execute(RestartTask("s", 0)))
        await until(lambda: not worker._actors["s"].task_metrics)  # the task is told to stop
        script.released.set()
        await restarting
        await until(lambda: script.calls.count("start") == 2)
        await until_state(worker, "s", "RUNNING", "RUNNING")
        assert task_trace(worker, "s") == ""


@pytest.mark.parametrize("then", [failing(ValueError("too late")), lambda: [row(1)]])
async def test_an_abandoned_task_commits_nothing(
    then: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The producer is closed; the log gets no record of the last poll; the thread ends."""
    closed = closed_producers(monkeypatch)
    runtime = msgspec.structs.replace(EXACTLY_ONCE, task_shutdown_graceful_timeout_ms=20)
    async with worker_of(runtime=runtime) as worker:
        await begin(worker)
        script.polls.append(script.blocked(then))
        await until(lambda: "blocked" in script.calls)
        await worker.plane.execute(StopConnector("s"))
        await until_state(worker, "s", "STOPPED")
        await until(lambda: closed == ["abandoned"])  # it may follow the status
        script.released.set()
        await until(lambda: script.calls[-1] == "stop")
        assert "t" not in await worker.plane.log.topics()
        assert offsets(worker, "s") == {}


async def test_a_stop_during_a_slow_start_prevents_polls() -> None:
    """The task is not polled, and nothing is sent."""
    script.starting = script.released.wait
    async with worker_of() as worker:
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
