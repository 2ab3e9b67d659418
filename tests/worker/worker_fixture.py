"""Worker on a log in memory for tests, and helpers that read its state."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from controlplane.controller.log_groups import LogGroups
from controlplane.core import views
from controlplane.core.entry import Entry, TopicPartition
from controlplane.core.records import Status
from controlplane.logs.log import Log, Record
from controlplane.logs.memory import MemoryLog
from controlplane.notices import Notices
from controlplane.plane import Settings, Surroundings
from controlplane.settings.providers import Providers
from controlplane.worker.connector_classes import ConnectorClasses, class_name
from controlplane.worker.data_topics.embedded_producer import LogProducer
from controlplane.worker.factory import RuntimeEnvironment
from controlplane.worker.settings import RuntimeSettings
from controlplane.worker.worker import ConnectWorker
from tests.patience import PATIENCE_S

STRING = "org.apache.kafka.connect.storage.StringConverter"

QUICK = RuntimeSettings(
    offset_flush_interval_ms=20,
    offset_flush_timeout_ms=2_000,
    task_shutdown_graceful_timeout_ms=30_000,
    connector_stop_timeout_ms=30_000,
    publish_retry_first_ms=10,
    key_converter=STRING,
    value_converter=STRING,
)
"""Runtime settings with short intervals. A busy machine reaches no limit of a stop."""

ABANDONING = msgspec.structs.replace(
    QUICK, task_shutdown_graceful_timeout_ms=500, connector_stop_timeout_ms=500
)
"""Runtime settings with which code that hangs is abandoned soon."""


@asynccontextmanager
async def running(
    *classes: type[Any],
    runtime: RuntimeSettings = QUICK,
    settings: Settings | None = None,
    log: Log | None = None,
    others: Iterable[type[Any]] = (),
    notices: Notices | None = None,
    providers: Providers | None = None,
) -> AsyncIterator[ConnectWorker]:
    """Run a worker with these classes, transformations and predicates."""
    async with running_classes(
        ConnectorClasses(classes, others=others),
        runtime=runtime,
        settings=settings,
        log=log,
        notices=notices,
        providers=providers,
    ) as worker:
        yield worker


@asynccontextmanager
async def running_classes(
    classes: ConnectorClasses,
    *,
    runtime: RuntimeSettings = QUICK,
    settings: Settings | None = None,
    log: Log | None = None,
    notices: Notices | None = None,
    providers: Providers | None = None,
) -> AsyncIterator[ConnectWorker]:
    """Run a worker with classes by name."""
    environment = RuntimeEnvironment(classes, runtime, providers or Providers({}, {}))
    async with ConnectWorker.open(
        log or MemoryLog(), environment, settings, Surroundings(notices=notices)
    ) as worker:
        yield worker


class RecordedNotices:
    """Keeps the notices of a worker."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []
        self.warnings: list[str] = []
        """Events of the warnings."""

    def info(self, event: str, **facts: Any) -> None:
        """Keep the event and its facts."""
        self.lines.append((event, facts))

    def warning(self, event: str, **facts: Any) -> None:
        """Keep the event and its facts."""
        self.lines.append((event, facts))
        self.warnings.append(event)

    def of(self, event: str) -> list[dict[str, Any]]:
        """Facts of all notices of an event."""
        return [facts for name, facts in self.lines if name == event]


async def until(condition: Callable[[], Any]) -> Any:
    """Wait until a condition holds; return its value."""
    async with asyncio.timeout(PATIENCE_S):
        while not (value := condition()):  # noqa: ASYNC110 - no single event makes it true
            await asyncio.sleep(0.002)
    return value


def config_of(connector: type[Any], **config: str) -> dict[str, str]:
    """Config of a connector of this class; `_` in a key stands for a dot."""
    dotted = {key.replace("_", "."): value for key, value in config.items()}
    return {"connector.class": class_name(connector), **dotted}


def connector_status(worker: ConnectWorker, name: str) -> Status | None:
    """Reported status of a connector; None without one."""
    return worker.plane.state.status.connectors.get(name)


def task_states(worker: ConnectWorker, name: str) -> list[str]:
    """Reported states of the tasks of a connector, by number."""
    statuses = worker.plane.state.status.tasks.get(name, {})
    return [statuses[task].state.value for task in sorted(statuses)]


async def until_state(worker: ConnectWorker, name: str, state: str, *tasks: str) -> None:
    """Wait until the reported states of a connector and its tasks are these."""

    def reached() -> bool:
        status = connector_status(worker, name)
        reported = status is not None and status.state.value == state
        return reported and task_states(worker, name) == [*tasks]

    try:
        await until(reached)
    except TimeoutError:
        status = connector_status(worker, name)
        tasks_now = worker.plane.state.status.tasks.get(name, {})
        raise AssertionError(f"{name}: {status}, {dict(tasks_now)}") from None


async def produce(log: Log, topic: str, *values: str, partitions: int = 1) -> None:
    """Append values to the partitions of a topic in turn."""
    await log.create_topic(topic, partitions)
    await log.append(
        [
            Record(topic, number % partitions, 1_000, None, value.encode())
            for number, value in enumerate(values)
        ]
    )


async def entries_in(log: Log, topic: str) -> list[Entry]:
    """Records of a topic, by partition and offset."""
    if topic not in await log.topics():
        return []
    return [
        entry async for batch in log.read([topic]) for entry in batch.entries() if not entry.aborted
    ]


def task_trace(worker: ConnectWorker, name: str, task: int = 0) -> str:
    """Trace of a task; empty without one."""
    status = worker.plane.state.status.tasks.get(name, {}).get(task)
    return "" if status is None else status.trace or ""


def closed_producers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets `abandoned` or `ended` when the producer of a task was closed."""
    closed: list[str] = []
    close = LogProducer.close

    async def closing(producer: LogProducer, *, abandoned: bool = False) -> None:
        await close(producer, abandoned=abandoned)
        closed.append("abandoned" if abandoned else "ended")

    monkeypatch.setattr(LogProducer, "close", closing)
    return closed


async def values_in(log: Log, topic: str) -> list[bytes | None]:
    """Values of the records in a topic, by partition and offset."""
    return [entry.value for entry in await entries_in(log, topic)]


async def until_values(log: Log, topic: str, values: Iterable[bytes]) -> None:
    """Wait until a topic holds at least these values, in this order at its beginning."""
    expected = [*values]
    async with asyncio.timeout(PATIENCE_S):
        while (await values_in(log, topic))[: len(expected)] != expected:  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def offsets(worker: ConnectWorker, name: str) -> dict[str, Any]:
    """Committed offsets of a source: `str(partition)` → offset."""
    return {
        str(dict(view.partition)): dict(view.offset)
        for view in views.source_offsets(worker.plane.state, name)
        if view.offset is not None
    }


def committed_offsets(worker: ConnectWorker, group: str) -> dict[TopicPartition, int]:
    """Committed offsets of a consumer group on the log."""
    groups = worker.cluster.actions
    assert isinstance(groups, LogGroups)
    return dict(groups.committed(group))
