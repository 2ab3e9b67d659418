"""Twins of Kafka's `MockSourceConnector` and `MockSinkConnector`: they fail after a while.

`mock_mode=connector-failure` fails the connector, `mock_mode=task-failure` its only task, after
`delay_ms` milliseconds (15,000). Without `mock_mode` they do nothing.
"""

import asyncio
from collections.abc import Sequence
from time import monotonic

from controlplane.connect import (
    ConnectorContext,
    SinkConnector,
    SinkRecord,
    SinkTask,
    SourceConnector,
    SourceRecord,
    SourceTask,
)
from controlplane.connect.source import ResolvedConfig

MODE, DELAY = "mock_mode", "delay_ms"
CONNECTOR_FAILURE, TASK_FAILURE = "connector-failure", "task-failure"

DEFAULT_DELAY_MS = 15_000

POLL_S = 0.25
"""Pause of a source task's poll; the task looks at the clock before each pause."""


def _delay_s(config: ResolvedConfig) -> float:
    return int(config.get(DELAY) or DEFAULT_DELAY_MS) / 1_000


class _FailingTask:
    """Clock of a task that fails."""

    def __init__(self) -> None:
        self._fails_at: float | None = None

    async def start(self, config: ResolvedConfig) -> None:
        """Set the time of the failure."""
        if config.get(MODE) == TASK_FAILURE:
            self._fails_at = monotonic() + _delay_s(config)

    def _fail_when_due(self) -> None:
        """Fail once the time has come.

        Raises:
            RuntimeError: the time of the failure has come.
        """
        if self._fails_at is not None and monotonic() > self._fails_at:
            raise RuntimeError


class MockSourceTask(_FailingTask, SourceTask):
    """Returns no records, and fails when its time has come."""

    async def poll(self) -> Sequence[SourceRecord]:
        """Return no records after `POLL_S`; fail when the time has come."""
        self._fail_when_due()
        await asyncio.sleep(POLL_S)
        return []


class MockSinkTask(_FailingTask, SinkTask):
    """Drops its records, and may fail."""

    async def put(self, records: Sequence[SinkRecord]) -> None:
        """Drop the records; fail when the time has come."""
        del records
        self._fail_when_due()


class _FailingConnector:
    """A connector with one task; the connector may fail."""

    context: ConnectorContext

    def __init__(self) -> None:
        self._config: ResolvedConfig = {}
        self._failure: asyncio.TimerHandle | None = None

    async def start(self, config: ResolvedConfig) -> None:
        self._config = config
        if config.get(MODE) == CONNECTOR_FAILURE:
            loop = asyncio.get_running_loop()
            self._failure = loop.call_later(_delay_s(config), self.context.fail, RuntimeError())

    def task_configs(self, limit: int) -> Sequence[ResolvedConfig]:
        """Return the config of the only task."""
        del limit
        return [self._config]

    async def stop(self) -> None:
        if self._failure is not None:
            self._failure.cancel()


class MockSource(_FailingConnector, SourceConnector):
    """Source that fails as `mock_mode` says."""

    task = MockSourceTask


class MockSink(_FailingConnector, SinkConnector):
    """Sink that fails as `mock_mode` says."""

    task = MockSinkTask
