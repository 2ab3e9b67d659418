"""Errors of single records: retries, tolerance, log lines, dead letters (KIP-298, KIP-610)."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from controlplane.connect import RetriableError, Sink, SinkRecord, SinkTaskContext, Source, key
from controlplane.connect.errors import ConnectError
from controlplane.connect.source import SourceRun
from controlplane.connect.transforms import ConnectRecord, Transformation
from controlplane.core.commands import CreateConnector, PauseConnector, StopConnector
from controlplane.core.entry import Entry
from controlplane.worker.clients import ProducerFailure
from controlplane.worker.connector_classes import class_name
from controlplane.worker.embedded_clients import LogProducer
from controlplane.worker.record_errors import (
    ErrorSettings,
    RecordErrors,
    RetriesStopped,
    Stage,
    ToleranceExceeded,
)
from controlplane.worker.worker import ConnectWorker
from tests.worker.worker_fixture import (
    RecordedNotices,
    config_of,
    entries_in,
    offsets,
    produce,
    running,
    task_trace,
    until,
    until_state,
    values_in,
)

put: dict[str, list[str]] = {}
"""Values that each sink of these tests has got, by connector."""

closed: list[str] = []
"""Transformations that were closed, by their setting `mark`."""


@pytest.fixture(autouse=True)
def _empty() -> None:
    put.clear()
    closed.clear()
    Shaky.failures = 0


class Picky(Transformation):
    """Refuses values that begin with `bad`."""

    config = (key("mark", default="picky"),)

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """Raise for a bad value."""
        if str(record.value).startswith("bad"):
            raise ValueError(f"cannot read {record.value}")
        return record

    def close(self) -> None:
        """Take note of it."""
        closed.append(self.settings["mark"])


class Shaky(Transformation):
    """Fails with a retriable error as often as its setting says, for each bad value."""

    config = (key("failures", "INT", "0"),)
    failures = 0

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """Fail so many times."""
        if record.value == "bad" and Shaky.failures < int(self.settings["failures"]):
            Shaky.failures += 1
            raise RetriableError(f"failure {Shaky.failures}")
        return record


class Collecting(Sink):
    """Keeps what it gets."""

    def start(self, task: SinkTaskContext) -> None:
        """Make a place for the values."""
        put.setdefault(task.connector, [])

    def put(self, task: SinkTaskContext, records: Sequence[SinkRecord]) -> None:
        """Keep the values."""
        put[task.connector] += [str(record.value) for record in records]


class Numbers(Source):
    """Yields the comma-separated values of its config, then rests."""

    config = (key("topic"), key("values"))

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Yield the values behind the committed one."""
        part = {"source": "values"}
        at = int(str((task.offset(part) or {"at": 0})["at"]))
        for number, value in enumerate(task.config["values"].split(","), 1):
            if number > at:
                yield task.record(value, part, {"at": number})
        while True:
            yield task.idle(0.01)


def transformed_by(transformation: type[Transformation], **settings: str) -> dict[str, str]:
    """Config of a chain of one transformation."""
    config = {"transforms": "t", "transforms.t.type": class_name(transformation)}
    return config | {f"transforms.t.{name}": value for name, value in settings.items()}


def committed(worker: ConnectWorker, group: str = "connect-s") -> dict[tuple[str, int], int]:
    """Committed offsets of a group."""
    return dict(worker.groups.committed(group))


async def create_sink(worker: ConnectWorker, sink: type[Any], **config: str) -> None:
    """Create a sink `s` of the topic `t`."""
    await worker.plane.execute(CreateConnector("s", config_of(sink, topics="t") | config))


TOLERANT = {"errors.tolerance": "all"}
DEAD_LETTERS = {**TOLERANT, "errors.deadletterqueue.topic.name": "dead"}
WITH_HEADERS = {**DEAD_LETTERS, "errors.deadletterqueue.context.headers.enable": "true"}

# --- retries --------------------------------------------------------------------------------------


def errors_of(**settings: str) -> RecordErrors:
    """Errors with these settings; `_` in a key stands for a dot."""
    return RecordErrors(
        ErrorSettings.of({name.replace("_", "."): value for name, value in settings.items()})
    )


class Failing:
    """Raises a retriable error so many times; keeps the times of its calls."""

    def __init__(self, failures: int) -> None:
        self._failures = failures
        self.calls: list[float] = []

    def __call__(self) -> str:
        """Fail, or succeed."""
        self.calls.append(time.monotonic())
        if len(self.calls) <= self._failures:
            raise RetriableError("not yet")
        return "done"


def test_a_retriable_error_is_retried_within_the_time_out() -> None:
    """The first pause is 300 ms, then it doubles, up to errors.retry.delay.max.ms."""
    failing = Failing(4)
    errors = errors_of(errors_retry_timeout="-1", errors_retry_delay_max_ms="400")
    assert errors.run(Stage.TRANSFORMATION, "T", failing, None) == "done"
    pauses = [after - before for before, after in zip(failing.calls, failing.calls[1:])]  # noqa: B905
    assert len(pauses) == 4
    assert pauses[0] >= 0.299
    assert all(pause >= 0.399 for pause in pauses[1:])
    assert errors.take_failures() == []


def test_the_longest_pause_bounds_every_pause() -> None:
    """With errors.retry.delay.max.ms=1, fifty retries take no 300 ms each."""
    failing, begun = Failing(50), time.monotonic()
    errors = errors_of(errors_retry_timeout="-1", errors_retry_delay_max_ms="1")
    assert errors.run(Stage.TRANSFORMATION, "T", failing, None) == "done"
    assert time.monotonic() - begun < 50 * 0.3


def test_nothing_is_retried_by_default() -> None:
    """errors.retry.timeout is 0: the first retriable error fails the record."""
    failing = Failing(1)
    with pytest.raises(ToleranceExceeded, match="Tolerance exceeded in error handler"):
        errors_of().run(Stage.TRANSFORMATION, "T", failing, None)
    assert len(failing.calls) == 1


def test_retries_end_at_the_time_out() -> None:
    """The last pause is cut short, one more try follows, then the record has failed."""
    failing = Failing(1_000)
    errors = errors_of(errors_retry_timeout="400", errors_tolerance="all")
    assert errors.run(Stage.TRANSFORMATION, "T", failing, None) is None
    assert failing.calls[-1] - failing.calls[0] >= 0.399
    assert len(failing.calls) == 3
    assert [str(failed.error) for failed in errors.take_failures()] == ["not yet"]


def test_other_errors_are_not_retried() -> None:
    """Only a `RetriableError` may pass."""
    calls: list[int] = []

    def failing() -> None:
        calls.append(1)
        raise ValueError("never")

    errors = errors_of(errors_retry_timeout="-1", errors_tolerance="all")
    assert errors.run(Stage.KEY_CONVERTER, "K", failing, None) is None
    assert calls == [1]


def test_a_stop_ends_the_retries_without_a_failure() -> None:
    """A record in retry is not dropped by a stop, even if errors are tolerated."""
    errors = errors_of(errors_retry_timeout="-1", errors_tolerance="all")
    errors.stop()
    with pytest.raises(RetriesStopped):
        errors.run(Stage.TRANSFORMATION, "T", Failing(1), None)
    assert errors.take_failures() == []


async def test_a_worker_retries_a_transformation() -> None:
    """Records arrive complete and in order once the failure has passed."""
    async with running(Collecting, others=[Shaky]) as worker:
        await produce(worker.plane.log, "t", "a", "bad", "c")
        retries = {"errors.retry.timeout": "-1", "errors.retry.delay.max.ms": "1"}
        await create_sink(worker, Collecting, **transformed_by(Shaky, failures="5"), **retries)
        await until(lambda: put.get("s") == ["a", "bad", "c"])
        assert Shaky.failures == 5


@pytest.mark.parametrize("kind", ["source", "sink"])
async def test_a_stop_during_retries_loses_nothing(kind: str) -> None:
    """The record in retry, and those behind it, are neither sent nor skipped by a stop."""
    retries = {"errors.retry.timeout": "-1", "errors.retry.delay.max.ms": "60000", **TOLERANT}
    chain = transformed_by(Shaky, failures="1000000")
    async with running(Collecting, Numbers, others=[Shaky]) as worker:
        plane = worker.plane
        if kind == "sink":
            await produce(plane.log, "t", "bad", "c")
            await create_sink(worker, Collecting, **chain, **retries)
        else:
            config = config_of(Numbers, topic="t", values="bad,c") | chain | retries
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
async def test_tolerance_of_a_sink(tolerance: str) -> None:
    """`none` fails the task and commits nothing; `all` skips the record and commits behind it."""
    async with running(Collecting, others=[Picky]) as worker:
        await produce(worker.plane.log, "t", "a", "bad", "c", "bad2")
        config = transformed_by(Picky) | {"errors.tolerance": tolerance}
        await create_sink(worker, Collecting, **config)
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
    """A dropped record does not advance its offset; the one behind it does (commands.md 16)."""
    async with running(Numbers, others=[Picky]) as worker:
        plane = worker.plane
        config = config_of(Numbers, topic="t", values="a,bad,c,bad2") | transformed_by(Picky)
        await plane.execute(CreateConnector("s", config | TOLERANT))
        await until(lambda: offsets(worker, "s") == {"{'source': 'values'}": {"at": 3}})
        assert await values_in(plane.log, "t") == [b"a", b"c"]
        await plane.execute(StopConnector("s"))
        await until_state(worker, "s", "STOPPED")
        assert offsets(worker, "s") == {"{'source': 'values'}": {"at": 3}}
        assert closed == ["picky"]


async def test_a_source_fails_without_tolerance() -> None:
    """Nothing of the batch is sent, and no offset is committed."""
    async with running(Numbers, others=[Picky]) as worker:
        plane = worker.plane
        config = config_of(Numbers, topic="t", values="a,bad,c") | transformed_by(Picky)
        await plane.execute(CreateConnector("s", config))
        await until_state(worker, "s", "RUNNING", "FAILED")
        assert "ValueError: cannot read bad" in task_trace(worker, "s")
        assert await values_in(plane.log, "t") == []
        assert offsets(worker, "s") == {}


async def test_a_converter_fails() -> None:
    """A value that is no JSON is skipped; the topic counts as used only by converted records."""
    converter = {"value.converter": "org.apache.kafka.connect.json.JsonConverter"}
    plain = {"value.converter.schemas.enable": "false"}
    async with running(Collecting) as worker:
        await produce(worker.plane.log, "t", "{", "1")
        await create_sink(worker, Collecting, **converter, **plain, **WITH_HEADERS)
        await until(lambda: put.get("s") == ["1"])
        [letter] = await _letters(worker, 1)
        assert letter.value == b"{"
        headers = dict(letter.headers)
        assert headers["__connect.errors.stage"] == b"VALUE_CONVERTER"
        assert b"JsonConverter" in (headers["__connect.errors.class.name"] or b"")


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
async def test_log_lines(settings: dict[str, str], records: list[str | None] | None) -> None:
    """errors.log.enable writes a line for each failure; the place only if it is wanted."""
    notices = RecordedNotices()
    async with running(Collecting, others=[Picky], notices=notices) as worker:
        await produce(worker.plane.log, "t", "a", "bad", "c", "bad2")
        await create_sink(worker, Collecting, **transformed_by(Picky), **TOLERANT, **settings)
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
    async with running(Collecting, Numbers, others=[Picky], notices=notices) as worker:
        plane = worker.plane
        config = config_of(Numbers, topic="u", values="bad") | transformed_by(Picky)
        await plane.execute(CreateConnector("s", config | {"errors.log.enable": "true"}))
        await until_state(worker, "s", "RUNNING", "FAILED")
    assert len(notices.of("record_failed")) == 1


# --- dead letters ---------------------------------------------------------------------------------


async def _letters(worker: ConnectWorker, count: int) -> list[Entry]:
    async with asyncio.timeout(60):
        while len(letters := await entries_in(worker.plane.log, "dead")) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    return letters


async def test_dead_letters_are_the_records_of_the_log() -> None:
    """A dead letter has the bytes and the time of its record, and no header of ours."""
    async with running(Collecting, others=[Picky]) as worker:
        await produce(worker.plane.log, "t", "a", "bad", "c", "bad2")
        await create_sink(worker, Collecting, **transformed_by(Picky), **DEAD_LETTERS)
        await until(lambda: put.get("s") == ["a", "c"])
        letters = await _letters(worker, 2)
        assert [(letter.key, letter.value, letter.timestamp) for letter in letters] == [
            (None, b"bad", 1_000),
            (None, b"bad2", 1_000),
        ]
        assert [letter.headers for letter in letters] == [(), ()]


async def test_dead_letters_tell_their_reason() -> None:
    """With context headers, all of Kafka's `__connect.errors.*` are there."""
    async with running(Collecting, others=[Picky]) as worker:
        await produce(worker.plane.log, "t", "a", "bad")
        await create_sink(worker, Collecting, **transformed_by(Picky), **WITH_HEADERS)
        [letter] = await _letters(worker, 1)
    headers = {name: (value or b"").decode() for name, value in letter.headers}
    stack = headers.pop("__connect.errors.exception.stacktrace")
    assert "cannot read bad" in stack
    assert f'"{__file__}"' in stack
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
    """Nothing is committed behind a record whose dead letter is lost."""
    _refuse(monkeypatch, "dead")
    async with running(Collecting, others=[Picky]) as worker:
        await produce(worker.plane.log, "t", "bad", "c")
        await create_sink(worker, Collecting, **transformed_by(Picky), **DEAD_LETTERS)
        await until_state(worker, "s", "RUNNING", "FAILED")
        assert "dead is full" in task_trace(worker, "s")
        assert committed(worker) == {}


def _refuse(monkeypatch: pytest.MonkeyPatch, topic: str) -> None:
    """Let every record for a topic fail."""
    placed = LogProducer._placed

    async def refusing(producer: LogProducer, record: Any) -> Any:
        if record.topic == topic:
            raise ProducerFailure(f"{topic} is full")
        return await placed(producer, record)

    monkeypatch.setattr(LogProducer, "_placed", refusing)


# --- report (KIP-610) -----------------------------------------------------------------------------


class Reporting(Collecting):
    """Reports bad values in plain code, and waits for the report."""

    def put(self, task: SinkTaskContext, records: Sequence[SinkRecord]) -> None:
        """Report or keep."""
        for record in records:
            if str(record.value).startswith("bad"):
                task.report(record, ValueError(f"no {record.value}")).wait()
            else:
                put[task.connector].append(str(record.value))


class AsyncReporting(Collecting):
    """Reports bad values in a coroutine, all at once, and awaits the reports."""

    async def put(  # type: ignore[override]
        self, task: SinkTaskContext, records: Sequence[SinkRecord]
    ) -> None:
        """Report or keep."""
        bad = [record for record in records if str(record.value).startswith("bad")]
        put[task.connector] += [str(record.value) for record in records if record not in bad]
        reports = [task.report(record, ValueError(f"no {record.value}")) for record in bad]
        for report in reversed(reports):
            await report


class LateReporting(Collecting):
    """Reports bad values long after `put`, before a commit."""

    def __init__(self) -> None:
        self.bad: list[SinkRecord] = []

    def put(self, task: SinkTaskContext, records: Sequence[SinkRecord]) -> None:
        """Keep all."""
        self.bad += [record for record in records if str(record.value).startswith("bad")]
        put[task.connector] += [str(record.value) for record in records]

    def pre_commit(self, task: SinkTaskContext, offsets: Any) -> Any:
        """Report what was kept, and commit."""
        for record in self.bad:
            task.report(record, ValueError(f"no {record.value}")).wait()
        self.bad.clear()
        return offsets


@pytest.mark.parametrize("sink", [Reporting, AsyncReporting, LateReporting])
async def test_a_sink_reports_records(sink: type[Collecting]) -> None:
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
async def test_a_report_without_tolerance_fails_the_task(sink: type[Collecting]) -> None:
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
        assert [letter.value for letter in await _letters(worker, 1)] == [b"bad1"]
        assert committed(worker) == {}
    assert len(notices.of("record_failed")) == 1


class HandMade(Collecting):
    """Reports a record that it has made itself."""

    def put(self, task: SinkTaskContext, records: Sequence[SinkRecord]) -> None:
        """Report another record for each."""
        for record in records:
            made = SinkRecord(
                topic="x", kafka_partition=7, kafka_offset=9, key="k", value=f"{record.value}!"
            )
            task.report(made, ValueError("made"))


async def test_a_record_of_the_sinks_own_is_converted() -> None:
    """The converters of the connector make the dead letter."""
    async with running(HandMade) as worker:
        await produce(worker.plane.log, "t", "a")
        await create_sink(worker, HandMade, **WITH_HEADERS)
        [letter] = await _letters(worker, 1)
    assert (letter.key, letter.value) == (b"k", b"a!")
    assert dict(letter.headers)["__connect.errors.topic"] == b"x"


class Unheeding(Collecting):
    """Reports bad values and waits for nothing."""

    def put(self, task: SinkTaskContext, records: Sequence[SinkRecord]) -> None:
        """Report or keep."""
        for record in records:
            if str(record.value).startswith("bad"):
                task.report(record, ValueError(f"no {record.value}"))
            else:
                put[task.connector].append(str(record.value))


async def test_offsets_wait_for_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit follows the dead letters of its records, though the sink waits for none."""
    gate = asyncio.Event()
    placed = LogProducer._placed

    async def held(producer: LogProducer, record: Any) -> Any:
        if record.topic == "dead":
            await gate.wait()
        return await placed(producer, record)

    monkeypatch.setattr(LogProducer, "_placed", held)
    async with running(Unheeding) as worker:
        await produce(worker.plane.log, "t", "a", "bad")
        await create_sink(worker, Unheeding, **DEAD_LETTERS)
        await until(lambda: put.get("s") == ["a"])
        await worker.plane.execute(PauseConnector("s"))  # a pause commits
        await until_state(worker, "s", "PAUSED", "RUNNING")
        await asyncio.sleep(0.1)
        assert committed(worker) == {}
        gate.set()
        await until(lambda: committed(worker) == {("t", 0): 2})
        assert [letter.value for letter in await _letters(worker, 1)] == [b"bad"]


async def test_a_lost_report_fails_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """A report that failed long before the commit still prevents it."""
    _refuse(monkeypatch, "dead")
    async with running(Unheeding) as worker:
        await produce(worker.plane.log, "t", "a", "bad")
        await create_sink(worker, Unheeding, **DEAD_LETTERS)
        await until_state(worker, "s", "RUNNING", "FAILED")
        assert "dead is full" in task_trace(worker, "s")
        assert committed(worker) == {}


def test_reported_errors_are_connect_errors() -> None:
    """A sink may catch what `report` raises."""
    assert issubclass(ToleranceExceeded, ConnectError)
