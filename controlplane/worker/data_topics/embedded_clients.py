"""Clients of tasks on a log of our own: data topics lie beside Connect's topics."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import msgspec

from controlplane.connect.errors import ConnectError
from controlplane.controller.log_groups import LogGroups
from controlplane.core.topic_names import GROUPS_TOPIC
from controlplane.logs.kafka.connector_clusters import client_sources
from controlplane.logs.log import Log
from controlplane.notices import Notices
from controlplane.plane import ControlPlane
from controlplane.settings import Configuration, SettingsError
from controlplane.worker.data_topics.client_settings import (
    ClientKind,
    SinkConsumerSettings,
    client_overrides,
    warn_of_settings,
    without_effect_on_a_log,
)
from controlplane.worker.data_topics.clients import (
    Consumer,
    RebalanceCallbacks,
    TaskClients,
    TopicSubscription,
)
from controlplane.worker.data_topics.embedded_consumer import (
    LogConsumer,
    LogConsumerSettings,
    Membership,
)
from controlplane.worker.data_topics.embedded_offsets import LogOffsets
from controlplane.worker.data_topics.embedded_producer import LogProducer, LogTopics, WrittenLog
from controlplane.worker.data_topics.group_assignments import GroupAssignments, GroupMember
from controlplane.worker.data_topics.record_queue import closing_producer
from controlplane.worker.settings import ProducerLimits
from controlplane.worker.task_identity import TaskIdentity


class LogClients:
    """Makes producers and consumers on a log (`clients.TaskClients`)."""

    def __init__(
        self,
        written: WrittenLog,
        groups: LogGroups,
        limits: ProducerLimits,
        internal_topics: frozenset[str] = frozenset(),
        notices: Notices | None = None,
    ) -> None:
        self._written, self._log = written, written.log
        self._notices = notices
        self._groups = groups
        self._limits = limits
        self._internal_topics = internal_topics
        self._topics = LogTopics(self._log, limits.default_partitions)
        self._assignments = GroupAssignments(self._topics.refresh)
        self.offsets = LogOffsets(written, self._topics, limits)
        """Offsets topics of the sources, in the log of the control plane."""

    def state_topics(self, config: Mapping[str, str]) -> frozenset[str]:
        """Return the topics with the control plane's state: all producers write to this log."""
        del config
        return self._internal_topics

    @asynccontextmanager
    async def producer(
        self, task: TaskIdentity, config: Mapping[str, str]
    ) -> AsyncIterator[LogProducer]:
        """Open the producer of a source task, or of a sink's dead letters, until the block ends."""
        self._warn("producer", task, config)
        producer = LogProducer(self._written, self._topics, self._limits)
        async with closing_producer(producer):
            yield producer

    dead_letter_producer = transactional_producer = producer

    @asynccontextmanager
    async def consumer(
        self,
        task: TaskIdentity,
        config: Mapping[str, str],
        group: str,
        subscription: TopicSubscription,
        rebalancing: RebalanceCallbacks,
    ) -> AsyncIterator[Consumer]:
        """Join a consumer group; leave it at the end of the block."""
        self._warn("consumer", task, config)
        overrides = _consumer_settings(client_overrides(config, "consumer"))
        settings = LogConsumerSettings(
            overrides.max_poll_records, overrides.auto_offset_reset, self._internal_topics
        )
        membership = Membership(self._groups, self._assignments, GroupMember(group))
        consumer = LogConsumer(self._log, membership, subscription, rebalancing, settings)
        consumer.join()
        try:
            yield consumer
        finally:
            await consumer.close()

    def _warn(self, client: ClientKind, task: TaskIdentity, config: Mapping[str, str]) -> None:
        if self._notices is not None:
            keys = without_effect_on_a_log(client, client_overrides(config, client))
            warn_of_settings(self._notices, task, [f"{client}.override.{key}" for key in keys])


def _consumer_settings(overrides: Mapping[str, str]) -> SinkConsumerSettings:
    """Return the settings of a consumer; those without effect on a log of our own are not read.

    Raises:
        ConnectError: a value is invalid.
    """
    ignored = without_effect_on_a_log("consumer", overrides)
    effective = {key: value for key, value in overrides.items() if key not in ignored}
    sources = client_sources(Configuration(), "consumer", effective)
    try:
        return Configuration(*sources).settings(SinkConsumerSettings)
    except SettingsError as failure:
        raise ConnectError(str(failure)) from failure


class LogCluster:
    """A log of our own with Connect's topics and the data topics (`clients.TaskCluster`)."""

    def __init__(self, log: Log, now_ms: Callable[[], int], limits: ProducerLimits) -> None:
        self._log = log
        self._limits = limits
        self._plane: ControlPlane | None = None
        self._groups = LogGroups(log, self._epoch, now_ms)

    @property
    def actions(self) -> LogGroups:
        """Consumer groups of the log, which execute the external actions of commands."""
        return self._groups

    @asynccontextmanager
    async def clients(self, plane: ControlPlane) -> AsyncIterator[TaskClients]:
        """Open the clients of the tasks under this control plane."""
        self._plane = plane
        await self._groups.open()
        internal_topics = frozenset({*msgspec.structs.astuple(plane.state.topics), GROUPS_TOPIC})
        yield LogClients(
            WrittenLog(self._log, lambda: plane.epoch, plane.now_ms),
            self._groups,
            self._limits,
            internal_topics,
            plane.notices,
        )

    def _epoch(self) -> int | None:
        return None if self._plane is None else self._plane.epoch
