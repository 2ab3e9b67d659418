"""Clients of tasks on a log of our own: data topics lie beside Connect's topics."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec

from controlplane.core.order import Ends
from controlplane.core.topic_names import GROUPS_TOPIC
from controlplane.logs.log import Log
from controlplane.plane import ControlPlane
from controlplane.worker.data_topics.client_settings import client_overrides
from controlplane.worker.data_topics.clients import (
    Consumer,
    Producer,
    Rebalancing,
    TaskClients,
    TopicSubscription,
)
from controlplane.worker.data_topics.embedded_consumer import (
    ConsumerSettings,
    LogConsumer,
    Membership,
)
from controlplane.worker.data_topics.embedded_groups import GroupAssignments, GroupMember, LogGroups
from controlplane.worker.data_topics.embedded_producer import LogProducer, LogTopics
from controlplane.worker.settings import ProducerLimits
from controlplane.worker.task_identity import TaskIdentity


class LogWriter(NamedTuple):
    """A log, and the epoch and clock with which this process writes it."""

    log: Log
    epoch: Callable[[], int]
    now_ms: Callable[[], int]


class LogClients:
    """Makes producers and consumers on a log (`clients.TaskClients`)."""

    def __init__(
        self,
        writer: LogWriter,
        groups: LogGroups,
        limits: ProducerLimits,
        internal_topics: frozenset[str] = frozenset(),
    ) -> None:
        self._log, self._epoch, self._now_ms = writer
        self._groups = groups
        self._limits = limits
        self._internal_topics = internal_topics
        self._topics = LogTopics(self._log, limits.default_partitions)
        self._assignments = GroupAssignments(self._topics.partitions)

    @asynccontextmanager
    async def producer(
        self, task: TaskIdentity, config: Mapping[str, str]
    ) -> AsyncIterator[Producer]:
        """Open the producer of a source task, and close it at the end of the block."""
        del task, config
        producer = LogProducer(self._log, self._topics, self._epoch(), self._now_ms, self._limits)
        try:
            yield producer
        finally:
            await producer.close()

    dead_letter_producer = producer

    @asynccontextmanager
    async def consumer(
        self,
        task: TaskIdentity,
        config: Mapping[str, str],
        group: str,
        subscription: TopicSubscription,
        rebalancing: Rebalancing,
    ) -> AsyncIterator[Consumer]:
        """Join a consumer group; leave it at the end of the block."""
        del task
        settings = ConsumerSettings(
            internal_topics=self._internal_topics,
            **_consumer_settings(client_overrides(config, "consumer")),
        )
        membership = Membership(self._groups, self._assignments, GroupMember(group))
        consumer = LogConsumer(self._log, membership, subscription, rebalancing, settings)
        consumer.join()
        try:
            yield consumer
        finally:
            await consumer.close()

    async def create_offsets_topic(self, topic: str, like: str) -> None:
        """Create an offsets topic with the partitions of another one."""
        await self._topics.create(topic, await self._topics.found_or_created(like), {})

    async def offset_ends(self, topics: Sequence[str]) -> Ends:
        """Return the ends of topics: a transaction of a log is never open."""
        return await self._log.ends(topics)


def _consumer_settings(overrides: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings of a consumer that mean something on a log of our own."""
    settings: dict[str, Any] = {}
    if (most := overrides.get("max.poll.records")) is not None:
        settings["max_poll_records"] = int(most)
    if (reset := overrides.get("auto.offset.reset")) is not None:
        settings["auto_offset_reset"] = reset
    return settings


class LogCluster:
    """A log of our own whose topics are the data topics, too (`clients.TaskCluster`)."""

    def __init__(self, log: Log, now_ms: Callable[[], int], limits: ProducerLimits) -> None:
        self._log = log
        self._limits = limits
        self._plane: ControlPlane | None = None
        self._groups = LogGroups(log, self._epoch, now_ms)

    @property
    def actions(self) -> LogGroups:
        """Consumer groups of the log."""
        return self._groups

    @asynccontextmanager
    async def clients(self, plane: ControlPlane) -> AsyncIterator[TaskClients]:
        """Open the clients of the tasks under this control plane."""
        self._plane = plane
        await self._groups.open()
        internal_topics = frozenset({*msgspec.structs.astuple(plane.state.topics), GROUPS_TOPIC})
        yield LogClients(
            LogWriter(self._log, lambda: plane.epoch, plane.now_ms),
            self._groups,
            self._limits,
            internal_topics,
        )

    def _epoch(self) -> int | None:
        return None if self._plane is None else self._plane.epoch
