"""Values of subclasses that connectors hand over: the author's threads run their methods."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from controlplane.connect import (
    ConnectError,
    Sink,
    SinkRecord,
    SinkTaskContext,
    Source,
    SourceRun,
)
from controlplane.connect.sink import KafkaOffsets
from controlplane.core.commands import CreateConnector
from controlplane.worker.drivers.sink_drivers import SinkContext
from controlplane.worker.task_identity import TaskIdentity
from tests.worker.worker_fixture import (
    committed_offsets,
    config_of,
    produce,
    running,
    until,
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
    __eq__ = _noted("__eq__", int)
    __hash__ = _noted("__hash__", int)
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


put_values: list[Any] = []
"""Values that the sink has got."""


class SubclassingSink(Sink):
    """Hands over partitions and offsets of these classes."""

    def split(self, config: Mapping[str, Any], limit: int) -> list[dict[str, Any]]:
        """Return a config of one task whose texts note the thread."""
        del limit
        return [{NotedText(key): NotedText(value) for key, value in config.items()}]

    def start(self, task: SinkTaskContext) -> None:
        """Note where the first record is read again."""
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
        task.request_commit()

    def pre_commit(self, task: SinkTaskContext, offsets: KafkaOffsets) -> KafkaOffsets:
        """Return the offsets in these classes."""
        del task
        return {
            (NotedText(topic), NotedNumber(number)): NotedNumber(offset)
            for (topic, number), offset in offsets.items()
        }


async def test_methods_of_a_sinks_values_run_in_the_authors_threads() -> None:
    """No method of a task config, partition or offset runs in the event loop."""
    threads.clear()
    put_values.clear()
    async with running(SubclassingSink) as worker:
        await produce(worker.plane.log, "t", "value")
        await worker.plane.execute(CreateConnector("c", config_of(SubclassingSink, topics="t")))
        await until(lambda: put_values == ["value", "value"])
        await until(lambda: committed_offsets(worker, "connect-c") == {("t", 0): 1})
    assert threads
    assert threading.main_thread().name not in threads


def test_a_pause_before_a_retry_may_not_be_too_large() -> None:
    """The error is raised in the author's line, not at the next poll."""
    context = SinkContext(TaskIdentity("c", 0), {})
    with pytest.raises(ConnectError, match="not a number above"):
        context.retry_after(10**400)
    context.retry_after(NotedSeconds(3))
    assert type(context.take_retry_s()) is float
