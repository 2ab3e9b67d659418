"""Values of subclasses that a source hands over: their methods run in the author's threads only."""

import threading
from collections.abc import Iterator
from typing import Any

from controlplane.connect import Source, SourceRun
from controlplane.core.commands import CreateConnector
from tests.worker.worker_fixture import config_of, running, until_values

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
