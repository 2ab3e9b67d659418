"""Consumer of a sink task on brokers (`clients.Consumer`)."""

from collections.abc import Iterable, Mapping, Sequence

from controlplane.core.entry import Entry, TopicPartition
from controlplane.logs.kafka.reads.group_consumer import GroupConsumer
from controlplane.logs.log import LogError
from controlplane.worker.data_topics.clients import ProducerFailure


class KafkaTaskConsumer:
    """Member of a consumer group on brokers."""

    def __init__(self, consumer: GroupConsumer) -> None:
        self._consumer = consumer

    async def poll(self, timeout_s: float) -> Sequence[Entry]:
        """Return records of the partitions that are not paused; empty after the time-out."""
        return await self._consumer.poll(timeout_s)

    async def attend(self, timeout_s: float) -> None:
        """Take part in rebalances for a time, or until `wake_up`, and return no records."""
        await self._consumer.attend(timeout_s)

    def wake_up(self) -> None:
        """Let a waiting `poll` or `attend` return at once."""
        self._consumer.wake_up()

    async def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Set the positions: the next `poll` returns records from these offsets on."""
        self._consumer.seek(offsets)

    def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record."""
        return self._consumer.position(partition)

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """Partitions that the group has assigned to this consumer."""
        return self._consumer.assignment

    async def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Pause these partitions: `poll` returns none of their records."""
        self._consumer.pause(partitions)

    async def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """End a pause: `poll` returns records of these partitions again."""
        self._consumer.resume(partitions)

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets of the group.

        Raises:
            ProducerFailure: they are not committed, or it is unknown whether they are.
        """
        try:
            await self._consumer.commit(offsets)
        except LogError as failure:
            raise ProducerFailure(str(failure)) from failure
