"""A source whose polls and hooks a test sets, and a log that delays records."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec
import pytest

from controlplane.connect import (
    RetriableError,
    Source,
    SourceConnector,
    SourceRecord,
    SourceTask,
    key,
)
from controlplane.core.commands import CreateConnector
from controlplane.core.context import DecisionSettings
from controlplane.core.entry import Position
from controlplane.logs.log import Record
from controlplane.logs.memory import MemoryLog
from controlplane.plane import Settings
from controlplane.worker.worker import ConnectWorker
from tests.worker.worker_fixture import QUICK, config_of, offsets, running

Pairs = Sequence[tuple[Any, Any]]

NAME = "source"


class Script:
    """Polls of a task in their order, its hook, and the calls that it got."""

    def __init__(
        self, polls: Sequence[Sequence[SourceRecord]], hook: Callable[[Pairs], Any] | None = None
    ) -> None:
        self.polls = [*polls]
        self.hook = hook
        self.calls: list[str] = []
        self.offsets_shown: list[dict[str, Any]] = []
        """Arguments of each call of the hook: offsets by the name of the partition."""


scripts: list[Script] = []
"""The script of the running test is the last one."""


class ScriptedTask(SourceTask):
    """Returns the polls of the script, then nothing."""

    def poll(self) -> Sequence[SourceRecord] | None:
        """Note the call and return the next scripted poll."""
        script = scripts[-1]
        script.calls.append("poll")
        return script.polls.pop(0) if script.polls else None

    def commit(self) -> None:
        """Note the call in the script."""
        scripts[-1].calls.append("commit")


class HookedTask(ScriptedTask):
    """Has the hook of KIP-910, too."""

    def update_offsets(self, offsets: Pairs) -> Any:
        """Call the hook of the script."""
        script = scripts[-1]
        script.calls.append("hook")
        script.offsets_shown.append({partition["p"]: offset for partition, offset in offsets})
        return None if script.hook is None else script.hook(offsets)


class PlainSource(SourceConnector):
    """Connector of tasks without the hook."""

    config = (key("topic", default="t"),)
    task = ScriptedTask
    exactly_once = True
    boundaries = True

    def start(self, config: Any) -> None:
        """Keep the config for the task."""
        self.config_read = config

    def task_configs(self, limit: int) -> Any:
        """Return one task with the config of the connector."""
        del limit
        return [self.config_read]


class HookedSource(PlainSource):
    """Connector of tasks with the hook."""

    task = HookedTask


POLLS_PER_REQUEST = 3
"""Number of polls for each commit that the task requests."""


class RequestingTask(HookedTask):
    """Requests a commit at every third poll, where the connector sets the boundaries."""

    polls = 0

    def poll(self) -> Any:
        """Return the next scripted poll; request a commit if it is due."""
        self.polls += 1
        if self.context.transaction is not None and self.polls % POLLS_PER_REQUEST == 0:
            self.context.transaction.commit()
        return super().poll()


class RequestingSource(PlainSource):
    """Connector whose task is a `RequestingTask`."""

    task = RequestingTask


def record(partition: str, at: int, topic: str = "t") -> SourceRecord:
    """Return a source record whose value is its offset."""
    return SourceRecord(
        topic=topic, value=str(at), source_partition={"p": partition}, source_offset={"at": at}
    )


class HoldingLog(MemoryLog):
    """Log that appends to the topic `held` only when the test allows it."""

    def __init__(self) -> None:
        super().__init__()
        self.released = asyncio.Event()

    async def append(
        self, records: Sequence[Record], epoch: int | None = None
    ) -> Sequence[Position]:
        """Append; records of the topic `held` wait."""
        if any(each.topic == "held" for each in records):
            await self.released.wait()
        return await super().append(records, epoch)


class Append(NamedTuple):
    """One append to the log: the values of its records, and its offsets by partition."""

    values: list[str]
    offsets: dict[str, int | None]


class RecordingLog(MemoryLog):
    """Log that keeps each append of records or of source offsets."""

    def __init__(self) -> None:
        super().__init__()
        self.appends: list[Append] = []

    @property
    def offsets(self) -> dict[str, int | None]:
        """Latest offset of each partition; None: a tombstone."""
        return {name: at for append in self.appends for name, at in append.offsets.items()}

    async def append(
        self, records: Sequence[Record], epoch: int | None = None
    ) -> Sequence[Position]:
        """Append, and keep the values and offsets."""
        positions = await super().append(records, epoch)
        values = [(each.value or b"").decode() for each in records if each.topic == "t"]
        offsets = {
            json.loads(each.key or b"")[1]["p"]: json.loads(each.value)["at"]
            if each.value is not None
            else None
            for each in records
            if each.topic == "connect-offsets"
        }
        if values or offsets:
            self.appends.append(Append(values, offsets))
        return positions


def hook_of(output: Any) -> Any:
    """Hook that returns the output, or raises it, if its argument has offsets."""

    def hook(shown: Pairs) -> Any:
        if shown and isinstance(output, Exception):
            raise output
        return output if shown else None

    return hook


def at(partition: str, offset: int | None) -> tuple[Any, Any]:
    """Offset in the form of the hook; None: the partition gets a tombstone."""
    return {"p": partition}, None if offset is None else {"at": offset}


READ = {"a": 1, "b": 1}
"""Offsets of the two records that the task polls."""


OUTPUTS = pytest.mark.parametrize(
    ("output", "expected"),
    [
        (None, READ),
        ({}, READ),
        ([at("a", 9)], {"a": 9, "b": 1}),
        ([at("new", 7)], READ | {"new": 7}),
        ([at("a", None)], {"a": None, "b": 1}),
        ([at("gone", None)], READ | {"gone": None}),
        ([at("a", 9), at("new", 7), at("b", None)], {"a": 9, "b": None, "new": 7}),
        (RetriableError("not now"), READ),
    ],
    ids=["null", "empty", "changed", "added", "tombstone", "other tombstone", "all", "retried"],
)
"""Outputs of a hook, and the offsets that are committed for the two records of `READ`."""


@asynccontextmanager
async def scripted(
    script: Script,
    connector: type[SourceConnector] = HookedSource,
    *,
    boundary: str | None = None,
    log: MemoryLog | None = None,
    release: str = "kip",
    tolerance: str = "none",
) -> AsyncIterator[ConnectWorker]:
    """Run a source with this script; a boundary means exactly-once support."""
    scripts.append(script)
    async with running_source(
        connector, boundary=boundary, log=log, release=release, tolerance=tolerance
    ) as worker:
        yield worker


@asynccontextmanager
async def running_source(
    connector: type[SourceConnector] | type[Source],
    *,
    boundary: str | None = None,
    log: MemoryLog | None = None,
    release: str = "kip",
    tolerance: str = "none",
) -> AsyncIterator[ConnectWorker]:
    """Run a source; a boundary means exactly-once support. `tolerance` is `errors.tolerance`."""
    runtime = msgspec.structs.replace(QUICK, exactly_once=boundary is not None)
    settings = Settings(
        profile=release,
        exactly_once=boundary is not None,
        worker=DecisionSettings(exactly_once_source=boundary is not None),
    )
    config = config_of(connector, errors_tolerance=tolerance)
    if boundary is not None:
        config["transaction.boundary"] = boundary
    async with running(connector, runtime=runtime, settings=settings, log=log) as worker:
        await worker.plane.execute(CreateConnector(NAME, config))
        yield worker


def committed(worker: ConnectWorker) -> dict[str, Any]:
    """Committed offsets by the name of the partition."""
    return {text.split("'")[3]: offset["at"] for text, offset in offsets(worker, NAME).items()}
