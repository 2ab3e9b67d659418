"""Dead letters, and reports of sinks (KIP-298, KIP-610)."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from typing import Any

import msgspec
import pytest

from controlplane import event_loop
from controlplane.connect import SinkRecord, SinkTaskContext
from controlplane.connect.errors import ConnectError
from controlplane.connect.sink import KafkaPartition
from controlplane.core.commands import PauseConnector, StopConnector
from controlplane.core.entry import Entry
from controlplane.worker.connector_classes import class_name
from controlplane.worker.data_topics.clients import ProducerFailure
from controlplane.worker.data_topics.embedded_producer import LogProducer
from controlplane.worker.records.error_reports import ErrorReporter
from controlplane.worker.records.record_errors import (
    ErrorSettings,
    RecordErrors,
    Stage,
    ToleranceExceeded,
)
from controlplane.worker.task_identity import TaskIdentity
from tests.worker.failing_records import (
    DEAD_LETTERS,
    WITH_HEADERS,
    KeepingSink,
    Picky,
    committed,
    create_sink,
    dead_letters,
    put,
    transformed_by,
)
from tests.worker.worker_fixture import (
    QUICK,
    RecordedNotices,
    entries_in,
    produce,
    running,
    task_trace,
    until,
    until_state,
)

# --- dead letters ---------------------------------------------------------------------------------


async def test_dead_letters_are_the_records_of_the_log() -> None:
    """A dead letter has the bytes and the time of its record, and none of our headers."""
    async with running(KeepingSink, others=[Picky]) as worker:
        await produce(worker.plane.log, "t", "a", "bad", "c", "bad2")
        await create_sink(worker, KeepingSink, **transformed_by(Picky), **DEAD_LETTERS)
        await until(lambda: put.get("s") == ["a", "c"])
        letters = await dead_letters(worker, 2)
        assert [(letter.key, letter.value, letter.timestamp) for letter in letters] == [
            (None, b"bad", 1_000),
            (None, b"bad2", 1_000),
        ]
        assert [letter.headers for letter in letters] == [(), ()]


async def test_dead_letters_have_their_reason() -> None:
    """With context headers, a dead letter has all of Kafka's `__connect.errors.*` headers."""
    async with running(KeepingSink, others=[Picky]) as worker:
        await produce(worker.plane.log, "t", "a", "bad")
        await create_sink(worker, KeepingSink, **transformed_by(Picky), **WITH_HEADERS)
        [letter] = await dead_letters(worker, 1)
    headers = {name: (value or b"").decode() for name, value in letter.headers}
    stack = headers.pop("__connect.errors.exception.stacktrace")
    assert "cannot read bad" in stack
    assert "failing_records.py" in stack
    assert headers == {
        "__connect.errors.topic": "t",
        "__connect.errors.partition": "0",
        "__connect.errors.offset": "1",
        "__connect.errors.connector.name": "s",
        "__connect.errors.task.id": "0",
        "__connect.errors.stage": "TRANSFORMATION",
        "__connect.errors.class.name": class_name(Picky),
        "__connect.errors.exception.class.name": "builtins.ValueError",
        "__connect.errors.exception.message": "cannot read bad",
    }


async def test_a_dead_letter_that_cannot_be_written_fails_the_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The worker commits no offset behind a record whose dead letter is lost."""
    _refuse(monkeypatch, "dead")
    async with running(KeepingSink, others=[Picky]) as worker:
        await produce(worker.plane.log, "t", "bad", "c")
        await create_sink(worker, KeepingSink, **transformed_by(Picky), **DEAD_LETTERS)
        await until_state(worker, "s", "RUNNING", "FAILED")
        assert "dead is full" in task_trace(worker, "s")
        assert committed(worker) == {}


async def test_other_tasks_run_while_dead_letters_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search for secrets in very many traces does not hold the event loop."""
    monkeypatch.setattr(event_loop, "SLICE_S", 0.0)
    turns, turns_of_letters = [0], set[int]()

    def excerpt(text: str) -> str:
        turns_of_letters.add(turns[-1])
        return text

    async def take_turns() -> None:
        for turn in count(1):
            turns.append(turn)
            await asyncio.sleep(0)

    errors = RecordErrors(ErrorSettings(dead_letter_topic="dead", dead_letter_headers=True))
    reporter = ErrorReporter(TaskIdentity("s", 0), errors, RecordedNotices(), excerpt)
    entry = Entry("t", 0, 0, 0, None, b"bad")
    failed = errors.failed_record(Stage.TASK_PUT, "Sink", ValueError("bad"), entry)
    taking = asyncio.create_task(take_turns())
    await reporter.report_each([failed] * 5, None)
    taking.cancel()
    assert len(turns_of_letters) > 2


def _refuse(monkeypatch: pytest.MonkeyPatch, topic: str) -> None:
    """Let every append to a topic fail."""
    placed = LogProducer._placed

    async def refusing(producer: LogProducer, record: Any, since_s: float) -> Any:
        if record.topic == topic:
            raise ProducerFailure(f"{topic} is full")
        return await placed(producer, record, since_s)

    monkeypatch.setattr(LogProducer, "_placed", refusing)


# --- report (KIP-610) -----------------------------------------------------------------------------


class Reporting(KeepingSink):
    """Reports bad values in synchronous code, and waits for the report."""

    def put(self, task: SinkTaskContext, records: Sequence[SinkRecord]) -> None:
        """Report bad values and wait; keep the others."""
        for record in records:
            if str(record.value).startswith("bad"):
                task.report(record, ValueError(f"no {record.value}")).wait()
            else:
                put[task.connector].append(str(record.value))


class AsyncReporting(KeepingSink):
    """Reports bad values in a coroutine, all at once, and awaits the reports."""

    async def put(  # type: ignore[override]
        self, task: SinkTaskContext, records: Sequence[SinkRecord]
    ) -> None:
        """Report bad values and await the reports; keep the others."""
        bad = [record for record in records if str(record.value).startswith("bad")]
        put[task.connector] += [str(record.value) for record in records if record not in bad]
        reports = [task.report(record, ValueError(f"no {record.value}")) for record in bad]
        for report in reversed(reports):
            await report


class LateReporting(KeepingSink):
    """Reports bad values long after `put`, before a commit."""

    def __init__(self) -> None:
        self.bad: list[SinkRecord] = []

    def put(self, task: SinkTaskContext, records: Sequence[SinkRecord]) -> None:
        """Keep all values; remember the bad ones for later."""
        self.bad += [record for record in records if str(record.value).startswith("bad")]
        put[task.connector] += [str(record.value) for record in records]

    def pre_commit(self, task: SinkTaskContext, offsets: Any) -> Any:
        """Report what was kept, and commit."""
        for record in self.bad:
            task.report(record, ValueError(f"no {record.value}")).wait()
        self.bad.clear()
        return offsets


@pytest.mark.parametrize("sink", [Reporting, AsyncReporting, LateReporting])
async def test_a_sink_reports_records(sink: type[KeepingSink]) -> None:
    """Reported records become dead letters of the stage TASK_PUT; the others arrive."""
    async with running(sink) as worker:
        await produce(worker.plane.log, "t", "a", "bad1", "bad2", "c", "bad3")
        await create_sink(worker, sink, **WITH_HEADERS)
        await until(lambda: committed(worker) == {("t", 0): 5})
        letters = await entries_in(worker.plane.log, "dead")
    assert sorted(letter.value or b"" for letter in letters) == [b"bad1", b"bad2", b"bad3"]
    by_value = {letter.value: dict(letter.headers) for letter in letters}
    headers = by_value[b"bad2"]
    assert headers["__connect.errors.stage"] == b"TASK_PUT"
    assert headers["__connect.errors.class.name"] == class_name(sink).encode()
    assert headers["__connect.errors.offset"] == b"2"
    assert headers["__connect.errors.exception.message"] == b"no bad2"


@pytest.mark.parametrize("sink", [Reporting, AsyncReporting])
async def test_a_report_without_tolerance_fails_the_task(sink: type[KeepingSink]) -> None:
    """The record is logged and dead-lettered first, as Kafka does; nothing is committed."""
    notices = RecordedNotices()
    async with running(sink, notices=notices) as worker:
        await produce(worker.plane.log, "t", "a", "bad1")
        config = {"errors.deadletterqueue.topic.name": "dead", "errors.log.enable": "true"}
        await create_sink(worker, sink, **config)
        await until_state(worker, "s", "RUNNING", "FAILED")
        trace = task_trace(worker, "s")
        assert "Error tolerance exceeded" in trace
        assert "ValueError: no bad1" in trace
        assert [letter.value for letter in await dead_letters(worker, 1)] == [b"bad1"]
        assert committed(worker) == {}
    assert len(notices.of("record_failed")) == 1


class Swallowing(KeepingSink):
    """Reports bad values, and swallows the refusal of each report."""

    def put(self, task: SinkTaskContext, records: Sequence[SinkRecord]) -> None:
        """Report bad values; keep the others."""
        for record in records:
            if str(record.value).startswith("bad"):
                _report_quietly(task, record)
            else:
                put[task.connector].append(str(record.value))


class FlushSwallowing(LateReporting):
    """Reports bad values after their `put`, and swallows the refusal of each report."""

    def pre_commit(self, task: SinkTaskContext, offsets: Any) -> Any:
        """Report the bad values, and commit."""
        while self.bad:
            _report_quietly(task, self.bad.pop())
        return offsets


def _report_quietly(task: SinkTaskContext, record: SinkRecord) -> None:
    with suppress(ConnectError):
        task.report(record, ValueError(f"no {record.value}"))


@pytest.mark.parametrize("sink", [Swallowing, FlushSwallowing])
async def test_a_swallowed_refusal_fails_the_task(sink: type[KeepingSink]) -> None:
    """No offset beyond the refused record is committed: the record would be lost."""
    async with running(sink) as worker:
        await produce(worker.plane.log, "t", "a", "bad1", "c")
        await create_sink(worker, sink)
        await until_state(worker, "s", "RUNNING", "FAILED")
        trace = task_trace(worker, "s")
        assert "Tolerance exceeded in error handler" in trace
        assert "ValueError: no bad1" in trace
        assert committed(worker) == {}
        await worker.plane.execute(StopConnector("s"))
        await until_state(worker, "s", "STOPPED")
        assert committed(worker) == {}


async def test_the_records_before_a_refused_one_are_committed() -> None:
    """The last commit of the failed task has the offset of the refused record."""
    rarely = msgspec.structs.replace(QUICK, offset_flush_interval_ms=3_600_000)
    async with running(Swallowing, runtime=rarely) as worker:
        await produce(worker.plane.log, "t", "a")
        await create_sink(worker, Swallowing)
        await until(lambda: put.get("s") == ["a"])
        await produce(worker.plane.log, "t", "bad1", "c")
        await until_state(worker, "s", "RUNNING", "FAILED")
        assert committed(worker) == {("t", 0): 1}


class HandMade(KeepingSink):
    """Reports a record that it has made itself."""

    def put(self, task: SinkTaskContext, records: Sequence[SinkRecord]) -> None:
        """Report a record made by hand for each record."""
        for record in records:
            made = SinkRecord(
                topic="x", kafka_partition=7, kafka_offset=9, key="k", value=f"{record.value}!"
            )
            task.report(made, ValueError("made"))


async def test_a_record_of_the_sinks_own_is_converted() -> None:
    """The connector's converters serialise a record that the sink has made."""
    async with running(HandMade) as worker:
        await produce(worker.plane.log, "t", "a")
        await create_sink(worker, HandMade, **WITH_HEADERS)
        [letter] = await dead_letters(worker, 1)
    assert (letter.key, letter.value) == (b"k", b"a!")
    assert dict(letter.headers)["__connect.errors.topic"] == b"x"


closed: list[KafkaPartition] = []


class Unheeding(KeepingSink):
    """Reports bad values and does not wait for the reports."""

    def close(self, task: SinkTaskContext, partitions: Sequence[KafkaPartition]) -> None:
        """Note the partitions that are closed."""
        del task
        closed.extend(partitions)

    def put(self, task: SinkTaskContext, records: Sequence[SinkRecord]) -> None:
        """Report bad values without waiting; keep the others."""
        for record in records:
            if str(record.value).startswith("bad"):
                task.report(record, ValueError(f"no {record.value}"))
            else:
                put[task.connector].append(str(record.value))


class FlushReporting(LateReporting):
    """Reports bad values before a commit, and does not wait for the reports."""

    def pre_commit(self, task: SinkTaskContext, offsets: Any) -> Any:
        """Report the bad values without waiting, and commit."""
        while self.bad:
            task.report(self.bad.pop(), ValueError("bad"))
        return offsets


@pytest.mark.parametrize("sink", [Unheeding, FlushReporting])
async def test_offsets_wait_for_reports(
    sink: type[KeepingSink], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The offsets are committed after the dead letters, though the sink does not wait."""
    gate = asyncio.Event()
    placed = LogProducer._placed

    async def held(producer: LogProducer, record: Any, since_s: float) -> Any:
        if record.topic == "dead":
            await gate.wait()
        return await placed(producer, record, since_s)

    monkeypatch.setattr(LogProducer, "_placed", held)
    async with running(sink) as worker:
        await produce(worker.plane.log, "t", "a", "bad")
        await create_sink(worker, sink, **DEAD_LETTERS)
        await until(lambda: put.get("s", [])[:1] == ["a"])
        await worker.plane.execute(PauseConnector("s"))  # a pause commits
        await until_state(worker, "s", "PAUSED", "RUNNING")
        await asyncio.sleep(0.1)
        assert committed(worker) == {}
        gate.set()
        await until(lambda: committed(worker) == {("t", 0): 2})
        assert [letter.value for letter in await dead_letters(worker, 1)] == [b"bad"]


class ImpatientReporting(KeepingSink):
    """Reports bad values in a coroutine, and stops waiting for the reports at once."""

    async def put(  # type: ignore[override]
        self, task: SinkTaskContext, records: Sequence[SinkRecord]
    ) -> None:
        """Report all values without patience."""
        for record in records:
            with suppress(TimeoutError):
                await asyncio.wait_for(task.report(record, ValueError("bad")), 1e-6)


async def test_a_report_outlives_a_wait_for_it() -> None:
    """A sink that stops waiting does not cancel the report, and the offset is committed."""
    async with running(ImpatientReporting) as worker:
        await produce(worker.plane.log, "t", "bad1", "bad2")
        await create_sink(worker, ImpatientReporting, **DEAD_LETTERS)
        await until(lambda: committed(worker) == {("t", 0): 2})
        letters = await dead_letters(worker, 2)
    assert [letter.value for letter in letters] == [b"bad1", b"bad2"]


async def test_a_lost_report_fails_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """A report that failed long before the commit still prevents it; partitions are closed."""
    closed.clear()
    _refuse(monkeypatch, "dead")
    async with running(Unheeding) as worker:
        await produce(worker.plane.log, "t", "a", "bad")
        await create_sink(worker, Unheeding, **DEAD_LETTERS)
        await until_state(worker, "s", "RUNNING", "FAILED")
        assert "dead is full" in task_trace(worker, "s")
        assert committed(worker) == {}
        assert closed == [("t", 0)]


def test_reported_errors_are_connect_errors() -> None:
    """A sink may catch the errors of `report`."""
    assert issubclass(ToleranceExceeded, ConnectError)
