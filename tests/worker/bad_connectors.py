"""Connectors that misbehave as a test plans, beside a good neighbour."""

import asyncio
import os
import re
import sys
import threading
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from time import monotonic, sleep
from typing import Any

import httpx
import msgspec

from controlplane.connect import (
    Sink,
    SinkConnector,
    SinkTask,
    Source,
    SourceConnector,
    SourceTask,
)
from controlplane.connect.records import SourceRecord
from controlplane.connect.source import SourceRun
from controlplane.core.commands import (
    CreateConnector,
    DeleteConnector,
)
from controlplane.logs.log import Log
from controlplane.worker.worker import ConnectWorker
from tests.patience import PATIENCE_S
from tests.worker.worker_fixture import (
    QUICK,
    RecordedNotices,
    committed_offsets,
    config_of,
    connector_status,
    offsets,
    produce,
    running,
    task_states,
    until,
    until_state,
)

SHORT = msgspec.structs.replace(
    QUICK, task_shutdown_graceful_timeout_ms=100, connector_stop_timeout_ms=100
)
"""Worker settings with which hanging connectors are abandoned soon."""

EXIT_CODE = 99

released = threading.Event()
"""Set at the end of a test: it releases all hanging code."""

calls: list[str] = []
"""Methods that have misbehaved, in order."""

ended: list[str] = []
"""Methods that hung, and have returned: once `released` is set, or else after `PATIENCE_S`. So an
entry before `released` means that the test has waited that long."""

blocked: list[str] = []
"""Methods and texts that hang at the moment."""

plan: dict[str, Any] = {}
"""Place and kind of the misbehaviour: `where`, `how`, `returned`."""


class Odd(BaseException):
    """Exception that no `except Exception` catches."""


class Unprintable(ValueError):
    """Exception whose text cannot be read."""

    def __str__(self) -> str:
        raise RuntimeError("no str")

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class BlockingText(Exception):
    """Exception whose text blocks until the end of the test."""

    def __str__(self) -> str:
        return block_text()

    def __repr__(self) -> str:
        return block_text()


def block_text() -> str:
    """Block until the end of the test, and return a text."""
    calls.append("text")
    with _until_released("text"):
        calls.append("text ended")
    return "late"


@contextmanager
def _until_released(place: str) -> Iterator[None]:
    """Wait until the end of the test, then run the body of the `with` statement."""
    blocked.append(place)
    try:
        released.wait(PATIENCE_S)
        yield
    finally:
        blocked.remove(place)


def fresh_plan() -> Iterator[None]:
    """Begin a test without a plan; release all hanging code at its end, and wait for it."""
    plan.clear()
    calls.clear()
    ended.clear()
    released.clear()
    yield
    released.set()
    until_s = monotonic() + PATIENCE_S
    while blocked and monotonic() < until_s:  # it must note nothing in the next test
        sleep(0.001)


def act(place: str, otherwise: Any = None) -> Any:
    """Misbehave, if the plan names this place; else return a sane value."""
    if plan.get("where") != place:
        return otherwise
    calls.append(place)
    if plan["how"] in RAISED:
        _raise(plan["how"], f"bad {place}")
    match plan["how"]:
        case "hang":
            _hang(place)
        case "spin":
            end_s = monotonic() + PATIENCE_S
            while not released.is_set() and monotonic() < end_s:
                pass
            calls.append(f"{place} ended")
        case "blocking text":
            raise plan.get("raised", BlockingText)
        case "block":
            return _blocking(place)
        case "return":
            return plan["returned"]
    return otherwise


def _raise(how: str, message: str) -> None:
    """Raise the exception of the plan."""
    match how:
        case "raise":
            raise ValueError(message)
        case "exit":
            sys.exit(message)
        case "os exit":
            os._exit(EXIT_CODE)
        case "cancel":
            raise asyncio.CancelledError(message)
        case "cancel task":
            task = asyncio.current_task()
            assert task is not None
            task.cancel(message)
        case "stop loop":
            asyncio.get_running_loop().stop()
        case "odd":
            raise Odd(message)
        case "unprintable":
            raise Unprintable


async def _blocking(place: str) -> None:
    """Coroutine that blocks its event loop."""
    _hang(place)


def _hang(place: str) -> None:
    """Block until `released`, and note the end in `ended`."""
    with _until_released(place):
        ended.append(place)


RECORD = SourceRecord(topic="bad", value="v", source_partition={"p": 1}, source_offset={"at": 1})


class BadTask(SourceTask):
    """Misbehaves in the method of the plan; else it returns the same record again and again."""

    def __init__(self) -> None:
        act("task.init")

    def start(self, *_: Any) -> Any:
        """Misbehave if the plan names `task.start`."""
        return act("task.start")

    def poll(self) -> Any:
        """Misbehave if the plan names `task.poll`; else return a record."""
        threading.Event().wait(0.005)
        return act("task.poll", [RECORD])

    def commit(self) -> Any:
        """Misbehave if the plan names `task.commit`."""
        return act("task.commit")

    def commit_record(self, *_: Any) -> Any:
        """Misbehave if the plan names `task.commit_record`."""
        return act("task.commit_record")

    def update_offsets(self, *_: Any) -> Any:
        """Misbehave if the plan names `task.update_offsets`."""
        return act("task.update_offsets")

    def stop(self) -> Any:
        """Misbehave if the plan names `task.stop`."""
        return act("task.stop")


class BadSource(SourceConnector):
    """Misbehaves in the method of the plan."""

    task = BadTask

    def __init__(self) -> None:
        act("connector.init")

    def start(self, *_: Any) -> Any:
        """Misbehave if the plan names `connector.start`."""
        return act("connector.start")

    def task_configs(self, *_: Any) -> Any:
        """Misbehave if the plan names `connector.task_configs`; else return one."""
        return act("connector.task_configs", [{}])

    def stop(self) -> Any:
        """Misbehave if the plan names `connector.stop`."""
        return act("connector.stop")


class BadSinkTask(SinkTask):
    """Misbehaves in the method of the plan."""

    def __init__(self) -> None:
        act("sink.init")

    def start(self, *_: Any) -> Any:
        """Misbehave if the plan names `sink.start`."""
        return act("sink.start")

    def open(self, *_: Any) -> Any:
        """Misbehave if the plan names `sink.open`."""
        return act("sink.open")

    def put(self, records: Any) -> Any:
        """Misbehave if the plan names `sink.put` and there are records."""
        return act("sink.put") if records else None

    def flush(self, *_: Any) -> Any:
        """Misbehave if the plan names `sink.flush`."""
        return act("sink.flush")

    def pre_commit(self, *_: Any) -> Any:
        """Misbehave if the plan names `sink.pre_commit`."""
        return act("sink.pre_commit")

    def close(self, *_: Any) -> Any:
        """Misbehave if the plan names `sink.close`."""
        return act("sink.close")

    def stop(self) -> Any:
        """Misbehave if the plan names `sink.stop`."""
        return act("sink.stop")


class BadSink(SinkConnector):
    """Sink connector whose task is a `BadSinkTask`."""

    task = BadSinkTask

    def task_configs(self, limit: int) -> Any:
        """Return one config for each task."""
        return [{}] * limit


class CountingOn(Source):
    """Source that counts without end."""

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Yield the numbers from 1 on."""
        at = 0
        while True:
            at += 1
            yield task.record(str(at), {"good": 1}, {"at": at}, topic="good")
            yield task.idle(0.005)


@asynccontextmanager
async def with_neighbour(
    *classes: type[Any],
    notices: RecordedNotices | None = None,
    log: Log | None = None,
    others: Iterable[type[Any]] = (),
) -> AsyncIterator[ConnectWorker]:
    """Run a worker with a good neighbour; check at the end that it still works undisturbed."""
    async with running(
        CountingOn, *classes, runtime=SHORT, notices=notices, log=log, others=others
    ) as worker:
        await worker.plane.execute(CreateConnector("good", config_of(CountingOn)))
        await until_state(worker, "good", "RUNNING", "RUNNING")
        try:
            yield worker
            before = counted(worker)
            await until(lambda: counted(worker) > before)
            assert task_states(worker, "good") == ["RUNNING"]
        finally:
            released.set()


def counted(worker: ConnectWorker, name: str = "good") -> int:
    """Number that a `CountingOn` connector has committed."""
    return int(offsets(worker, name).get("{'good': 1}", {"at": 0})["at"])


async def delete(worker: ConnectWorker, name: str) -> None:
    """Delete a connector, and wait until its statuses are gone."""
    await worker.plane.execute(DeleteConnector(name))
    await until(lambda: connector_status(worker, name) is None and not task_states(worker, name))


@asynccontextmanager
async def rest_of(worker: ConnectWorker) -> AsyncIterator[httpx.AsyncClient]:
    """Open a client of the worker's REST API."""
    transport = httpx.ASGITransport(worker.plane.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://connect") as client:
        yield client


def group_offsets(worker: ConnectWorker) -> dict[tuple[str, int], int]:
    """Committed offsets of the bad sink."""
    return committed_offsets(worker, "connect-bad")


async def create_bad(worker: ConnectWorker, connector: type[Any], **config: str) -> None:
    """Create the bad connector; a sink gets two records."""
    if issubclass(connector, SinkConnector | Sink):
        await produce(worker.plane.log, "t", "a", "b")
        config["topics"] = "t"
    await worker.plane.execute(CreateConnector("bad", config_of(connector, **config)))


def message_of(where: str, how: str) -> str:
    """Message of the exception that a place raises, as traces and log lines spell it."""
    texts = {
        "unprintable": "<exception str() failed>",
        "os exit": f"{EXIT_CODE}",
        "stop loop": "Cannot stop the event loop of a connector: the runtime needs it",
    }
    return texts.get(how, f"bad {where}")


def check_trace(trace: str, where: str, how: str) -> None:
    """Check that a trace has the exception and the author's line that raised it."""
    assert f"{RAISED[how]}: {message_of(where, how)}" in trace.splitlines(), trace
    author_line = rf'bad_connectors\.py", line \d+, in \w+\n +(return )?act\("{where}"[,)]'
    assert re.search(author_line, trace), trace


def threads_of(name: str) -> list[str]:
    """Threads of the author's code for a connector."""
    return [thread.name for thread in threading.enumerate() if f" {name}" in thread.name]


def record(**fields: Any) -> SourceRecord:
    """Record with other values in some fields."""
    return msgspec.structs.replace(RECORD, **fields)


RAISED = {
    "raise": "ValueError",
    "exit": "SystemExit",
    "os exit": "SystemExit",
    "cancel": "asyncio.exceptions.CancelledError",
    "cancel task": "asyncio.exceptions.CancelledError",
    "stop loop": "RuntimeError",
    "odd": "tests.worker.bad_connectors.Odd",
    "unprintable": "tests.worker.bad_connectors.Unprintable",
}
"""Exception of each way to raise, as a trace spells it."""

RAISING = [*RAISED]

FAILS_CONNECTOR = ["connector.init", "connector.start"]
FAILS_TASK = ["task.init", "task.start", "task.poll", "task.update_offsets"]
FAILS_SINK = ["sink.init", "sink.start", "sink.open", "sink.put"]
