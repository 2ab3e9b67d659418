"""Transformations that fail, and a source and a sink around them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from controlplane.connect import RetriableError, Sink, SinkRecord, SinkTaskContext, Source, key
from controlplane.connect.source import SourceRun
from controlplane.connect.transforms import ConnectRecord, Transformation
from controlplane.core.commands import CreateConnector
from controlplane.core.entry import Entry
from controlplane.worker.connector_classes import class_name
from controlplane.worker.worker import ConnectWorker
from tests.worker.worker_fixture import (
    committed_offsets,
    config_of,
    entries_in,
)

put: dict[str, list[str]] = {}
"""Values that each sink of these tests has got, by connector."""

closed: list[str] = []
"""Transformations that were closed, by their setting `mark`."""


def forget_records() -> None:
    """Begin a test with nothing put or closed."""
    put.clear()
    closed.clear()
    Shaky.failures = 0


class Picky(Transformation):
    """Refuses values that begin with `bad`."""

    config = (key("mark", default="picky"),)

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """Raise ValueError for a value that begins with `bad`."""
        if str(record.value).startswith("bad"):
            raise ValueError(f"cannot read {record.value}")
        return record

    def close(self) -> None:
        """Append the setting `mark` to `closed`."""
        closed.append(self.settings["mark"])


class Shaky(Transformation):
    """Raises a retriable error for `bad`, in the first `failures` calls of all instances."""

    config = (key("failures", "INT", "0"),)
    failures = 0

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """Raise RetriableError for `bad` until there were `failures` of them."""
        if record.value == "bad" and Shaky.failures < int(self.settings["failures"]):
            Shaky.failures += 1
            raise RetriableError(f"failure {Shaky.failures}")
        return record


class KeepingSink(Sink):
    """Sink that keeps the values that it gets."""

    def start(self, task: SinkTaskContext) -> None:
        """Make a place for the values."""
        put.setdefault(task.connector, [])

    def put(self, task: SinkTaskContext, records: Sequence[SinkRecord]) -> None:
        """Append the values to those of the connector."""
        put[task.connector] += [str(record.value) for record in records]


class ValuesSource(Source):
    """Yields the comma-separated values of its config, then idles."""

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
    """Committed offsets of a consumer group."""
    return committed_offsets(worker, group)


async def create_sink(worker: ConnectWorker, sink: type[Any], **config: str) -> None:
    """Create a sink `s` for the topic `t`."""
    await worker.plane.execute(CreateConnector("s", config_of(sink, topics="t") | config))


TOLERANT = {"errors.tolerance": "all"}
DEAD_LETTERS = {**TOLERANT, "errors.deadletterqueue.topic.name": "dead"}
WITH_HEADERS = {**DEAD_LETTERS, "errors.deadletterqueue.context.headers.enable": "true"}


async def dead_letters(worker: ConnectWorker, count: int) -> list[Entry]:
    """Wait for this number of dead letters; return them."""
    async with asyncio.timeout(60):
        while len(letters := await entries_in(worker.plane.log, "dead")) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    return letters
