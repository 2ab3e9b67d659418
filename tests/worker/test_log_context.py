"""Log context (KIP-449): each line about a connector or a task names it."""

import asyncio
import io
import json
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest

from controlplane.connect import Sink, SinkRecord, SinkTaskContext, Source, SourceConnector
from controlplane.connect.source import SourceRun, SourceTask
from controlplane.core.commands import CreateConnector, DeleteConnector
from controlplane.observe import Logger, StdlibLogBridge, connector_context, logger
from controlplane.worker.data_topics.clients import ProducerFailure
from controlplane.worker.data_topics.embedded_producer import LogProducer
from tests.worker.worker_fixture import config_of, produce, running, task_states, until

AUTHORS = logging.getLogger("tests.author")
"""Logger of the connectors in this file."""


class LogLines:
    """Log of a process, as JSON lines."""

    def __init__(self) -> None:
        self._stream = io.StringIO()
        self.logger: Logger = logger(self._stream, log_format="json")

    def context_of(self, event: str) -> str | None:
        """Context of the latest line of an event; None without a line."""
        lines = map(json.loads, self._stream.getvalue().splitlines())
        contexts = [line.get("connector.context", "") for line in lines if line["event"] == event]
        return contexts[-1] if contexts else None


@pytest.fixture
def log() -> Iterator[LogLines]:
    """Log of notices and of the authors' lines, as with `serve`."""
    lines = LogLines()
    bridge = StdlibLogBridge(lines.logger)
    AUTHORS.addHandler(bridge)
    AUTHORS.propagate = False
    yield lines
    AUTHORS.removeHandler(bridge)
    AUTHORS.propagate = True


class AsyncAuthor(Source):
    """Logs from its async generator, its watch, a thread of the loop, and its hooks."""

    async def watch(self, connector: Any) -> None:  # noqa: ARG002
        """Log a line from `watch`."""
        AUTHORS.warning("watching")

    def split(self, config: Any, limit: int) -> Any:
        """Log a line from `split`."""
        AUTHORS.warning("splitting")
        return super().split(config, limit)

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Log from the loop and from a thread, then yield a record."""
        AUTHORS.warning("reading")
        await asyncio.to_thread(AUTHORS.warning, "in a thread of the loop")
        yield task.record("x", {"p": 1}, {"at": 1}, topic="t")
        while True:
            yield task.idle(0.01)

    def committed(self, task: SourceRun) -> None:  # noqa: ARG002
        """Log a line when offsets were committed."""
        AUTHORS.warning("told of a commit")


class PlainAuthor(Source):
    """Source that logs from a plain generator."""

    def read(self, task: SourceRun) -> Iterator[Any]:
        """Log a line, then wait."""
        AUTHORS.warning("reading")
        while True:
            yield task.idle(0.01)


class ClassicTask(SourceTask):
    """Task that logs from `poll`."""

    def start(self, config: Any) -> None:
        """Start without a line of its own."""

    def poll(self) -> Any:
        """Log a line from `poll`."""
        AUTHORS.warning("polling")

    def stop(self) -> None:
        """Stop without a line of its own."""


class ClassicAuthor(SourceConnector):
    """Logs from `start`, and has a `ClassicTask`."""

    task = ClassicTask

    def start(self, config: Any) -> None:
        """Log a line and keep the config."""
        AUTHORS.warning("starting")
        self._config = config

    def task_configs(self, limit: int) -> Any:  # noqa: ARG002
        """Return the configs of two tasks."""
        return [{}, {}]

    def stop(self) -> None:
        """Stop without a line of its own."""


class SinkAuthor(Sink):
    """Sink that logs from `put`."""

    def put(self, task: SinkTaskContext, records: Sequence[SinkRecord]) -> None:  # noqa: ARG002
        """Log a line if there are records."""
        if records:
            AUTHORS.warning("putting")


async def test_lines_of_an_async_generator_have_the_context_of_the_task(log: LogLines) -> None:
    """The context is that of the task, also in a thread that the generator uses."""
    async with running(AsyncAuthor) as worker:
        await worker.plane.execute(CreateConnector("a b", config_of(AsyncAuthor)))
        await until(lambda: log.context_of("in a thread of the loop"))
        assert log.context_of("reading") == "[a b|task-0]"
        assert log.context_of("in a thread of the loop") == "[a b|task-0]"


async def test_lines_of_split_and_watch_have_the_context_of_the_connector(log: LogLines) -> None:
    """`split` and `watch` belong to the connector, not to a task."""
    async with running(AsyncAuthor) as worker:
        await worker.plane.execute(CreateConnector("a", config_of(AsyncAuthor)))
        await until(lambda: log.context_of("splitting") and log.context_of("watching"))
        assert log.context_of("splitting") == "[a|worker]"
        assert log.context_of("watching") == "[a|worker]"


async def test_lines_of_a_plain_generator_have_the_context_of_the_task(log: LogLines) -> None:
    """A plain generator runs in a thread of its own, with the context of its task."""
    async with running(PlainAuthor) as worker:
        await worker.plane.execute(CreateConnector("p", config_of(PlainAuthor)))
        await until(lambda: log.context_of("reading"))
        assert log.context_of("reading") == "[p|task-0]"


async def test_lines_of_the_classic_classes_have_their_own_contexts(log: LogLines) -> None:
    """Connector and task each have their own context."""
    async with running(ClassicAuthor) as worker:
        config = config_of(ClassicAuthor, tasks_max="2")
        await worker.plane.execute(CreateConnector("c", config))
        await until(lambda: log.context_of("polling") == "[c|task-1]")
        assert log.context_of("starting") == "[c|worker]"


async def test_lines_of_a_sink_have_the_context_of_the_task(log: LogLines) -> None:
    """`put` has the context of its task."""
    async with running(SinkAuthor) as worker:
        await produce(worker.plane.log, "t", "x")
        await worker.plane.execute(CreateConnector("s", config_of(SinkAuthor, topics="t")))
        await until(lambda: log.context_of("putting"))
        assert log.context_of("putting") == "[s|task-0]"


async def test_lines_of_a_commit_have_a_scope_of_their_own(
    log: LogLines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commits at intervals have a scope of their own, also in the runtime's line."""

    async def refused(*_: Any) -> None:
        raise ProducerFailure("no space left")

    async with running(AsyncAuthor, notices=log.logger) as worker:
        await worker.plane.execute(CreateConnector("a", config_of(AsyncAuthor)))
        await until(lambda: log.context_of("told of a commit"))
        assert log.context_of("told of a commit") == "[a|task-0|offsets]"
        # The patch below would refuse commits of `a`, too.
        await worker.plane.execute(DeleteConnector("a"))
        await until(lambda: not task_states(worker, "a"))
        monkeypatch.setattr(LogProducer, "write_offsets", refused)
        await worker.plane.execute(CreateConnector("b", config_of(AsyncAuthor)))
        await until(lambda: log.context_of("offsets_not_committed"))
        assert log.context_of("offsets_not_committed") == "[b|task-0|offsets]"


class UnsplittableSource(AsyncAuthor):
    """Source whose `split` fails."""

    def split(self, config: Any, limit: int) -> Any:  # noqa: ARG002
        """Raise OSError, so that there are no task configs."""
        raise OSError("no device")


async def test_lines_of_the_runtime_about_a_connector_have_its_context(log: LogLines) -> None:
    """The runtime's own line about a connector has its context."""
    async with running(UnsplittableSource, notices=log.logger) as worker:
        await worker.plane.execute(CreateConnector("f", config_of(UnsplittableSource)))
        await until(lambda: log.context_of("task_configs_not_published"))
        assert log.context_of("task_configs_not_published") == "[f|worker]"


class FailingAuthor(Source):
    """Source whose task fails at once."""

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Raise ValueError after an idle period."""
        yield task.idle(0)
        raise ValueError("no")


async def test_lines_of_the_runtime_about_a_task_have_its_context(log: LogLines) -> None:
    """The line about a failed task has its context."""
    async with running(FailingAuthor, notices=log.logger) as worker:
        await worker.plane.execute(CreateConnector("f", config_of(FailingAuthor)))
        await until(lambda: log.context_of("task_failed"))
        assert log.context_of("task_failed") == "[f|task-0]"


def test_the_field_follows_the_event_in_logfmt() -> None:
    """The field follows the event; a line about no connector lacks the field."""
    stream = io.StringIO()
    tell = logger(stream)
    with connector_context("c", "task-0"):
        tell.info("a", b=1)
    tell.info("a", b=1)
    first, second = stream.getvalue().splitlines()
    assert first.endswith("event=a connector.context=[c|task-0] b=1")
    assert second.endswith("event=a b=1")


def test_the_field_follows_the_event_in_json() -> None:
    """The field follows the event; a line about no connector lacks the field."""
    stream = io.StringIO()
    tell = logger(stream, log_format="json")
    with connector_context("c", "worker"):
        tell.info("a", b=1)
    tell.info("a", b=1)
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert [*first] == ["timestamp", "level", "event", "connector.context", "b"]
    assert first["connector.context"] == "[c|worker]"
    assert [*second] == ["timestamp", "level", "event", "b"]
