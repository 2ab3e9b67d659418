"""Errors about a source's values name the author's line or method; enum members become plain."""

import inspect
from collections.abc import AsyncIterator, Iterator
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from typing import Any

import pytest

from controlplane.connect import Source
from controlplane.connect.source import Idle, SourceRun
from controlplane.core.commands import CreateConnector, RestartTask
from controlplane.worker.offsets.source_offsets import plain_fields
from tests.worker.bad_connectors import BadSource, calls, create_bad, plan, record
from tests.worker.worker_fixture import (
    config_of,
    entries_in,
    offsets,
    running,
    task_trace,
    until,
    until_state,
)


class YieldingAsync(Source):
    """Yields the nonsense of the plan in a coroutine."""

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Yield a sane item, then the nonsense."""
        yield task.idle(0)
        yield plan["returned"]  # the line of the error


class YieldingPlain(Source):
    """Yields the nonsense of the plan in a plain generator."""

    def read(self, task: SourceRun) -> Iterator[Any]:
        """Yield a sane item, then the nonsense."""
        yield task.idle(0)
        yield plan["returned"]  # the line of the error


class YieldingNested(Source):
    """Yields the nonsense of the plan in a generator within another."""

    def read(self, task: SourceRun) -> Iterator[Any]:
        """Hand over to another generator."""
        yield task.idle(0)
        yield from self._items()

    def _items(self) -> Iterator[Any]:
        yield plan["returned"]  # the line of the error


class Iterating(Source):
    """Returns an iterator that has no frame."""

    def read(self, task: SourceRun) -> Iterator[Any]:
        """Return an iterator over the nonsense."""
        del task
        return iter([plan["returned"]])


def line_of_error(source: type[Source]) -> str:
    """File and line of the `yield` that the tests mark."""
    lines, first = inspect.getsourcelines(source)
    marked = next(number for number, line in enumerate(lines) if "the line of the error" in line)
    return f"{Path(__file__)}:{first + marked}"


NONSENSE = {
    "number": 5,
    "set": {1, 2},
    "list of numbers": [5],
    "set in an offset": record(source_offset={"at": {1}}),
    "object in a partition": record(source_partition={"p": object()}),
    "no headers": record(headers=None),
    "pause of text": Idle("x"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", NONSENSE)
@pytest.mark.parametrize("source", [YieldingAsync, YieldingPlain, YieldingNested])
async def test_the_message_names_the_line_of_the_yield(source: type[Source], name: str) -> None:
    """The message begins with file and line of the `yield`."""
    plan["returned"] = NONSENSE[name]
    async with running(source) as worker:
        await worker.plane.execute(CreateConnector("bad", config_of(source)))
        await until_state(worker, "bad", "RUNNING", "FAILED")
        assert f"Error: {line_of_error(source)}: " in last_line(task_trace(worker, "bad"))


def last_line(trace: str) -> str:
    """Last line of a trace: class and message of the exception."""
    return trace.splitlines()[-1]


async def test_the_message_names_the_class_of_an_iterator_without_a_frame() -> None:
    """The message begins with class and method."""
    plan["returned"] = {1}
    async with running(Iterating) as worker:
        await worker.plane.execute(CreateConnector("bad", config_of(Iterating)))
        await until_state(worker, "bad", "RUNNING", "FAILED")
        assert "ConnectError: Iterating.read" in last_line(task_trace(worker, "bad"))


@pytest.mark.parametrize(
    ("where", "returned"),
    [
        ("poll", 5),
        ("poll", {5}),
        ("poll", [record(source_offset={"at": {1}})]),
        ("update_offsets", 5),
        ("update_offsets", [({"p": 1}, {"at": {1}})]),
    ],
)
async def test_the_message_names_class_and_method(where: str, returned: Any) -> None:
    """The message begins with class and method."""
    plan.update(where=f"task.{where}", how="return", returned=returned)
    async with running(BadSource) as worker:
        await create_bad(worker, BadSource)
        await until_state(worker, "bad", "RUNNING", "FAILED")
        assert f"Error: BadTask.{where}: " in last_line(task_trace(worker, "bad"))


# --- members of enums -----------------------------------------------------------------------------


class Table(StrEnum):
    """Enum whose members are also text."""

    ORDERS = "orders"


class Spelled(str, Enum):  # noqa: UP042 - the test is about this form
    """Names in the form before `StrEnum`."""

    NAME = "name"


class StepNumber(IntEnum):
    """Enum whose members are also integers."""

    SECOND = 2


class Seconds(float):
    """Number with a unit."""

    __slots__ = ()


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Table.ORDERS, "orders"),
        (Spelled.NAME, "name"),
        (StepNumber.SECOND, 2),
        (Seconds(1.5), 1.5),
        (True, True),
        (None, None),
    ],
)
def test_values_of_subclasses_become_plain(value: Any, plain: Any) -> None:
    """Values and names become instances of the plain class."""
    fields = plain_fields({Spelled.NAME: value})
    assert fields == {"name": plain}
    assert [type(text) for text in fields] == [str]
    assert type(fields["name"]) is type(plain)


class Enumerating(Source):
    """Uses members of enums in partitions and offsets."""

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Note the committed offset, and yield a record."""
        part = {"table": Table.ORDERS}
        calls.append(str(task.offset(part)))
        yield task.record("x", part, {"step": StepNumber.SECOND, "age": Seconds(1.5)}, topic="t")
        while True:
            yield task.idle(0.01)


async def test_offsets_with_members_of_enums_are_committed() -> None:
    """The worker commits them, and a restarted task finds them."""
    async with running(Enumerating) as worker:
        await worker.plane.execute(CreateConnector("bad", config_of(Enumerating)))
        expected = {"step": 2, "age": 1.5}
        await until(lambda: offsets(worker, "bad") == {"{'table': 'orders'}": expected})
        await worker.plane.execute(RestartTask("bad", 0))
        await until(lambda: len(calls) > 1)
        assert calls == ["None", str(expected)]
        assert await entries_in(worker.plane.log, "t")
