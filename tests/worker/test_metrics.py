"""Metrics of running tasks: each one changes with its event, and with no other."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from math import isnan
from typing import Any

import msgspec
import pytest

from controlplane.connect import SinkRecord, SinkTaskContext, Source
from controlplane.connect.source import SourceRun
from controlplane.core.commands import (
    CreateConnector,
    DeleteConnector,
    PauseConnector,
    RestartTask,
    ResumeConnector,
    StopConnector,
)
from controlplane.logs.log import Record
from controlplane.worker.connector_classes import class_name
from controlplane.worker.data_topics.clients import ProducerFailure
from controlplane.worker.data_topics.embedded_producer import LogProducer
from controlplane.worker.worker import ConnectWorker
from tests.conftest import PROVE
from tests.worker.failing_records import (
    DEAD_LETTERS,
    TOLERANT,
    KeepingSink,
    Picky,
    Shaky,
    ValuesSource,
    create_sink,
    transformed_by,
)
from tests.worker.worker_fixture import (
    QUICK,
    config_of,
    connector_status,
    produce,
    running,
    until,
    until_state,
)
from tests.worker.worker_metrics import measured, scraped, until_measured

CYCLES = 1_000 if PROVE else 20


async def create_source(worker: ConnectWorker, values: str, **config: str) -> None:
    """Create a source `s` of these values."""
    full = config_of(ValuesSource, topic="t", values=values) | config
    await worker.plane.execute(CreateConnector("s", full))


# --- sources --------------------------------------------------------------------------------------


@pytest.mark.parametrize("exactly_once", [False, True])
async def test_a_source_counts_polled_and_written_records(exactly_once: bool) -> None:
    """Records count as polled before transformations, as written after; none stays active."""
    runtime = msgspec.structs.replace(QUICK, exactly_once=exactly_once)
    async with running(ValuesSource, runtime=runtime, others=[Picky]) as worker:
        await create_source(worker, "a,bad,b,bad,c", **transformed_by(Picky), **TOLERANT)
        await until_measured(
            worker,
            source_task_source_record_poll_total=5,
            source_task_source_record_write_total=3,
            source_task_source_record_active_count=0,
            task_error_total_records_skipped=2,
        )
        shown = measured(worker)
        assert shown["source_task_source_record_active_count_max"] > 0
        assert shown["source_task_poll_batch_max_time_ms"] > 0
        assert shown["source_task_poll_batch_time_ms_count"] >= 1
        assert shown["connector_task_batch_size_sum"] == 5
        assert shown["connector_task_batch_size_max"] <= 5


async def test_a_record_in_flight_is_active(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that waits for the log was polled and is not written."""

    async def sending(_: Any, records: Sequence[Any]) -> list[Any]:
        return [asyncio.get_running_loop().create_future() for _ in records]

    monkeypatch.setattr(LogProducer, "send", sending)
    runtime = msgspec.structs.replace(QUICK, offset_flush_timeout_ms=10)
    async with running(ValuesSource, runtime=runtime) as worker:
        await create_source(worker, "a,b")
        await until_measured(worker, source_task_source_record_active_count=2)
        assert measured(worker)["source_task_source_record_write_total"] == 0


async def test_each_interval_of_a_source_counts_as_a_commit() -> None:
    """Each interval is a successful commit, with its duration."""
    async with running(ValuesSource) as worker:
        await create_source(worker, "a")
        await until(lambda: measured(worker).get("connector_task_offset_commit_time_ms_count", 0))
        shown = measured(worker)
        assert shown["connector_task_offset_commit_success_percentage"] == 1
        assert shown["connector_task_offset_commit_failure_percentage"] == 0
        longest = shown["connector_task_offset_commit_max_time_ms"]
        assert 0 < shown["connector_task_offset_commit_avg_time_ms"] <= longest


async def test_a_refused_commit_of_a_source_counts_as_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A commit that the log refuses counts as failed."""

    async def refused(*_: Any) -> None:
        raise ProducerFailure("no space left")

    monkeypatch.setattr(LogProducer, "write_offsets", refused)
    async with running(ValuesSource) as worker:
        await create_source(worker, "a")
        failure = "connector_task_offset_commit_failure_percentage"
        await until(lambda: measured(worker).get(failure, 0) > 0)


async def test_a_tolerated_send_failure_drops_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """The record is dropped, and counts as a failure."""

    async def refused(_: Any, records: Sequence[Any]) -> list[Any]:
        return [_failed() for _ in records]

    monkeypatch.setattr(LogProducer, "send", refused)
    async with running(ValuesSource) as worker:
        await create_source(worker, "a,b", **TOLERANT)
        await until_measured(
            worker,
            task_error_total_record_failures=2,
            source_task_source_record_write_total=0,
            source_task_source_record_active_count=0,
        )


def _failed() -> Any:
    future = asyncio.get_running_loop().create_future()
    future.set_exception(ProducerFailure("too large"))
    return future


class Transacting(Source):
    """Commits two records, and aborts one."""

    exactly_once = boundaries = True

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Yield them with the ends of their transactions."""
        part = {"p": 1}
        yield task.record("a", part, {"at": 1}, topic="t")
        yield task.record("b", part, {"at": 2}, topic="t")
        yield task.commit()
        yield task.record("c", part, {"at": 3}, topic="t")
        yield task.abort()
        while True:
            yield task.idle(0.01)


async def test_each_transaction_is_a_commit() -> None:
    """Each transaction is a commit; records of an aborted one are not written."""
    runtime = msgspec.structs.replace(QUICK, exactly_once=True)
    async with running(Transacting, runtime=runtime) as worker:
        config = config_of(Transacting) | {"transaction.boundary": "connector"}
        await worker.plane.execute(CreateConnector("s", config))
        await until_measured(
            worker,
            source_task_source_record_poll_total=3,
            source_task_source_record_write_total=2,
            source_task_source_record_active_count=0,
            connector_task_offset_commit_time_ms_count=2,
            connector_task_offset_commit_success_percentage=1,
            source_task_transaction_size_max=2,
            source_task_transaction_size_min=0,  # only the offset of the aborted record
            source_task_transaction_size_avg=1,
            source_task_transaction_size_sum=2,
            source_task_transaction_size_count=2,
        )


async def test_a_source_without_transactions_has_no_sizes() -> None:
    """A task that delivers at least once has no sizes of transactions."""
    async with running(ValuesSource) as worker:
        await create_source(worker, "a,b")
        await until_measured(worker, source_task_source_record_write_total=2)
        shown = measured(worker)
        assert shown["source_task_transaction_size_count"] == 0
        assert isnan(shown["source_task_transaction_size_max"])


# --- sinks ----------------------------------------------------------------------------------------


async def test_a_sink_counts_read_and_sent_records() -> None:
    """Records count as read before transformations, as sent after; a commit leaves none active."""
    async with running(KeepingSink, others=[Picky]) as worker:
        await produce(worker.plane.log, "t", "a", "bad", "b", partitions=2)
        await create_sink(worker, KeepingSink, **transformed_by(Picky), **TOLERANT)
        await until_measured(
            worker,
            sink_task_sink_record_read_total=3,
            sink_task_sink_record_send_total=2,
            sink_task_sink_record_active_count=0,
            sink_task_partition_count=2,
            sink_task_offset_commit_skip_total=0,
        )
        await until(lambda: measured(worker)["sink_task_offset_commit_completion_total"])
        shown = measured(worker)
        assert shown["sink_task_offset_commit_seq_no"] >= 1
        assert shown["sink_task_sink_record_active_count_max"] > 0
        assert shown["sink_task_put_batch_max_time_ms"] >= shown["sink_task_put_batch_avg_time_ms"]
        assert shown["sink_task_put_batch_time_ms_count"] >= 1
        assert shown["connector_task_offset_commit_success_percentage"] == 1


class Uncommitted(KeepingSink):
    """Takes records and prevents all commits of their offsets."""

    def pre_commit(self, task: SinkTaskContext, offsets: Any) -> Any:  # noqa: ARG002
        """Return no offsets, so that none are committed."""
        return {}


async def test_records_without_a_commit_are_active() -> None:
    """Delivered records are active until their offsets are committed."""
    async with running(Uncommitted) as worker:
        await produce(worker.plane.log, "t", "a", "b")
        await create_sink(worker, Uncommitted)
        await until_measured(
            worker, sink_task_sink_record_send_total=2, sink_task_sink_record_active_count=2
        )


class FailingFlush(KeepingSink):
    """Sink that cannot flush its offsets."""

    def flush(self, task: SinkTaskContext, offsets: Any) -> None:  # noqa: ARG002
        """Raise OSError, as on a full disk."""
        raise OSError("disk full")


async def test_a_failed_flush_counts_as_a_failed_commit() -> None:
    """A flush that fails is a failed commit; the records are read once more."""
    async with running(FailingFlush) as worker:
        await produce(worker.plane.log, "t", "a")
        await create_sink(worker, FailingFlush)
        await until(lambda: measured(worker).get("sink_task_sink_record_read_total", 0) >= 2)
        shown = measured(worker)
        assert shown["connector_task_offset_commit_failure_percentage"] > 0
        assert shown["sink_task_offset_commit_seq_no"] >= 1


# --- failed records -------------------------------------------------------------------------------


async def test_each_failed_record_counts_as_error_and_dead_letter() -> None:
    """Each failed record is an error, a skipped record, a log line and a dead letter."""
    logged = {"errors.log.enable": "true"}
    async with running(KeepingSink, others=[Picky]) as worker:
        before_ms = worker.plane.now_ms()
        await produce(worker.plane.log, "t", "a", "bad", "bad2")
        await create_sink(worker, KeepingSink, **transformed_by(Picky), **DEAD_LETTERS, **logged)
        await until_measured(
            worker,
            task_error_total_record_failures=2,
            task_error_total_record_errors=2,
            task_error_total_records_skipped=2,
            task_error_total_errors_logged=2,
            task_error_deadletterqueue_produce_requests=2,
            task_error_deadletterqueue_produce_failures=0,
            task_error_total_retries=0,
        )
        assert measured(worker)["task_error_last_error_timestamp"] >= before_ms


async def test_a_lost_dead_letter_counts_as_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lost dead letter counts as a failure, and the failed task still shows it."""

    async def refused(_: Any, records: Sequence[Any]) -> list[Any]:
        return [_failed() for _ in records]

    monkeypatch.setattr(LogProducer, "send", refused)
    async with running(KeepingSink, others=[Picky]) as worker:
        await produce(worker.plane.log, "t", "bad")
        await create_sink(worker, KeepingSink, **transformed_by(Picky), **DEAD_LETTERS)
        await until_state(worker, "s", "RUNNING", "FAILED")
        shown = measured(worker)
        assert shown["task_error_deadletterqueue_produce_requests"] == 1
        assert shown["task_error_deadletterqueue_produce_failures"] == 1


async def test_a_record_with_two_errors_counts_once() -> None:
    """A record with a bad key and a bad value is one error and one dead letter, as in Kafka."""
    converters = {
        f"{role}.converter": "org.apache.kafka.connect.json.JsonConverter"
        for role in ("key", "value")
    }
    async with running(KeepingSink) as worker:
        log = worker.plane.log
        await log.create_topic("t", 1)
        await log.append([Record("t", 0, 1_000, b"{", b"{"), Record("t", 0, 1_000, b"{", b"{")])
        await create_sink(worker, KeepingSink, **converters, **DEAD_LETTERS)
        await until_measured(worker, sink_task_sink_record_read_total=2)
        await until_measured(
            worker,
            task_error_total_record_errors=2,
            task_error_total_records_skipped=2,
            task_error_deadletterqueue_produce_requests=2,
        )


async def test_failed_attempts_and_retries_are_counted() -> None:
    """Each failed attempt counts as a failure, and each repeated attempt as a retry.

    A record that succeeds in the end is no error.
    """
    settings = {"errors.retry.timeout": "-1", "errors.retry.delay.max.ms": "1"}
    async with running(KeepingSink, others=[Shaky]) as worker:
        await produce(worker.plane.log, "t", "bad")
        await create_sink(worker, KeepingSink, **transformed_by(Shaky, failures="3"), **settings)
        await until_measured(
            worker,
            sink_task_sink_record_send_total=1,
            task_error_total_record_failures=3,
            task_error_total_retries=3,
            task_error_total_record_errors=0,
            task_error_total_records_skipped=0,
        )


async def test_an_error_without_tolerance_skips_no_record() -> None:
    """The error is counted, and no record is counted as skipped."""
    async with running(KeepingSink, others=[Picky]) as worker:
        await produce(worker.plane.log, "t", "bad")
        await create_sink(worker, KeepingSink, **transformed_by(Picky))
        await until_state(worker, "s", "RUNNING", "FAILED")
        shown = measured(worker)
        assert shown["task_error_total_record_errors"] == 1
        assert shown["task_error_total_records_skipped"] == 0


class ReportingSink(KeepingSink):
    """Sink that reports every record (KIP-610)."""

    def put(self, task: SinkTaskContext, records: Sequence[SinkRecord]) -> None:
        """Report each record with an error."""
        for record in records:
            task.report(record, ValueError("not wanted"))


async def test_a_reported_record_is_a_failure_and_a_dead_letter() -> None:
    """A reported record is a failure and a dead letter; if it is tolerated, it is no error."""
    async with running(ReportingSink) as worker:
        await produce(worker.plane.log, "t", "a", "b")
        await create_sink(worker, ReportingSink, **DEAD_LETTERS)
        await until_measured(
            worker,
            task_error_total_record_failures=2,
            task_error_total_record_errors=0,
            task_error_deadletterqueue_produce_requests=2,
        )


# --- states, starts, ends -------------------------------------------------------------------------


async def test_a_paused_task_reports_its_paused_time() -> None:
    """A paused task reports its share of paused time."""
    async with running(ValuesSource) as worker:
        await create_source(worker, "a")
        await until_state(worker, "s", "RUNNING", "RUNNING")
        await until(lambda: measured(worker)["connector_task_running_ratio"] == 1)
        assert measured(worker)["connector_task_pause_ratio"] == 0
        await worker.plane.execute(PauseConnector("s"))
        await until_state(worker, "s", "PAUSED", "PAUSED")
        shown = measured(worker)
        assert 0 < shown["connector_task_pause_ratio"] < 1
        assert 0 < shown["connector_task_running_ratio"] < 1


class FailingStart(KeepingSink):
    """Sink whose task cannot start."""

    def start(self, task: SinkTaskContext) -> None:  # noqa: ARG002
        """Raise OSError instead of starting."""
        raise OSError("no device")


class FailingSplit(Source):
    """Source whose instance cannot be created."""

    def __init__(self) -> None:
        raise OSError("no device")

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Wait and yield no records."""
        yield task.idle(1)


async def test_each_start_counts_once() -> None:
    """Each start counts once, as success or failure, whatever the task does later."""
    async with running(ValuesSource, FailingStart, FailingSplit) as worker:
        await worker.plane.log.create_topic("t", 1)
        await create_source(worker, "a")
        await until_state(worker, "s", "RUNNING", "RUNNING")
        config = config_of(FailingStart, topics="t")
        await worker.plane.execute(CreateConnector("f", config))
        await until_state(worker, "f", "RUNNING", "FAILED")
        await worker.plane.execute(CreateConnector("g", config_of(FailingSplit)))
        await until_state(worker, "g", "FAILED")
        await worker.plane.execute(RestartTask("s", 0))
        await until(lambda: measured(worker, task=None)["worker_task_startup_success_total"] == 2)
        shown = measured(worker, task=None)
        assert shown["worker_task_startup_attempts_total"] == 3
        assert shown["worker_task_startup_failure_total"] == 1
        assert shown["worker_task_startup_failure_percentage"] == pytest.approx(1 / 3)
        assert shown["worker_connector_startup_attempts_total"] == 3
        assert shown["worker_connector_startup_success_total"] == 2
        assert shown["worker_connector_startup_failure_total"] == 1
        assert shown["worker_connector_startup_success_percentage"] == pytest.approx(2 / 3)


async def test_a_restart_begins_anew() -> None:
    """Totals count from the start of the task, as in Kafka."""
    async with running(ValuesSource) as worker:
        await create_source(worker, "a,b")
        await until_measured(worker, source_task_source_record_write_total=2)
        await worker.plane.execute(StopConnector("s"))
        await until_state(worker, "s", "STOPPED")
        assert measured(worker) == {}
        await worker.plane.execute(ResumeConnector("s"))
        await until_measured(worker, source_task_source_record_write_total=0)


async def test_a_deleted_connector_has_no_metrics() -> None:
    """Cycles of starts and stops leave no series behind."""
    async with running(ValuesSource) as worker:
        before = sum(len(family.samples) for family in scraped(worker))
        for _ in range(CYCLES):
            await create_source(worker, "a")
            await until_state(worker, "s", "RUNNING", "RUNNING")
            await worker.plane.execute(DeleteConnector("s"))
            await until(lambda: connector_status(worker, "s") is None)
            assert measured(worker) == {}
        await until(lambda: sum(len(family.samples) for family in scraped(worker)) == before)


async def test_class_type_and_version_are_labels() -> None:
    """Class, type and version are labels, as Prometheus has no text values."""
    async with running(ValuesSource) as worker:
        await create_source(worker, "a")
        await until_state(worker, "s", "RUNNING", "RUNNING")
        infos = [
            sample.labels
            for family in scraped(worker)
            for sample in family.samples
            if sample.name == "kafka_connect_connector_info"
        ]
    assert infos == [
        {
            "connector": "s",
            "connector_class": class_name(ValuesSource),
            "connector_type": "source",
            "connector_version": "undefined",
        }
    ]
