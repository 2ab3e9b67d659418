"""Mistakes of authors are refused at their place, with a message that says what to do."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
import pytest

from controlplane.connect import RecordHeader, Sink, Source
from controlplane.connect.records import SinkRecord
from controlplane.connect.sink import SinkTaskContext
from controlplane.connect.source import ConnectorContext, SourceRun
from controlplane.connect.transforms import ConnectRecord, Predicate, Transformation, replaced
from controlplane.core.state import Topics
from controlplane.worker.connector_classes import class_name
from tests.worker.bad_connectors import BadSink, BadSource, create_bad, plan, record
from tests.worker.worker_fixture import (
    QUICK,
    RecordedNotices,
    committed_offsets,
    connector_status,
    entries_in,
    produce,
    running,
    task_trace,
    until,
    until_state,
    until_values,
)

TOPICS = Topics()


async def trace_of(source: type[Any]) -> str:
    """Run a source whose task fails; return the trace of the task."""
    async with running(source) as worker:
        await create_bad(worker, source)
        await until_state(worker, "bad", "RUNNING", "FAILED")
        return task_trace(worker, "bad")


class WithoutTopic(Source):
    """Yields a record without a topic."""

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Yield the record."""
        yield task.record("x")  # the author's line


async def test_a_record_without_a_topic_is_refused() -> None:
    """The message names both ways to give a topic; the trace has the author's line."""
    trace = await trace_of(WithoutTopic)
    assert "the author's line" in trace
    assert trace.splitlines()[-1].endswith(
        "ConnectError: The record has no topic: set topic in the connector's config, or pass "
        "topic= to task.record"
    )


class WithHeaders(Source):
    """Yields a record with the headers of the plan."""

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Yield the record."""
        yield task.record("x", topic="t", headers=plan["headers"])  # the author's line


INVALID_HEADERS = 'Headers must be a list of RecordHeader("name", "value").'


@pytest.mark.parametrize("headers", [{"a": "b"}, [("a", "b")], "a", None, 5], ids=repr)
async def test_invalid_headers_are_refused_in_the_authors_line(headers: Any) -> None:
    """`task.record` refuses all but `RecordHeader`; the trace has the author's line."""
    plan["headers"] = headers
    trace = await trace_of(WithHeaders)
    assert "the author's line" in trace
    assert trace.splitlines()[-1].endswith(f"Invalid headers: {headers!r}. {INVALID_HEADERS}")


async def test_invalid_headers_of_a_poll_name_the_method() -> None:
    """A record that `task.record` has not made is refused with class and method."""
    plan.update(where="task.poll", how="return", returned=[record(headers={"a": "b"})])
    last_line = (await trace_of(BadSource)).splitlines()[-1]
    assert "BadTask.poll: Invalid headers: {'a': 'b'}" in last_line


class WithFields(Source):
    """Yields two records; the second has the fields of the plan."""

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Yield the records."""
        yield task.record("good", topic="t")
        yield task.record(**({"value": "x", "topic": "t"} | plan["fields"]))
        while True:
            yield task.idle(0.01)


YIELD = f"{__file__}:{WithFields.read.__code__.co_firstlineno + 3}"
"""File and line of the second `yield`."""

JSON_VALUES = "org.apache.kafka.connect.json.JsonConverter"

INVALID_FIELDS = [
    ({"kafka_partition": -1}, "Invalid partition: -1. Partition number should"),
    ({"kafka_partition": 2**31}, "Invalid partition: 2147483648. It must fit in 32 bits"),
    ({"timestamp": -5}, "Invalid timestamp: -5. Timestamp should always be non-negative"),
    ({"timestamp": "x"}, "Invalid timestamp: 'x'. It must be an int"),
    ({"kafka_partition": 7}, "Topic t has no partition 7: it has 1"),
    ({"topic": "a b"}, "a b"),
    ({"topic": TOPICS.config}, f"topic {TOPICS.config}, which has the state of the control plane"),
    ({"value": object()}, "Python class builtins.object does not have corresponding schema type"),
    ({"value": "x" * 2_000_000}, "which is larger than 1048576"),
]
"""Fields of a record that fails after its `yield`, and a part of the message."""


@pytest.mark.parametrize("exactly_once", [False, True])
@pytest.mark.parametrize(
    ("fields", "reason"), INVALID_FIELDS, ids=[reason for _, reason in INVALID_FIELDS]
)
async def test_the_trace_of_a_failed_record_names_its_yield(
    fields: dict[str, Any], reason: str, *, exactly_once: bool
) -> None:
    """The record fails when it is converted or sent, after the generator has gone on."""
    plan["fields"] = fields
    runtime = msgspec.structs.replace(QUICK, exactly_once=exactly_once)
    async with running(WithFields, runtime=runtime) as worker:
        await create_bad(worker, WithFields, value_converter=JSON_VALUES)
        await until_state(worker, "bad", "RUNNING", "FAILED")
        trace = task_trace(worker, "bad")
    assert reason in trace
    assert trace.endswith(f"\nThe record comes from {YIELD}")


class Unnoted(Exception):
    """Exception without a usable `add_note`; a `__notes__` that is no list prevents every note."""

    add_note: Any = None

    def __init__(self, notes: Any) -> None:
        super().__init__("no text")
        if notes is not None:
            self.__notes__ = notes


class UnprintablePartition:
    """Partition of a record that no message can show."""

    def __init__(self, notes: Any) -> None:
        self._notes = notes

    def __repr__(self) -> str:
        """Raise the exception without notes."""
        raise Unnoted(self._notes)


@pytest.mark.parametrize(("notes", "has_place"), [(None, True), (5, False)])
async def test_an_exception_that_takes_no_note_is_still_the_cause(
    notes: Any, *, has_place: bool
) -> None:
    """The trace names the author's exception, and the `yield` if the exception can have notes."""
    plan["fields"] = {"kafka_partition": UnprintablePartition(notes)}
    async with running(WithFields) as worker:
        await create_bad(worker, WithFields)
        await until_state(worker, "bad", "RUNNING", "FAILED")
        trace = task_trace(worker, "bad")
    assert "Unnoted: no text" in trace
    assert trace.endswith(f"\nThe record comes from {YIELD}") == has_place


async def test_the_trace_of_a_failed_record_names_a_classic_method() -> None:
    """A list has no line of its own, so that the trace names `poll`."""
    plan.update(where="task.poll", how="return", returned=[record(kafka_partition=-1)])
    trace = await trace_of(BadSource)
    assert trace.endswith(
        "DataError: Invalid partition: -1. Partition number should always be non-negative or null."
        "\nThe record comes from BadTask.poll"
    )


class PlaceCorrection(Transformation):
    """Removes the partition and time of each record."""

    def apply(self, record: Any) -> Any:
        """Return a record without both."""
        return replaced(record, kafka_partition=None, timestamp=None)


async def test_a_transformation_may_correct_partition_and_time() -> None:
    """Kafka checks a record after its transformations, too."""
    plan["fields"] = {"kafka_partition": -1, "timestamp": -5}
    config = {"transforms": "t", "transforms_t_type": class_name(PlaceCorrection)}
    async with running(WithFields, others=[PlaceCorrection]) as worker:
        await create_bad(worker, WithFields, **config)
        await until_values(worker.plane.log, "t", [b"good", b"x"])


async def test_a_generator_of_headers_is_valid() -> None:
    """`headers` may be any iterable of `RecordHeader`."""
    plan["headers"] = (RecordHeader(name, "1") for name in "ab")
    async with running(WithHeaders) as worker:
        await create_bad(worker, WithHeaders)
        await until_values(worker.plane.log, "t", [b"x"])
        [entry] = await entries_in(worker.plane.log, "t")
    assert entry.headers == (("a", b"1"), ("b", b"1"))


@pytest.mark.parametrize(
    ("returned", "reason"),
    [
        (5, "5, not offsets by (topic, partition)"),
        ({"t": 1}, "'t', which is no pair (topic, partition)"),
        ({("t", 0): 1, ("t",): 1}, "('t',), which is no pair (topic, partition)"),
        ({("t", 0): 1, ("t", 1): -5}, "-5 for t-1: Invalid negative offset"),
        ({("t", 0): "1"}, "'1' for t-0: an offset must be an int"),
        ({("t", 0): None}, "None for t-0: an offset must be an int"),
    ],
    ids=repr,
)
async def test_a_refused_pre_commit_names_the_wrong_entry(returned: Any, reason: str) -> None:
    """The log line names the first wrong entry; about a negative offset it has Kafka's words."""
    notices = RecordedNotices()
    plan.update(where="sink.pre_commit", how="return", returned=returned)
    async with running(BadSink, notices=notices) as worker:
        await create_bad(worker, BadSink)
        await until(lambda: notices.of("sink_not_flushed"))
    logged = notices.of("sink_not_flushed")[0]["reason"]
    assert f"BadSinkTask.pre_commit returned {reason}" in logged


class GeneratorSink(Sink):
    """Has a `put` with a `yield`, so a call runs none of its code."""

    def put(self, task: SinkTaskContext, records: Sequence[SinkRecord]) -> Any:
        """Yield the records."""
        del task
        yield from records


async def test_a_put_with_a_yield_loses_no_records() -> None:
    """The task is FAILED, and no offset is committed."""
    async with running(GeneratorSink) as worker:
        await produce(worker.plane.log, "t", "x")
        await create_bad(worker, GeneratorSink)
        await until_state(worker, "bad", "RUNNING", "FAILED")
        assert "GeneratorSink.put is a generator, which cannot run here" in task_trace(
            worker, "bad"
        )
        assert committed_offsets(worker, "connect-bad") == {}


class GeneratorWatch(WithFields):
    """Has a `watch` with a `yield`."""

    async def watch(self, connector: ConnectorContext) -> Any:
        """Yield the connector."""
        yield connector


async def test_a_watch_with_a_yield_fails_the_connector() -> None:
    """The trace names the method."""
    plan["fields"] = {}
    async with running(GeneratorWatch) as worker:
        await create_bad(worker, GeneratorWatch)
        await until_state(worker, "bad", "FAILED", "RUNNING")
        status = connector_status(worker, "bad")
    assert status is not None
    assert "GeneratorWatch.watch is a generator" in (status.trace or "")


class TextFailure(WithFields):
    """Reports a failure as a text instead of an exception."""

    async def watch(self, connector: ConnectorContext) -> None:
        """Report the failure."""
        failure: Any = "out of paper"
        connector.fail(failure)


async def test_a_failure_that_is_a_text_is_quoted() -> None:
    """The trace has the text."""
    plan["fields"] = {}
    async with running(TextFailure) as worker:
        await create_bad(worker, TextFailure)
        await until_state(worker, "bad", "FAILED", "RUNNING")
        status = connector_status(worker, "bad")
    assert status is not None
    assert "a failure that is no exception: out of paper" in (status.trace or "")


class AsyncTest(Predicate):
    """Has an `async def test`, whose coroutine counts as true."""

    async def test(self, record: ConnectRecord) -> bool:  # type: ignore[override]
        """Select no record."""
        del record
        return False


async def test_an_async_predicate_drops_no_records() -> None:
    """The task is FAILED."""
    plan["fields"] = {}
    config = {
        "transforms": "f",
        "transforms_f_type": "org.apache.kafka.connect.transforms.Filter",
        "transforms_f_predicate": "p",
        "predicates": "p",
        "predicates_p_type": class_name(AsyncTest),
    }
    async with running(WithFields, others=[AsyncTest]) as worker:
        await create_bad(worker, WithFields, **config)
        await until_state(worker, "bad", "RUNNING", "FAILED")
        assert "AsyncTest.test is an async def, which cannot run here" in task_trace(worker, "bad")
