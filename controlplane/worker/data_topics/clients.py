"""Contracts of the clients that tasks use: producers and consumers of data topics.

`embedded_clients` and `embedded_consumer` implement them on our own logs.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from controlplane.connect.records import RecordMetadata
from controlplane.core.entry import Entry, Headers, TopicPartition
from controlplane.core.plan import Draft

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


class ProducerFailure(Exception):
    """A record cannot be sent; a retry would not help."""


class ProducerFenced(Exception):
    """A newer task with the same identity, or another process, has taken over."""


class Producer(Protocol):
    """Producer of one source task. Records of a partition keep their order."""

    async def send(
        self, records: Sequence[ProducerRecord]
    ) -> "Sequence[asyncio.Future[RecordMetadata]]":
        """Queue records, waiting for room; return the acknowledgement of each.

        A future fails with `ProducerFailure`, or `ProducerFenced`.
        """
        ...

    async def transact(
        self, records: Sequence[ProducerRecord], offsets: Sequence[Draft]
    ) -> Sequence[RecordMetadata]:
        """Append records and offsets in one transaction; return the places of the records.

        Raises:
            ProducerFailure: nothing was appended.
            ProducerFenced: nothing was appended.
        """
        ...

    async def write_offsets(self, offsets: Sequence[Draft]) -> None:
        """Append offsets; durable when this returns.

        Raises:
            ProducerFailure, ProducerFenced: nothing was appended.
        """
        ...

    async def close(self) -> None:
        """Send what is queued, and release everything."""
        ...


class TopicSubscription(NamedTuple):
    """Topics by name, or by a regular expression that matches their whole name."""

    topics: Sequence[str]
    pattern: str | None = None

    def selects(self, topic: str) -> bool:
        """True if this topic is consumed."""
        if self.pattern is None:
            return topic in self.topics
        return re.fullmatch(self.pattern, topic) is not None


class ConsumerSettings(NamedTuple):
    """Settings of a consumer, named as Kafka's."""

    max_poll_records: int = 500
    auto_offset_reset: str = "earliest"
    internal_topics: frozenset[str] = frozenset()
    """Topics that no pattern selects: Connect's own."""


class Consumer(Protocol):
    """Consumer of one sink task. Its group assigns partitions to it."""

    async def poll(self, timeout_s: float) -> Sequence[Entry]:
        """Return records of the partitions that are not paused; empty after the time-out."""
        ...

    def wake_up(self) -> None:
        """Let a waiting `poll` return at once."""
        ...

    async def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Go on with these offsets."""
        ...

    def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record."""
        ...

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """Partitions of this consumer."""
        ...

    async def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Return no records of these partitions."""
        ...

    async def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Return records of these partitions again."""
        ...

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets of the group.

        Raises:
            ProducerFailure: they are not committed.
        """
        ...


class Rebalancing(Protocol):
    """Callbacks of a consumer about its partitions; they run within `poll`."""

    async def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Commit and close these partitions."""
        ...

    async def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Open these partitions; the consumer is at their committed offsets."""
        ...
