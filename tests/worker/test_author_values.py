"""Values that connectors hand over, of subclasses of `str`, `int` and `float`.

The author's threads run the methods of these values.
"""

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pytest

from controlplane.connect import (
    ConnectError,
    DataError,
    RecordHeader,
    Sink,
    SinkRecord,
    SinkTaskContext,
    Source,
    SourceRecord,
    SourceRun,
)
from controlplane.connect.sink import KafkaOffsets
from controlplane.connect.source import Idle
from controlplane.core.commands import CreateConnector
from controlplane.core.moments import LAST_OFFSET
from controlplane.worker.connector_classes import ConnectorClasses
from controlplane.worker.drivers.sink_drivers import SinkContext
from controlplane.worker.drivers.source_items import checked_item
from controlplane.worker.records.conversion import Pipelines
from controlplane.worker.task_identity import TaskIdentity
from controlplane.worker.worker import ConnectWorker
from tests.worker.bad_connectors import BadSink, BadSinkTask, BadSource, BadTask
from tests.worker.failing_records import WITH_HEADERS, dead_letters
from tests.worker.worker_fixture import (
    QUICK,
    committed_offsets,
    config_of,
    produce,
    running,
    until,
    until_state,
    until_values,
)

threads: set[str] = set()
"""Names of the threads that have called a method of a value."""


def _noted(name: str, base: type[Any]) -> Any:
    def method(self: Any, *arguments: Any) -> Any:
        threads.add(threading.current_thread().name)
        return getattr(base, name)(self, *arguments)

    return method


class NotedText(str):
    """A text whose methods note the thread."""

    __slots__ = ()
    __hash__ = _noted("__hash__", str)
    __eq__ = _noted("__eq__", str)
    __str__ = _noted("__str__", str)
    __len__ = _noted("__len__", str)


class NotedSeconds(float):
    """A number whose methods note the thread."""

    __slots__ = ()
    __lt__ = _noted("__lt__", float)
    __gt__ = _noted("__gt__", float)
    __add__ = _noted("__add__", float)
    __radd__ = _noted("__radd__", float)
    __float__ = _noted("__float__", float)


class NotedNumber(int):
    """A whole number whose methods note the thread."""

    __slots__ = ()
    __lt__ = _noted("__lt__", int)
    __le__ = _noted("__le__", int)
    __ge__ = _noted("__ge__", int)
    __eq__ = _noted("__eq__", int)
    __hash__ = _noted("__hash__", int)
    __str__ = _noted("__str__", int)
    __index__ = _noted("__index__", int)


class Subclassing(Source):
    """Yields values of these classes."""

    def read(self, task: SourceRun) -> Iterator[Any]:
        """Yield two records with pauses."""
        for number in range(2):
            yield task.record(
                f"value {number}",
                topic=NotedText("t"),
                kafka_partition=NotedNumber(0),
                timestamp=NotedNumber(7),
            )
            yield task.idle(NotedSeconds(0.001))
        while True:
            yield task.idle(NotedSeconds(60))


async def test_methods_of_values_run_in_the_authors_threads() -> None:
    """No method of a topic, partition, time or pause runs in the event loop."""
    threads.clear()
    async with running(Subclassing) as worker:
        await worker.plane.execute(CreateConnector("c", config_of(Subclassing)))
        await until_values(worker.plane.log, "t", [b"value 0", b"value 1"])
    assert threads
    assert threading.main_thread().name not in threads


class NotedContext:
    """Base of authors' classes whose `context` is a property; its setter notes the thread."""

    @property
    def context(self) -> Any:
        """The runtime's services."""
        return self._context

    @context.setter
    def context(self, context: Any) -> None:
        threads.add(threading.current_thread().name)
        self._context = context


class ContextSourceTask(NotedContext, BadTask):
    """Source task with such a property."""


class ContextSource(NotedContext, BadSource):
    """Source connector with such a property."""

    task = ContextSourceTask


class ContextSinkTask(NotedContext, BadSinkTask):
    """Sink task with such a property."""


class ContextSink(NotedContext, BadSink):
    """Sink connector with such a property."""

    task = ContextSinkTask


@pytest.mark.parametrize("connector", [ContextSource, ContextSink])
async def test_a_context_is_set_in_the_authors_threads(connector: type[Any]) -> None:
    """The setter of the property `context` runs in the threads of connector and task."""
    threads.clear()
    async with running(connector) as worker:
        await worker.plane.execute(CreateConnector("c", config_of(connector, topics="t")))
        await until_state(worker, "c", "RUNNING", "RUNNING")
    assert len(threads) == 2
    assert threading.main_thread().name not in threads


put_values: list[Any] = []
"""Values that the sink has got."""


def own_record() -> SinkRecord:
    """Record of these classes that no consumer has read."""
    return SinkRecord(
        topic=NotedText("own"),
        kafka_partition=NotedNumber(2),
        kafka_offset=NotedNumber(3),
        timestamp=NotedNumber(7),
        value="own value",
        headers=(RecordHeader(NotedText("name"), "1"),),
    )


class SubclassingSink(Sink):
    """Hands over partitions and offsets of these classes."""

    def split(self, config: Mapping[str, Any], limit: int) -> list[dict[str, Any]]:
        """Return a config of one task whose texts note the thread."""
        del limit
        return [{NotedText(key): NotedText(value) for key, value in config.items()}]

    def start(self, task: SinkTaskContext) -> None:
        """Note that the first record is still to be read again."""
        del task
        self.rewound = False

    def put(self, task: SinkTaskContext, records: Sequence[SinkRecord]) -> None:
        """Read the first record once more, and pause and resume the partition."""
        put_values.extend(record.value for record in records)
        partition = (NotedText("t"), NotedNumber(0))
        task.pause(partition)
        task.resume(partition)
        if records and not self.rewound:
            self.rewound = True
            task.rewind({partition: NotedNumber(0)})
            task.report(own_record(), ValueError("refused"))
        task.request_commit()

    def pre_commit(self, task: SinkTaskContext, offsets: KafkaOffsets) -> KafkaOffsets:
        """Return the offsets in these classes."""
        del task
        return {
            (NotedText(topic), NotedNumber(number)): NotedNumber(offset)
            for (topic, number), offset in offsets.items()
        }


def delivered_and_committed(worker: ConnectWorker) -> bool:
    """True once the sink has got the record twice, and its offset is committed."""
    committed = committed_offsets(worker, "connect-c")
    return put_values == ["value", "value"] and committed == {("t", 0): 1}


async def test_methods_of_a_sinks_values_run_in_the_authors_threads() -> None:
    """No method of a task config, partition, offset or reported record runs in the event loop."""
    threads.clear()
    put_values.clear()
    loop_thread = threading.main_thread().name
    async with running(SubclassingSink) as worker:
        await produce(worker.plane.log, "t", "value")
        config = config_of(SubclassingSink, topics="t", **WITH_HEADERS)
        await worker.plane.execute(CreateConnector("c", config))
        await until(lambda: loop_thread in threads or delivered_and_committed(worker))
        assert threads
        assert loop_thread not in threads
        [letter] = await dead_letters(worker, 1)
        assert (letter.value, letter.timestamp) == (b"own value", 7)
        assert letter.headers[0] == ("name", b"1")
    assert loop_thread not in threads


def test_paused_partitions_are_read_once() -> None:
    """`pause` and `resume` copy partitions; they compare none with each other."""
    context = SinkContext(TaskIdentity("c", 0), {})
    context.assigned(frozenset({("t", 0), ("t", 1)}))
    threads.clear()
    pair: Any = ["t", 0]
    context.pause(pair, (NotedText("t"), NotedNumber(1)))
    assert context.paused == {("t", 0), ("t", 1)}
    context.resume((NotedText("t"), NotedNumber(0)))
    assert context.paused == {("t", 1)}
    assert not threads


@pytest.mark.parametrize(
    ("partition", "reason"),
    [
        (("t", 1), "t-1, which is not assigned to task c-0"),
        ("t0", "'t0', which is no pair (topic, partition)"),
        (("t", 0, 1), "('t', 0, 1), which is no pair (topic, partition)"),
        (("t", "0"), "('t', '0'), which is no pair (topic, partition)"),
    ],
    ids=repr,
)
def test_a_refused_pause_names_the_wrong_partition(partition: Any, reason: str) -> None:
    """A partition that is not assigned, or is none, is refused; nothing is paused."""
    context = SinkContext(TaskIdentity("c", 0), {})
    context.assigned(frozenset({("t", 0)}))
    with pytest.raises(ConnectError) as refused:
        context.pause(("t", 0), partition)
    assert str(refused.value) == f"pause got {reason}"
    assert not context.paused


def test_a_rewind_may_not_go_beyond_the_last_offset() -> None:
    """No group gets an offset that Kafka cannot store."""
    context = SinkContext(TaskIdentity("c", 0), {})
    with pytest.raises(ConnectError, match=f"an offset for t-0 that is above {LAST_OFFSET}"):
        context.rewind({("t", 0): 10**400})
    context.rewind({("t", 0): LAST_OFFSET})
    assert context.take_rewinds() == {("t", 0): LAST_OFFSET}


def test_a_pause_before_a_retry_may_not_be_too_large() -> None:
    """The error is raised in the author's line, not at the next poll."""
    context = SinkContext(TaskIdentity("c", 0), {})
    with pytest.raises(ConnectError, match="not a number above"):
        context.retry_after(10**400)
    context.retry_after(NotedSeconds(3))
    assert type(context.take_retry_s()) is float


class LyingNumber(int):
    """A whole number that claims to be in every range."""

    __slots__ = ()

    def __lt__(self, _other: object) -> bool:
        return False

    __gt__ = __lt__

    def __le__(self, _other: object) -> bool:
        return True

    __ge__ = __le__


class UnequalNumber(int):
    """A whole number that equals nothing."""

    __slots__ = ()

    def __eq__(self, _other: object) -> bool:
        return False

    __hash__ = int.__hash__


class LyingSeconds(float):
    """A number that claims to be in every range."""

    __slots__ = ()

    def __ge__(self, _other: object) -> bool:
        return True


@pytest.mark.parametrize("seconds", [-5.0, float("nan")])
def test_the_plain_number_of_a_subclass_is_checked(seconds: float) -> None:
    """Comparisons of the author's classes decide nothing."""
    context = SinkContext(TaskIdentity("c", 0), {})
    with pytest.raises(ConnectError, match="Invalid negative offset"):
        context.rewind({("t", 0): LyingNumber(-5)})
    with pytest.raises(ConnectError, match="retry_after needs seconds"):
        context.retry_after(LyingSeconds(seconds))


@pytest.mark.parametrize("seconds", [10**400, -(10**400), "1", float("nan"), None])
def test_a_pause_is_a_number_of_seconds(seconds: Any) -> None:
    """Another value fails the task with a sentence about `task.idle`."""
    with pytest.raises(ConnectError, match=r"task\.idle\(\) needs seconds, not "):
        checked_item("Odd", lambda: "odd.py:1", Idle(seconds))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"kafka_partition": LyingNumber(-5)}, "Invalid partition: -5. Partition number should"),
        ({"kafka_partition": LyingNumber(2**31)}, "Invalid partition: 2147483648. It must fit"),
        ({"kafka_partition": 10**5_000}, "Invalid partition: a number of 16610 bits"),
        ({"timestamp": LyingNumber(-5)}, "Invalid timestamp: -5. Timestamp should"),
        ({"timestamp": LyingNumber(10**30)}, f"Invalid timestamp: {10**30}. It must fit"),
        ({"timestamp": "x"}, "Invalid timestamp: 'x'. It must be an int"),
    ],
    ids=["partition", "int", "long number", "time", "long", "text"],
)
def test_the_plain_numbers_of_a_sources_record_are_checked(
    fields: dict[str, Any], reason: str
) -> None:
    """The log stores no partition or time that Kafka cannot store."""
    pipeline = Pipelines(ConnectorClasses(), QUICK).source({})
    with pytest.raises(DataError, match=f"^{re.escape(reason)}"):
        pipeline.converted(SourceRecord(topic="t", **fields))


def test_an_unknown_time_may_be_of_a_subclass() -> None:
    """The number -1 means no time, also if its class says that it equals nothing."""
    pipeline = Pipelines(ConnectorClasses(), QUICK).source({})
    sent = pipeline.converted(SourceRecord(topic="t", timestamp=UnequalNumber(-1)))
    assert sent is not None
    assert sent.timestamp is None


@pytest.mark.parametrize("field", ["kafka_partition", "kafka_offset", "timestamp"])
def test_the_plain_numbers_of_a_reported_record_are_checked(field: str) -> None:
    """A record that the sink has made itself has numbers that Kafka can store."""
    pipeline = Pipelines(ConnectorClasses(), QUICK).sink({})
    record = SinkRecord(topic="t", kafka_partition=0, kafka_offset=0, timestamp=None)
    assert pipeline.reverted(record).timestamp == -1
    wrong: dict[str, Any] = {field: LyingNumber(10**30)}
    with pytest.raises(DataError, match=f"Invalid [a-z]+: {10**30}. It must fit in"):
        pipeline.reverted(msgspec.structs.replace(record, **wrong))
