"""Producers and consumers of tasks on Kafka's brokers."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial

import msgspec

from controlplane.controller.kafka_actions import KafkaActions
from controlplane.controller.remote_offsets import RemoteOffsetTopics
from controlplane.core.java.java_library import trim
from controlplane.core.topics.remote_offsets import has_other_brokers
from controlplane.core.topics.source_partitions import is_remote
from controlplane.logs.kafka.admin.topic_admin import TopicAdmin
from controlplane.logs.kafka.appends.fenced_batches import FencedBatches
from controlplane.logs.kafka.appends.independent_appends import IndependentAppends
from controlplane.logs.kafka.appends.transactions import Transactions
from controlplane.logs.kafka.connector_clusters import ConnectorClusters
from controlplane.logs.kafka.reads.group_consumer import GroupConsumer
from controlplane.logs.kafka.reads.read_back import ReadBackReader
from controlplane.plane import ControlPlane
from controlplane.settings import Configuration
from controlplane.worker.data_topics.client_settings import (
    AdminSettings,
    ProducerSettings,
    SinkConsumerSettings,
    option_values,
    write_limits,
)
from controlplane.worker.data_topics.clients import (
    Consumer,
    OffsetTopics,
    OffsetWriter,
    Producer,
    RebalanceCallbacks,
    TaskClients,
    TopicSubscription,
    TransactionalProducer,
)
from controlplane.worker.data_topics.embedded_offsets import LogOffsets
from controlplane.worker.data_topics.embedded_producer import LogTopics, WrittenLog
from controlplane.worker.data_topics.kafka_connections import (
    ClientConnection,
    ClientConnections,
    TaskClient,
)
from controlplane.worker.data_topics.kafka_consumer import KafkaTaskConsumer
from controlplane.worker.data_topics.kafka_offsets import (
    BrokerOffsets,
    BrokerOffsetWriter,
    RoutedOffsetWriter,
    check_claim,
)
from controlplane.worker.data_topics.kafka_producer import (
    IdempotentTaskProducer,
    RecordPlacer,
    TransactionalTaskProducer,
)
from controlplane.worker.data_topics.kafka_topics import (
    KafkaTopicCreator,
    ensure_dead_letter_topic,
)
from controlplane.worker.data_topics.record_queue import closing_producer
from controlplane.worker.settings import ProducerLimits
from controlplane.worker.task_identity import TaskIdentity

DEAD_LETTER_TOPIC = "errors.deadletterqueue.topic.name"
DEAD_LETTER_REPLICAS = "errors.deadletterqueue.topic.replication.factor"
DEAD_LETTER_REPLICAS_DEFAULT = "3"

_OWN_OPTIONS = {"client_id": "controlplane-offsets"}


class KafkaClients:
    """Makes producers and consumers on brokers (`clients.TaskClients`)."""

    def __init__(
        self,
        connections: ClientConnections,
        offsets: OffsetTopics,
        plane: ControlPlane,
    ) -> None:
        self._connections = connections
        self.offsets = offsets
        """Offsets topics of the sources, on brokers or in the control plane's log."""
        self._plane = plane

    def state_topics(self, config: Mapping[str, str]) -> frozenset[str]:
        """Return the topics of the control plane's state on the cluster of a task's producer."""
        if not self.offsets.on_brokers or has_other_brokers(config, self._plane.context.worker):
            return frozenset()
        return frozenset(msgspec.structs.astuple(self._plane.state.topics))

    @asynccontextmanager
    async def producer(
        self, task: TaskIdentity, config: Mapping[str, str]
    ) -> AsyncIterator[Producer]:
        """Open the producer of a source task, and close it at the end of the block."""
        client = TaskClient(task, config, "producer")
        settings = self._connections.settings(client, ProducerSettings)
        async with (
            self._producing(client, settings, f"connector-producer-{task}") as connection,
            self._creating(task, config) as creator,
            self._offset_writer(connection, settings, config) as offsets,
            self._idempotent(connection, creator, settings, offsets) as producer,
        ):
            yield producer

    @asynccontextmanager
    async def dead_letter_producer(
        self, task: TaskIdentity, config: Mapping[str, str]
    ) -> AsyncIterator[Producer | None]:
        """Open the producer of a sink task's dead letters, and create their topic; None: no topic.

        Raises:
            ConnectError: the topic cannot be created.
        """
        topic = trim(config.get(DEAD_LETTER_TOPIC) or "")
        if not topic:
            yield None
            return
        replicas = int(config.get(DEAD_LETTER_REPLICAS) or DEAD_LETTER_REPLICAS_DEFAULT)
        async with self._administering(task, config) as connection:
            admin = TopicAdmin(connection.cluster, self._connections.reading)
            await ensure_dead_letter_topic(connection.topics, admin, topic, replicas)
            creator = KafkaTopicCreator(connection.topics, admin)  # never asked: the topic exists
        client = TaskClient(task, config, "producer")
        settings = self._connections.settings(client, ProducerSettings)
        async with (
            self._producing(client, settings, f"connector-dlq-producer-{task}") as connection,
            self.offsets.writer() as offsets,
            self._idempotent(connection, creator, settings, offsets) as producer,
        ):
            yield producer

    @asynccontextmanager
    async def transactional_producer(
        self, task: TaskIdentity, config: Mapping[str, str]
    ) -> AsyncIterator[TransactionalProducer]:
        """Open the producer of a source task with exactly-once support; it fences older ones.

        Raises:
            Fenced: another process has claimed the plane's log.
            LogNotUsable: this user may not use the transactional id.
        """
        assert self.offsets.on_brokers, "exactly-once support needs the offsets on brokers"
        client = TaskClient(task, config, "producer")
        settings = self._connections.settings(client, ProducerSettings)
        async with (
            self._producing(client, settings, f"connector-producer-{task}") as connection,
            self._creating(task, config) as creator,
            self._copies(config) as copies,
        ):
            limits = write_limits(settings)
            transactions = Transactions(
                connection.cluster,
                f"{self._plane.context.worker.group_id}-{task}",
                limits,
                FencedBatches(connection.cluster, limits),
                ReadBackReader(connection.cluster, self._connections.reading),
            )
            placer = self._placer(connection, settings)
            check = partial(check_claim, self._plane)
            producer = TransactionalTaskProducer(transactions, placer, creator, check, copies)
            try:
                await producer.claim()
                yield producer
            finally:
                await producer.close()

    @asynccontextmanager
    async def consumer(
        self,
        task: TaskIdentity,
        config: Mapping[str, str],
        group: str,
        subscription: TopicSubscription,
        rebalancing: RebalanceCallbacks,
    ) -> AsyncIterator[Consumer]:
        """Join the consumer group of a sink task; leave it at the end of the block."""
        client = TaskClient(task, config, "consumer")
        settings = self._connections.settings(client, SinkConsumerSettings)
        options = option_values("consumer", settings)
        name = {"client_id": settings.client_id or f"connector-consumer-{task}"}
        max_age_ms = settings.metadata_max_age_ms
        async with self._connections.opened(client, name, max_age_ms) as connection:
            consumer = GroupConsumer(connection.cluster, group, options, rebalancing)
            try:
                selects = None if subscription.pattern is None else subscription.selects
                await consumer.start(subscription.topics, selects)
                yield KafkaTaskConsumer(consumer)
            finally:
                await consumer.close()

    @asynccontextmanager
    async def _producing(
        self, client: TaskClient, settings: ProducerSettings, name: str
    ) -> AsyncIterator[ClientConnection]:
        options = option_values("producer", settings)
        options["client_id"] = settings.client_id or name
        max_age_ms = settings.metadata_max_age_ms
        async with self._connections.opened(client, options, max_age_ms) as connection:
            yield connection

    @asynccontextmanager
    async def _administering(
        self, task: TaskIdentity, config: Mapping[str, str]
    ) -> AsyncIterator[ClientConnection]:
        client = TaskClient(task, config, "admin")
        self._connections.settings(client, AdminSettings)
        name = {"client_id": f"connector-adminclient-{task}"}
        async with self._connections.opened(client, name, 0) as connection:
            yield connection

    @asynccontextmanager
    async def _creating(
        self, task: TaskIdentity, config: Mapping[str, str]
    ) -> AsyncIterator[KafkaTopicCreator]:
        """Open the creator of a source's topics; it connects when it is used."""
        async with self._administering(task, config) as connection:
            admin = TopicAdmin(connection.cluster, self._connections.reading)
            yield KafkaTopicCreator(connection.topics, admin)

    @asynccontextmanager
    async def _copies(self, config: Mapping[str, str]) -> AsyncIterator[OffsetWriter | None]:
        """Open a writer of the worker's offsets topic, for copies of a task's offsets.

        There are copies if the task commits its offsets to another topic (`OffsetBatches`). None:
        the task's producer uses the worker's cluster. Then this producer writes any copies itself.
        """
        if self.offsets.remote_topic(config) is None:
            yield None
            return
        async with self.offsets.writer() as copies:
            yield copies

    @asynccontextmanager
    async def _offset_writer(
        self, connection: ClientConnection, settings: ProducerSettings, config: Mapping[str, str]
    ) -> AsyncIterator[OffsetWriter]:
        """Open the writer of a task's offsets; `connection`: that of its producer."""
        async with self.offsets.writer() as home:
            if self.offsets.remote_topic(config) is None:
                yield home
                return
            appends = IndependentAppends(connection.cluster, write_limits(settings))
            check = partial(check_claim, self._plane)
            remote = BrokerOffsetWriter(appends, self._placer(connection, settings), check)
            try:
                yield RoutedOffsetWriter(is_remote, remote, home)
            finally:
                await remote.close()

    @asynccontextmanager
    async def _idempotent(
        self,
        connection: ClientConnection,
        creator: KafkaTopicCreator,
        settings: ProducerSettings,
        offsets: OffsetWriter,
    ) -> AsyncIterator[IdempotentTaskProducer]:
        producer = IdempotentTaskProducer(
            IndependentAppends(connection.cluster, write_limits(settings)),
            self._placer(connection, settings),
            creator,
            offsets,
            settings,
        )
        async with closing_producer(producer):
            yield producer

    def _placer(self, connection: ClientConnection, settings: ProducerSettings) -> RecordPlacer:
        return RecordPlacer(connection.topics, settings, self._plane.now_ms)


class BrokerCluster:
    """Brokers with the data topics of a worker (`clients.TaskCluster`)."""

    def __init__(
        self,
        bootstrap: str,
        configuration: Configuration,
        clusters: ConnectorClusters,
        *,
        offsets_in_log: bool = False,
    ) -> None:
        """Open no connection yet.

        If `bootstrap` is empty, the setting `bootstrap.servers` is used. `offsets_in_log`: the log
        of the control plane has the offsets of sources; then no source can have exactly-once
        support.
        """
        self._bootstrap = bootstrap
        self._configuration = configuration
        self._remote = RemoteOffsetTopics(bootstrap, configuration)
        self._actions = KafkaActions(clusters, None if offsets_in_log else self._remote)
        self._offsets_in_log = offsets_in_log

    @property
    def actions(self) -> KafkaActions:
        """Executor of external actions: it changes consumer groups, and fences producers."""
        return self._actions

    @asynccontextmanager
    async def clients(self, plane: ControlPlane) -> AsyncIterator[TaskClients]:
        """Open the clients of the tasks under this control plane."""
        connections = ClientConnections(self._bootstrap, self._configuration, plane.notices)
        opened = _log_offsets if self._offsets_in_log else self._broker_offsets
        async with opened(connections, plane) as offsets:
            yield KafkaClients(connections, offsets, plane)

    @asynccontextmanager
    async def _broker_offsets(
        self, connections: ClientConnections, plane: ControlPlane
    ) -> AsyncIterator[OffsetTopics]:
        max_age_ms = ProducerSettings().metadata_max_age_ms
        async with connections.opened(None, _OWN_OPTIONS, max_age_ms) as own:
            yield BrokerOffsets(own, self._configuration, self._remote, plane)


@asynccontextmanager
async def _log_offsets(_: ClientConnections, plane: ControlPlane) -> AsyncIterator[OffsetTopics]:
    written = WrittenLog(plane.log, lambda: plane.epoch, plane.now_ms)
    limits = ProducerLimits()
    yield LogOffsets(written, LogTopics(plane.log, limits.default_partitions), limits)
