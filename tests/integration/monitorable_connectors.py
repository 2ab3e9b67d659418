"""Twins of the connectors of Kafka's integration tests, under Kafka's class names.

A worker runs them with `plugin.path=tests.integration.monitorable_connectors`. Settings, records,
offsets and injected errors are Kafka's. Kafka's classes also count their starts and commits for
tests in the same JVM. These do not, because a test of a process cannot read such counts.
"""

import asyncio
from collections.abc import Mapping, Sequence
from threading import Event
from typing import Any

from controlplane.connect import (
    RecordHeader,
    SinkConnector,
    SinkRecord,
    SinkTask,
    SourceConnector,
    SourceRecord,
    SourceTask,
    key,
)
from controlplane.connect.data import INT64, STRING
from controlplane.connect.source import ResolvedConfig
from controlplane.connectors.throttle import Throttle

__all__ = ["BlockingSink", "EmptyConfigsSink", "MonitorableSink", "MonitorableSource"]

PACKAGE = "org.apache.kafka.connect.integration"

REST_S = 0.05
"""Length of an empty poll after the last record. Kafka's task does not wait at all."""


def is_true(config: Mapping[str, Any], name: str) -> bool:
    """True if a setting is `true`, in upper or lower case (`Boolean#parseBoolean`)."""
    return str(config.get(name) or "").lower() == "true"


def task_config(config: ResolvedConfig, number: int) -> ResolvedConfig:
    """Config of a task: the connector's config, and the names of both."""
    name = config["name"]
    return {**config, "connector.name": name, "task.id": f"{name}-{number}"}


class MonitorableSourceTask(SourceTask):
    """Counts from the committed number up to `max.messages`."""

    async def start(self, config: ResolvedConfig) -> None:
        """Read the settings; fail if `task-<task.id>.start.inject.error` says so."""
        self._id = config["task.id"]
        self._topic = config.get("topic", "sequential-topic")
        self._batch = int(config.get("messages.per.poll", "1"))
        self._most = int(config["max.messages"]) if "max.messages" in config else None
        self._throttle = Throttle(int(config.get("throughput", "-1")))
        self._partition = {"task.id": self._id}
        offset = self.context.offset(self._partition) or {}
        self._first = self._seqno = int(str(offset.get("saved") or 0))
        if is_true(config, f"task-{self._id}.start.inject.error"):
            raise RuntimeError("Injecting errors during task start")

    async def poll(self) -> Sequence[SourceRecord]:
        """Return `messages.per.poll` records, at the pace of `throughput` records per second."""
        if self._most is not None and self._seqno >= self._most:
            await asyncio.sleep(REST_S)
            return []
        await self._throttle.wait(self._seqno - self._first)
        left = self._batch if self._most is None else min(self._batch, self._most - self._seqno)
        return [self._next() for _ in range(left)]

    def _next(self) -> SourceRecord:
        self._seqno += 1
        number = self._seqno
        record = SourceRecord(
            topic=self._topic,
            source_partition=self._partition,
            source_offset={"saved": number},
            key=f"key-{self._id}-{number}",
            key_schema=STRING,
            value=f"value-{self._id}-{number}",
            value_schema=STRING,
            headers=(RecordHeader(f"header-{number}", number, INT64),),
        )
        self._request_boundary(record)
        return record

    def _request_boundary(self, record: SourceRecord) -> None:
        """End a transaction after a Fibonacci number: abort if it is even, else commit."""
        transaction = self.context.transaction
        if transaction is None or not is_fibonacci(self._seqno):
            return
        if self._seqno % 2 == 0:
            transaction.abort(record)
        else:
            transaction.commit(record)


def is_fibonacci(number: int) -> bool:
    """True for 1, 2, 3, 5, 8, 13 and so on."""
    last, following = 1, 2
    while last < number:
        last, following = following, last + following
    return last == number


class MonitorableSource(SourceConnector):
    """Source of numbered records.

    It always supports exactly-once and sets boundaries; in Kafka's, two settings decide.
    """

    java_name = f"{PACKAGE}.MonitorableSourceConnector"
    task = MonitorableSourceTask
    exactly_once = True
    boundaries = True

    def start(self, config: ResolvedConfig) -> None:
        """Keep the config for the tasks; fail if `connector.start.inject.error` says so."""
        self._config = config
        if is_true(config, "connector.start.inject.error"):
            raise RuntimeError("Injecting errors during connector start")

    def task_configs(self, limit: int) -> Sequence[ResolvedConfig]:
        """Return `num.tasks` configs; without that setting `limit` of them."""
        tasks = int(self._config.get("num.tasks") or limit)
        return [task_config(self._config, number) for number in range(tasks)]

    def stop(self) -> None:
        """Raise RuntimeError if `connector.stop.inject.error` is true."""
        if is_true(self._config, "connector.stop.inject.error"):
            raise RuntimeError("Injecting errors during connector stop")

    @staticmethod
    def alter_offsets(config: Mapping[str, Any], offsets: Any) -> bool:
        """Return the boolean of `alter.offsets.result`."""
        del offsets
        return is_true(config, "alter.offsets.result")


class MonitorableSinkTask(SinkTask):
    """Drops its records, and lets all of their offsets be committed."""

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Drop the records: only their metrics are observed."""

    def pre_commit(self, offsets: Any) -> Any:
        """Return all offsets, so that the worker commits them."""
        return offsets


class MonitorableSink(SinkConnector):
    """Sink connector that drops its records."""

    java_name = f"{PACKAGE}.MonitorableSinkConnector"
    task = MonitorableSinkTask

    def start(self, config: ResolvedConfig) -> None:
        """Keep the config for the tasks."""
        self._config = config

    def task_configs(self, limit: int) -> Sequence[ResolvedConfig]:
        """Return `limit` configs, each with its number."""
        return [task_config(self._config, number) for number in range(limit)]

    @staticmethod
    def alter_offsets(config: Mapping[str, Any], offsets: Any) -> bool:
        """Return the boolean of `alter.offsets.result`."""
        del offsets
        return is_true(config, "alter.offsets.result")


class BlockingSinkTask(SinkTask):
    """Hangs for ever in the method that `block` names."""

    def start(self, config: ResolvedConfig) -> None:
        """Read the setting `block`, and hang if it names this method."""
        self._block = config.get("block")
        self._hang_in("Task::start")

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Drop the records, or hang if `block` names this method."""
        del records
        self._hang_in("SinkTask::put")

    def flush(self, offsets: Any) -> None:
        """Return at once, or hang if `block` names this method."""
        del offsets
        self._hang_in("SinkTask::flush")

    def pre_commit(self, offsets: Any) -> Any:
        """Return all offsets, or hang if `block` names this method."""
        self._hang_in("SinkTask::preCommit")
        return offsets

    def open(self, partitions: Any) -> None:
        """Return at once, or hang if `block` names this method."""
        del partitions
        self._hang_in("SinkTask::open")

    def close(self, partitions: Any) -> None:
        """Return at once, or hang if `block` names this method."""
        del partitions
        self._hang_in("SinkTask::close")

    def stop(self) -> None:
        """Return at once, or hang if `block` names this method."""
        self._hang_in("Task::stop")

    def _hang_in(self, place: str) -> None:
        if self._block == place:
            Event().wait()


class BlockingSink(SinkConnector):
    """Sink connector whose task hangs in the method that `block` names."""

    java_name = f"{PACKAGE}.BlockingConnectorTest$BlockingSinkConnector"
    config = (key("block", default=""),)
    task = BlockingSinkTask

    def start(self, config: ResolvedConfig) -> None:
        """Keep the config for the tasks."""
        self._config = config

    def task_configs(self, limit: int) -> Sequence[ResolvedConfig]:
        """Return the config of the connector `limit` times."""
        return [self._config] * limit


class DroppingSinkTask(SinkTask):
    """Sink task that drops its records."""

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Drop the records without an error."""


class EmptyConfigsSink(SinkConnector):
    """Sink whose task configs are empty."""

    java_name = f"{PACKAGE}.ConnectWorkerIntegrationTest$EmptyTaskConfigsConnector"
    task = DroppingSinkTask

    def task_configs(self, limit: int) -> Sequence[ResolvedConfig]:
        """Return `limit` configs that are empty."""
        return [{}] * limit
