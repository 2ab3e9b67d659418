"""A source of numbers, and a sink that keeps its records."""

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from controlplane.connect import RetriableError, Sink, SinkRecord, SinkTaskContext, Source, key
from controlplane.connect.source import SourceRun

put: dict[str, list[str]] = {}
"""Values that each sink of these tests has got, by connector."""


class CountingSource(Source):
    """Counts from the committed number on, up to `count` of the config."""

    config = (key("topic"), key("count", "INT", 3))

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Yield the numbers behind the committed offset, as text."""
        for item in counted(task):
            yield item


def counted(task: SourceRun) -> Iterator[Any]:
    """Items of a source that counts from its committed offset on, and then idles."""
    part = {"source": "numbers"}
    at = int(str((task.offset(part) or {"at": 0})["at"]))
    while True:
        while at < int(task.config.get("count", "3")):
            at += 1
            yield task.record(str(at), part, {"at": at})
        yield task.idle(0.01)


class CollectingSink(Sink):
    """Keeps its records; fails as its config says."""

    config = (key("fail", default=""),)

    def __init__(self) -> None:
        self.attempts = 0

    def start(self, task: SinkTaskContext) -> None:
        """Make a place for the values."""
        put.setdefault(task.connector, [])

    def put(self, task: SinkTaskContext, records: Sequence[SinkRecord]) -> None:
        """Keep the values, or fail as the config says."""
        self.attempts += bool(records)
        if records and task.config["fail"] == "once" and self.attempts == 1:
            task.retry_after(0.01)
            raise RetriableError("later")
        if records and task.config["fail"] == "always":
            raise ValueError("no more")
        put[task.connector] += [str(record.value) for record in records]

    def flush(self, task: SinkTaskContext, offsets: Any) -> None:
        """Fail once if the config says so."""
        del offsets
        if task.config["fail"] == "flush" and put[task.connector] and self.attempts == 1:
            self.attempts += 1
            raise ValueError("no flush")
