r"""A connector on a log in memory, for the tests of its author.

    async def test_lines_arrive(tmp_path):
        (tmp_path / "in.txt").write_text("one\n")
        async with trial(Lines, {"file": str(tmp_path / "in.txt"), "topic": "t"}) as run:
            assert [record.value for record in await run.records("t", 1)] == [b"one"]

Most methods of `ConnectorTrial` wait for an event. If the connector or a task has failed, they
raise an `AssertionError` with its trace; `status` does not.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from controlplane.connect.transforms import Predicate, Transformation
from controlplane.core import views
from controlplane.core.commands import CreateConnector
from controlplane.core.entry import Entry
from controlplane.core.records import State, Status
from controlplane.logs.log import Record
from controlplane.logs.memory import MemoryLog
from controlplane.notices import LeveledNotices
from controlplane.observe import logger
from controlplane.plane import ControlPlane, Surroundings
from controlplane.worker.connector_classes import (
    AnyConnectorClass,
    ConnectorClasses,
    class_name,
)
from controlplane.worker.factory import RuntimeEnvironment
from controlplane.worker.settings import RuntimeSettings
from controlplane.worker.worker import ConnectWorker

NAME = "trial"
"""Name of the connector in every trial."""

PATIENCE_S = 30.0
"""Longest wait in seconds for an expected event; then the test fails."""

POLL_S = 0.005

SETTINGS = RuntimeSettings(
    offset_flush_interval_ms=50,
    key_converter="org.apache.kafka.connect.storage.StringConverter",
    value_converter="org.apache.kafka.connect.storage.StringConverter",
)
"""Settings of a trial: short commit intervals, and text as keys and values."""


class _TrialNotices(LeveledNotices):
    """Writes the warnings of a trial to standard error.

    If the task configs of the connector cannot be published, the object also keeps the reason.
    """

    def __init__(self) -> None:
        super().__init__(takes_info=lambda: False)
        self._lines = logger()
        self.split_failure: str | None = None
        """Reason of the last failure to publish task configs; None: there was no failure."""

    def info(self, event: str, **facts: Any) -> None:
        """Ignore a normal event."""

    def warning(self, event: str, **facts: Any) -> None:
        """Write a warning."""
        if event == "task_configs_not_published":
            self.split_failure = facts["reason"]
        self._lines.warning(event, **facts)


class ConnectorTrial:
    """A running connector, and the log that it reads and writes."""

    def __init__(self, worker: ConnectWorker, notices: _TrialNotices) -> None:
        self._worker = worker
        self._notices = notices

    @property
    def plane(self) -> ControlPlane:
        """The control plane: pause, stop and restart the connector with its commands."""
        return self._worker.plane

    async def records(self, topic: str, count: int) -> Sequence[Entry]:
        """Wait for this number of records in a topic; return all that it has then.

        Raises:
            AssertionError: the connector or a task has failed (with its trace), or the records do
                not come.
        """
        log, entries = self.plane.log, list[Entry]()
        async for _ in self._polls(f"{count} records in {topic}"):
            if topic in await log.topics():
                entries = [entry async for batch in log.read([topic]) for entry in batch.entries()]
            if len(entries) >= count:
                break
        return entries

    async def offsets(self, expected: Mapping[str, Any] | None = None) -> list[tuple[Any, Any]]:
        """Return the committed offsets of a source; wait until `expected` is one of them.

        Raises:
            AssertionError: the connector or a task has failed (with its trace), or the offset does
                not come.
        """
        committed: list[tuple[Any, Any]] = []
        async for _ in self._polls(f"the offset {expected}"):
            committed = [
                (dict(view.partition), dict(view.offset))
                for view in views.source_offsets(self.plane.state, NAME)
                if view.offset is not None
            ]
            if expected is None or expected in [offset for _, offset in committed]:
                break
        return committed

    async def produce(self, topic: str, values: Iterable[str | None]) -> None:
        """Write records without a key for a sink; None is a tombstone."""
        log = self.plane.log
        if topic not in await log.topics():
            await log.create_topic(topic, 1)
        now_ms = self.plane.now_ms()
        await log.append(
            [
                Record(topic, 0, now_ms, None, None if value is None else value.encode())
                for value in values
            ]
        )

    async def consumed(self, topic: str, offset: int) -> None:
        """Wait until a sink has committed an offset of a topic's first partition.

        Raises:
            AssertionError: the connector or a task has failed (with its trace), or the commit does
                not come.
        """
        async for _ in self._polls(f"offset {offset} of {topic} to be committed"):
            offsets = await self._worker.cluster.actions.group_offsets(f"connect-{NAME}")
            if any((of, number) == (topic, 0) and end >= offset for of, number, end in offsets):
                break

    async def status(self, state: str, *tasks: str) -> Status:
        """Wait until the connector and its tasks are reported in these states.

        Returns the status of the connector.

        Raises:
            AssertionError: they do not reach these states.
        """
        connector: Status | None = None
        async for _ in self._polls(f"{state} {tasks}", failing=False):
            connector = self.plane.state.status.connectors.get(NAME)
            reported = self.plane.state.status.tasks.get(NAME, {})
            states = [reported[number].state.value for number in sorted(reported)]
            is_in_state = connector is not None and connector.state.value == state
            if is_in_state and states == [*tasks]:
                break
        assert connector is not None
        return connector

    async def _polls(self, awaited: str, *, failing: bool = True) -> AsyncIterator[None]:
        """Iterate at an interval until the caller ends the loop.

        `failing`: a failure of the connector or a task ends the wait.

        Raises:
            AssertionError: `PATIENCE_S` is over; or the connector or a task has failed, and
                `failing` is True.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE_S
        while True:
            yield  # the caller tests first: a failure after the awaited event does not matter
            if failing and (trace := self._trace()) is not None:
                raise AssertionError(f"The connector failed:\n{trace}")
            if loop.time() > deadline:
                raise AssertionError(
                    f"waited {PATIENCE_S:g} s in vain for {awaited}: {self._reported_states()}"
                )
            await asyncio.sleep(POLL_S)

    def _reported_states(self) -> str:
        """Return the states of connector and tasks, with the last line of each trace.

        Without tasks, the failure of `split` follows.
        """
        statuses = self.plane.state.status
        tasks = statuses.tasks.get(NAME, {})
        named = {"the connector": statuses.connectors.get(NAME)}
        named |= {f"task {number}": tasks[number] for number in sorted(tasks)}
        states = ", ".join(f"{name} {_state_text(status)}" for name, status in named.items())
        failure = self._notices.split_failure
        return states if tasks or failure is None else f"{states}; `split` failed: {failure}"

    def _trace(self) -> str | None:
        """Return the trace of the connector or of a task that has failed."""
        status = self.plane.state.status
        reported = [*status.tasks.get(NAME, {}).values()]
        if NAME in status.connectors:
            reported.append(status.connectors[NAME])
        return next((each.trace for each in reported if each.state is State.FAILED), None)


def _state_text(status: Status | None) -> str:
    if status is None:
        return "has no status"
    reason = (status.trace or "").rstrip().rpartition("\n")[2]
    return f"is {status.state.value} ({reason})" if reason else f"is {status.state.value}"


@asynccontextmanager
async def trial(
    connector: AnyConnectorClass,
    config: Mapping[str, str],
    *,
    plugins: Iterable[type[Transformation | Predicate]] = (),
    settings: RuntimeSettings = SETTINGS,
    log: MemoryLog | None = None,
    **changes: Any,
) -> AsyncIterator[ConnectorTrial]:
    """Run a connector on a log in memory until the block ends.

    `plugins`: transformations and predicates that the config may name. `changes` replace fields of
    `settings`. Pass the same `log` again to test a restart.

    Raises:
        Refusal: the config is invalid, in Kafka's words.
    """
    classes = ConnectorClasses(named={class_name(connector): connector}, others=plugins)
    notices = _TrialNotices()
    runtime = msgspec.structs.replace(settings, **changes)
    environment = RuntimeEnvironment(classes, runtime)
    around = Surroundings(notices=notices)
    async with ConnectWorker.open(log or MemoryLog(), environment, around=around) as worker:
        if NAME not in worker.plane.state.config.connectors:
            full = {"connector.class": class_name(connector), **config}
            await worker.plane.execute(CreateConnector(NAME, full))
        yield ConnectorTrial(worker, notices)
