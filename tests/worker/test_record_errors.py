"""Errors of single records: retries, tolerance, log lines (KIP-298)."""

import threading
import time
from collections.abc import Mapping

import pytest

from controlplane.connect import RetriableError, SinkTaskContext
from controlplane.connect.errors import ConnectError
from controlplane.connect.transforms import Transformation
from controlplane.core.commands import CreateConnector, RestartTask, StopConnector
from controlplane.core.context import DecisionSettings
from controlplane.plane import Settings
from controlplane.settings.providers import Providers
from controlplane.worker.connector_classes import class_name
from controlplane.worker.records import record_errors
from controlplane.worker.records.record_errors import (
    ErrorSettings,
    RecordErrors,
    RetriesStopped,
    Stage,
    ToleranceExceeded,
)
from tests.patience import PATIENCE_S
from tests.worker.failing_records import (
    TOLERANT,
    WITH_HEADERS,
    KeepingSink,
    Picky,
    Shaky,
    ValuesSource,
    closed,
    committed,
    create_sink,
    dead_letters,
    put,
    transformed_by,
)
from tests.worker.worker_fixture import (
    RecordedNotices,
    config_of,
    offsets,
    produce,
    running,
    task_trace,
    until,
    until_state,
    values_in,
)

# --- retries --------------------------------------------------------------------------------------


def errors_of(**settings: str) -> RecordErrors:
    """Errors with these settings; `_` in a key stands for a dot."""
    return RecordErrors(
        ErrorSettings.of({name.replace("_", "."): value for name, value in settings.items()})
    )


class FailingOperation:
    """Raises a retriable error in its first `failures` calls; keeps when each call came."""

    def __init__(self, failures: int) -> None:
        self._failures = failures
        self.calls: list[float] = []

    def __call__(self) -> str:
        """Raise RetriableError until the failures are used up."""
        self.calls.append(time.monotonic())
        if len(self.calls) <= self._failures:
            raise RetriableError("not yet")
        return "done"


@pytest.mark.slow
def test_a_retriable_error_is_retried_within_the_time_out() -> None:
    """The first pause is 300 ms, then it doubles, up to errors.retry.delay.max.ms."""
    failing = FailingOperation(4)
    errors = errors_of(errors_retry_timeout="-1", errors_retry_delay_max_ms="400")
    assert errors.run(Stage.TRANSFORMATION, "T", failing, None) == "done"
    pauses = [after - before for before, after in zip(failing.calls, failing.calls[1:])]  # noqa: B905
    assert len(pauses) == 4
    assert pauses[0] >= 0.299
    assert all(pause >= 0.399 for pause in pauses[1:])
    assert errors.take_failures() == []


def test_the_longest_pause_bounds_every_pause() -> None:
    """With errors.retry.delay.max.ms=1, fifty retries take far less than 300 ms each."""
    failing, begun = FailingOperation(50), time.monotonic()
    errors = errors_of(errors_retry_timeout="-1", errors_retry_delay_max_ms="1")
    assert errors.run(Stage.TRANSFORMATION, "T", failing, None) == "done"
    assert time.monotonic() - begun < 50 * 0.3


def test_nothing_is_retried_by_default() -> None:
    """errors.retry.timeout is 0: the first retriable error fails the record."""
    failing = FailingOperation(1)
    with pytest.raises(ToleranceExceeded, match="Tolerance exceeded in error handler"):
        errors_of().run(Stage.TRANSFORMATION, "T", failing, None)
    assert len(failing.calls) == 1


def test_retries_end_at_the_time_out() -> None:
    """The last pause is cut short; one more attempt follows, then the record fails."""
    failing = FailingOperation(1_000)
    errors = errors_of(errors_retry_timeout="400", errors_tolerance="all", errors_log_enable="true")
    began = time.monotonic()
    assert errors.run(Stage.TRANSFORMATION, "T", failing, None) is None
    assert failing.calls[-1] - began >= 0.399
    assert len(failing.calls) in {2, 3}  # on a busy machine, the first pause may take all the time
    assert [failed.reason for failed in errors.take_failures()] == ["RetriableError('not yet')"]


def test_other_errors_are_not_retried() -> None:
    """An error other than `RetriableError` is not retried."""
    calls: list[int] = []

    def failing() -> None:
        calls.append(1)
        raise ValueError("never")

    errors = errors_of(errors_retry_timeout="-1", errors_tolerance="all")
    assert errors.run(Stage.KEY_CONVERTER, "K", failing, None) is None
    assert calls == [1]


def test_a_stop_ends_the_retries_without_a_failure() -> None:
    """A stop does not drop a record in retry, even if errors are tolerated."""
    errors = errors_of(errors_retry_timeout="-1", errors_tolerance="all")
    errors.stop()
    with pytest.raises(RetriesStopped):
        errors.run(Stage.TRANSFORMATION, "T", FailingOperation(1), None)
    assert errors.take_failures() == []


def test_a_stop_during_a_pause_allows_no_further_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait ends without the retry; as in Kafka, the metric counts it all the same."""
    monkeypatch.setattr(record_errors, "FIRST_DELAY_MS", 1_000 * PATIENCE_S)
    errors, failing = errors_of(errors_retry_timeout="-1"), FailingOperation(1)

    def stopping() -> str:
        threading.Timer(0.01, errors.stop).start()
        return failing()

    with pytest.raises(RetriesStopped):
        errors.run(Stage.TRANSFORMATION, "T", stopping, None)
    assert len(failing.calls) == 1
    assert errors.metrics.retries == 1


async def test_a_worker_retries_a_transformation() -> None:
    """Records arrive complete and in order once the failure has passed."""
    async with running(KeepingSink, others=[Shaky]) as worker:
        await produce(worker.plane.log, "t", "a", "bad", "c")
        retries = {"errors.retry.timeout": "-1", "errors.retry.delay.max.ms": "1"}
        await create_sink(worker, KeepingSink, **transformed_by(Shaky, failures="5"), **retries)
        await until(lambda: put.get("s") == ["a", "bad", "c"])
        assert Shaky.failures == 5


@pytest.mark.parametrize("kind", ["source", "sink"])
async def test_a_stop_during_retries_loses_nothing(kind: str) -> None:
    """A stop neither sends nor skips the record in retry and those behind it."""
    retries = {"errors.retry.timeout": "-1", "errors.retry.delay.max.ms": "60000", **TOLERANT}
    chain = transformed_by(Shaky, failures="1000000")
    async with running(KeepingSink, ValuesSource, others=[Shaky]) as worker:
        plane = worker.plane
        if kind == "sink":
            await produce(plane.log, "t", "bad", "c")
            await create_sink(worker, KeepingSink, **chain, **retries)
        else:
            config = config_of(ValuesSource, topic="t", values="bad,c") | chain | retries
            await plane.execute(CreateConnector("s", config))
        await until(lambda: Shaky.failures)
        await plane.execute(StopConnector("s"))
        await until_state(worker, "s", "STOPPED")
        assert put.get("s", []) == []
        assert committed(worker) == {}
        assert offsets(worker, "s") == {}
        if kind == "source":
            assert await values_in(plane.log, "t") == []


# --- tolerance ------------------------------------------------------------------------------------


@pytest.mark.parametrize("tolerance", ["none", "all"])
async def test_a_sink_skips_a_bad_record_only_with_tolerance(tolerance: str) -> None:
    """`none` fails the task and commits nothing; `all` skips the record and commits behind it."""
    async with running(KeepingSink, others=[Picky]) as worker:
        await produce(worker.plane.log, "t", "a", "bad", "c", "bad2")
        config = transformed_by(Picky) | {"errors.tolerance": tolerance}
        await create_sink(worker, KeepingSink, **config)
        if tolerance == "all":
            await until(lambda: put.get("s") == ["a", "c"])
            await until(lambda: committed(worker) == {("t", 0): 4})
            await until_state(worker, "s", "RUNNING", "RUNNING")
        else:
            await until_state(worker, "s", "RUNNING", "FAILED")
            trace = task_trace(worker, "s")
            assert "Tolerance exceeded in error handler" in trace
            assert "ValueError: cannot read bad" in trace
            assert put["s"] == []
            assert committed(worker) == {}
            await until(lambda: closed == ["picky"])


async def test_a_tolerated_failure_of_a_source_drops_the_record() -> None:
    """A dropped record does not advance its offset; the one after it does."""
    async with running(ValuesSource, others=[Picky]) as worker:
        plane = worker.plane
        config = config_of(ValuesSource, topic="t", values="a,bad,c,bad2") | transformed_by(Picky)
        await plane.execute(CreateConnector("s", config | TOLERANT))
        await until(lambda: offsets(worker, "s") == {"{'source': 'values'}": {"at": 3}})
        assert await values_in(plane.log, "t") == [b"a", b"c"]
        await plane.execute(StopConnector("s"))
        await until_state(worker, "s", "STOPPED")
        assert offsets(worker, "s") == {"{'source': 'values'}": {"at": 3}}
        assert closed == ["picky"]


async def test_a_source_fails_without_tolerance() -> None:
    """The task sends and commits the records before the failed one, also at a restart."""
    async with running(ValuesSource, others=[Picky]) as worker:
        plane = worker.plane
        config = config_of(ValuesSource, topic="t", values="a,b,bad,c") | transformed_by(Picky)
        await plane.execute(CreateConnector("s", config))
        await until_state(worker, "s", "RUNNING", "FAILED")
        assert "ValueError: cannot read bad" in task_trace(worker, "s")
        await until(lambda: offsets(worker, "s") == {"{'source': 'values'}": {"at": 2}})
        await plane.execute(RestartTask("s", 0))
        await until(lambda: closed == ["picky", "picky"])
        await until_state(worker, "s", "RUNNING", "FAILED")
        assert await values_in(plane.log, "t") == [b"a", b"b"]


async def test_a_failed_conversion_is_skipped() -> None:
    """A value that is no JSON is skipped; its dead letter names the converter."""
    converter = {"value.converter": "org.apache.kafka.connect.json.JsonConverter"}
    plain = {"value.converter.schemas.enable": "false"}
    async with running(KeepingSink) as worker:
        await produce(worker.plane.log, "t", "{", "1")
        await create_sink(worker, KeepingSink, **converter, **plain, **WITH_HEADERS)
        await until(lambda: put.get("s") == ["1"])
        [letter] = await dead_letters(worker, 1)
        assert letter.value == b"{"
        headers = dict(letter.headers)
        assert headers["__connect.errors.stage"] == b"VALUE_CONVERTER"
        assert b"JsonConverter" in (headers["__connect.errors.class.name"] or b"")


# --- transformations of a task that cannot be made ------------------------------------------------


class Unconfigurable(Transformation):
    """Transformation that refuses any settings with ConnectError."""

    def configure(self, settings: Mapping[str, str]) -> None:
        """Raise ConnectError for any settings."""
        del settings
        raise ConnectError("no such setting")


async def test_a_failed_chain_closes_its_transformations() -> None:
    """The transformations before the failed one are closed."""
    async with running(KeepingSink, others=[Picky, Unconfigurable]) as worker:
        chain = {"transforms": "t,r", "transforms.r.type": class_name(Unconfigurable)}
        await create_sink(worker, KeepingSink, **transformed_by(Picky) | chain)
        await until_state(worker, "s", "RUNNING", "FAILED")
        assert "no such setting" in task_trace(worker, "s")
        assert closed == ["picky"]


configured: list[str] = []


class Noting(Picky):
    """Records that it was configured; `Picky` records that it was closed."""

    def configure(self, settings: Mapping[str, str]) -> None:
        """Append the setting `mark` to `configured`."""
        super().configure(settings)
        configured.append(settings["mark"])


class Unclosable(Noting):
    """Records that it was closed, then raises."""

    def close(self) -> None:
        """Raise an error with the setting `mark`; the last of the chain ends the process."""
        super().close()
        mark = self.settings["mark"]
        raise SystemExit(mark) if mark == "c" else ValueError(mark)


async def test_each_failed_close_is_reported() -> None:
    """All transformations are closed in their order, as in Kafka."""
    notices = RecordedNotices()
    chain = {"transforms": "a,b,c"}
    for alias in "abc":
        chain[f"transforms.{alias}.type"] = class_name(Unclosable)
        chain[f"transforms.{alias}.mark"] = alias
    async with running(KeepingSink, others=[Unclosable], notices=notices) as worker:
        await create_sink(worker, KeepingSink, **chain)
        await until_state(worker, "s", "RUNNING", "RUNNING")
        await worker.plane.execute(StopConnector("s"))
        await until_state(worker, "s", "STOPPED")
    assert closed == ["a", "b", "c"]
    reasons = [notice["reason"] for notice in notices.of("transformations_not_closed")]
    assert reasons == ["ValueError('a')", "ValueError('b')", "SystemExit('c')"]


class UnmadeSink(KeepingSink):
    """Sink whose task cannot be created."""

    def __init__(self) -> None:
        if threading.current_thread().name.startswith("task"):
            raise ConnectError("no sink")


class UnstartedSink(KeepingSink):
    """Sink whose task cannot start."""

    def start(self, task: SinkTaskContext) -> None:
        """Raise ConnectError in the start of the task."""
        del task
        raise ConnectError("no sink")


@pytest.mark.parametrize("sink", [UnmadeSink, UnstartedSink])
async def test_a_failed_sink_closes_its_transformations(sink: type[KeepingSink]) -> None:
    """All transformations are closed that the task has made: none if its sink cannot be created."""
    configured.clear()
    async with running(sink, others=[Noting]) as worker:
        await create_sink(worker, sink, **transformed_by(Noting))
        await until_state(worker, "s", "RUNNING", "FAILED")
        assert "no sink" in task_trace(worker, "s")
    assert closed == configured == ([] if sink is UnmadeSink else ["picky"])


async def test_a_sink_without_a_usable_pattern_leaves_no_transformation_open() -> None:
    """A config provider gives the pattern, so that only the start of the task checks it."""
    configured.clear()
    env = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
    async with running(
        KeepingSink,
        others=[Noting],
        providers=Providers({"env": env}, {"P": "("}),
        settings=Settings(worker=DecisionSettings(config_providers=("env",))),
    ) as worker:
        config = config_of(KeepingSink, topics_regex="${env:P}") | transformed_by(Noting)
        await worker.plane.execute(CreateConnector("s", config))
        await until_state(worker, "s", "RUNNING", "FAILED")
        assert "Invalid regex" in task_trace(worker, "s")
    assert closed == configured


# --- log lines ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "records"),
    [
        ({}, None),
        ({"errors.log.enable": "true"}, [None, None]),
        (
            {"errors.log.enable": "true", "errors.log.include.messages": "true"},
            ["t-0@1", "t-0@3"],
        ),
        ({"errors.log.include.messages": "true"}, None),
    ],
)
async def test_each_failure_has_a_log_line(
    settings: dict[str, str], records: list[str | None] | None
) -> None:
    """`errors.log.enable` writes a line per failure, with the position only on request."""
    notices = RecordedNotices()
    async with running(KeepingSink, others=[Picky], notices=notices) as worker:
        await produce(worker.plane.log, "t", "a", "bad", "c", "bad2")
        await create_sink(worker, KeepingSink, **transformed_by(Picky), **TOLERANT, **settings)
        await until(lambda: put.get("s") == ["a", "c"])
    lines = notices.of("record_failed")
    assert [line.get("record") for line in lines] == (records or [])
    for line in lines:
        assert line["task"] == "s-0"
        assert line["stage"] == "TRANSFORMATION"
        assert line["class_name"] == class_name(Picky)
        assert line["reason"].startswith("ValueError('cannot read bad")


async def test_the_failure_that_fails_the_task_is_logged() -> None:
    """The record is reported before the task fails."""
    notices = RecordedNotices()
    async with running(KeepingSink, ValuesSource, others=[Picky], notices=notices) as worker:
        plane = worker.plane
        config = config_of(ValuesSource, topic="u", values="bad") | transformed_by(Picky)
        await plane.execute(CreateConnector("s", config | {"errors.log.enable": "true"}))
        await until_state(worker, "s", "RUNNING", "FAILED")
    assert len(notices.of("record_failed")) == 1
