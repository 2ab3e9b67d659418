"""Contracts of the clients that tasks use: producers and consumers of data topics.

The modules `embedded_*` implement them on our own logs, the modules `kafka_*` on brokers.
"""

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from controlplane.connect.records import RecordMetadata
from controlplane.controller.external import ExternalActions, HasLogEnds
from controlplane.core.entry import Entry, Headers, TopicPartition
from controlplane.core.java.regular_expressions import JavaPattern
from controlplane.core.order import Ends
from controlplane.core.plan import Draft
from controlplane.core.state import OffsetState
from controlplane.logs.log import Record
from controlplane.plane import ControlPlane
from controlplane.worker.data_topics.topic_rules import WantedTopic
from controlplane.worker.task_identity import TaskIdentity

if TYPE_CHECKING:
    import asyncio


class ProducerRecord(msgspec.Struct, frozen=True, gc=False):
    """Converted record, ready to be sent."""

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int | None = None
    """Partition; None: chosen by the key."""
    timestamp: int | None = None
    """Milliseconds since 1970; None: the time of sending."""
    headers: Headers = ()
    place: str = ""
    """Place in the author's code from which the record comes; empty: unknown."""


def note_place(failure: BaseException, place: str) -> None:
    """Add a line to the trace: the place in the author's code from which a failed record comes."""
    if place:
        with suppress(Exception):  # an author's class may refuse notes
            BaseException.add_note(failure, f"The record comes from {place}")


class ProducerFailure(Exception):
    """A record cannot be sent; a retry would not help."""

    place = ""
    """Place in the author's code from which the record comes; empty: unknown."""


class DeliveryTimeout(ProducerFailure):
    """A log of our own is unavailable until the end of a time limit; no record is the cause."""


async def with_place(record: ProducerRecord, placing: Awaitable[Record]) -> Record:
    """Await `placing`, which chooses a record's partition and time.

    If that fails, the failure gets the record's place in the author's code.

    Raises:
        ProducerFailure: the record cannot be sent.
    """
    try:
        return await placing
    except ProducerFailure as failure:
        failure.place = record.place
        raise


class ProducerFenced(Exception):
    """A newer task with the same identity, or another process, has taken over."""


class TopicCreator(Protocol):
    """Creates the topics of a source connector before their first record (KIP-158)."""

    async def ensure_topic(self, topic: WantedTopic) -> None:
        """Create a topic unless it exists.

        Raises:
            ConnectError: the brokers refuse to create it.
            ProducerFailure, ProducerFenced: a log of our own cannot create it.
        """
        ...


class OffsetWriter(Protocol):
    """Writes the offsets of a source task."""

    async def write_offsets(self, offsets: Sequence[Draft]) -> None:
        """Append offsets; durable when this returns.

        Raises:
            ProducerFailure, ProducerFenced: some or all were not appended.
        """
        ...


class Producer(TopicCreator, OffsetWriter, Protocol):
    """Producer of one task. Records of a partition keep their order."""

    async def send(
        self, records: Sequence[ProducerRecord]
    ) -> "Sequence[asyncio.Future[RecordMetadata]]":
        """Queue records, waiting for room; return the acknowledgement of each.

        A future fails with `ProducerFailure`, or `ProducerFenced`.
        """
        ...


class TransactionalProducer(TopicCreator, OffsetWriter, Protocol):
    """Producer of one source task with exactly-once support; opening it fences its predecessor."""

    async def transact(
        self, records: Sequence[ProducerRecord], offsets: Sequence[Draft]
    ) -> Sequence[RecordMetadata]:
        """Append records and offsets in one transaction; return the positions of the records.

        Raises:
            ProducerFailure: nothing was appended, or it is unknown whether it was.
            ProducerFenced: nothing was appended.
        """
        ...


class OffsetTopics(Protocol):
    """Offsets topics of the sources of one worker."""

    @property
    def on_brokers(self) -> bool:
        """True if the topics are on the brokers that have the records."""
        ...

    def writer(self) -> AbstractAsyncContextManager[OffsetWriter]:
        """Open a writer for a task; close it at the end of the block."""
        ...

    async def create(self, topic: str, like: str) -> None:
        """Create a connector's own topic with as many partitions as the worker's topic, `like`.

        Raises:
            LogError: it cannot be created.
        """
        ...

    def remote_topic(self, config: Mapping[str, str]) -> str | None:
        """Return the offsets topic of a connector on another cluster; None: it has none there.

        `config`: the connector's, resolved. The cluster is that of the connector's producer.
        """
        ...

    async def read_remote(
        self, topic: str, config: Mapping[str, str], *, awaits_transactions: bool
    ) -> OffsetState:
        """Create a topic on the cluster of a connector's producer, if missing; return its offsets.

        `awaits_transactions`: wait for the end of all transactions that are open at the call.

        Raises:
            LogError: they cannot be read.
            SettingsError: a setting of a client is invalid.
        """
        ...

    async def ends(self, topics: Sequence[str]) -> Ends:
        """Return the ends of topics; records of open transactions lie before these ends.

        Raises:
            LogError: they cannot be read.
        """
        ...


class TopicSubscription(NamedTuple):
    """Topics by name, or by a regular expression that matches their whole name."""

    topics: Sequence[str]
    pattern: JavaPattern | None = None

    def selects(self, topic: str) -> bool:
        """True if this topic is consumed."""
        if self.pattern is None:
            return topic in self.topics
        return self.pattern.matches(topic)


class Consumer(Protocol):
    """Consumer of one sink task. Its group assigns partitions to it."""

    async def poll(self, timeout_s: float) -> Sequence[Entry]:
        """Return records of the partitions that are not paused; empty after the time-out."""
        ...

    async def attend(self, timeout_s: float) -> None:
        """Take part in rebalances for a time, or until `wake_up`, and return no records."""
        ...

    def wake_up(self) -> None:
        """Let a waiting `poll` or `attend` return at once."""
        ...

    async def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Set the positions: the next `poll` returns records from these offsets on."""
        ...

    def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record."""
        ...

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """Partitions that the group has assigned to this consumer."""
        ...

    async def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Pause these partitions: `poll` returns none of their records."""
        ...

    async def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """End a pause: `poll` returns records of these partitions again."""
        ...

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets of the group.

        Raises:
            ProducerFailure: they are not committed, or it is unknown whether they are.
        """
        ...


class RebalanceCallbacks(Protocol):
    """Callbacks of a consumer about its partitions; they run within `poll` or `attend`."""

    async def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Commit and close these partitions, before another consumer gets them."""
        ...

    async def lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Close these partitions without a commit: another consumer may have them already."""
        ...

    async def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Open these partitions; the consumer is at their committed offsets.

        The consumer makes this call at the end of a rebalance, even without new partitions. If the
        next rebalance has begun by then, the call for the earlier rebalance is left out.
        """
        ...


class TaskClients(Protocol):
    """Clients of the tasks of one worker. `config` is a connector's config, resolved."""

    @property
    def offsets(self) -> OffsetTopics:
        """Offsets topics of the sources of this worker."""
        ...

    def state_topics(self, config: Mapping[str, str]) -> frozenset[str]:
        """Return the topics of the control plane's state on the cluster of a task's producer.

        Empty: that cluster is not the one of the control plane's log.
        """
        ...

    def producer(
        self, task: TaskIdentity, config: Mapping[str, str]
    ) -> AbstractAsyncContextManager[Producer]:
        """Open the producer of a source task, and close it at the end of the block."""
        ...

    def transactional_producer(
        self, task: TaskIdentity, config: Mapping[str, str]
    ) -> AbstractAsyncContextManager[TransactionalProducer]:
        """Open the producer of a source task with exactly-once support; it fences older ones.

        Raises:
            LogError: another process has claimed the plane's log, or the brokers refuse the user.
        """
        ...

    def dead_letter_producer(
        self, task: TaskIdentity, config: Mapping[str, str]
    ) -> AbstractAsyncContextManager[Producer | None]:
        """Open the producer of a sink task's dead letters.

        On brokers, also create their topic; None: the config names no such topic. A log of our own
        creates the topic for the first dead letter, and the producer is never None.

        Raises:
            ConnectError: the topic cannot be created.
        """
        ...

    def consumer(
        self,
        task: TaskIdentity,
        config: Mapping[str, str],
        group: str,
        subscription: TopicSubscription,
        rebalancing: RebalanceCallbacks,
    ) -> AbstractAsyncContextManager[Consumer]:
        """Join the consumer group of a sink task; leave it at the end of the block."""
        ...


class ClientActions(ExternalActions, HasLogEnds, Protocol):
    """Executes the external actions of commands: on consumer groups and producers of tasks."""


class TaskCluster(Protocol):
    """Brokers, or a log of our own, with the data topics of a worker."""

    @property
    def actions(self) -> ClientActions:
        """Executor of external actions. Recovery may use it before `clients` is called."""
        ...

    def clients(self, plane: ControlPlane) -> AbstractAsyncContextManager[TaskClients]:
        """Open the clients of the tasks under this control plane until the block ends."""
        ...
