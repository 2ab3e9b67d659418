"""Outcome of an append without an answer, determined by reading its records back."""

from collections.abc import Iterable, Mapping, Sequence

from controlplane.core.entry import Position, TopicPartition
from controlplane.logs.kafka.cluster import Cluster
from controlplane.logs.kafka.limits import ReadLimits
from controlplane.logs.kafka.reads.reader import KafkaReader, Retry
from controlplane.logs.log import LogUnavailable, Record

_UNDECIDED = LogUnavailable("a transaction is still ending")


class ReadBackReader:
    """Tells the outcome of a transaction or batch whose request got no answer."""

    def __init__(self, cluster: Cluster, limits: ReadLimits) -> None:
        self._limits = limits
        self._committed_reader = KafkaReader(cluster, "read_committed", limits, None)
        self._reader = KafkaReader(cluster, "read_uncommitted", limits, None)
        """Reads uncommitted: else an open transaction of another writer would hide batches."""

    async def committed(self, written: Sequence[Position]) -> bool:
        """Return True if the records at these positions are committed, False if they were aborted.

        The first record decides, since a transaction is atomic. Waits until the last stable offset
        has passed it.

        Raises:
            LogError: the record cannot be read.
        """
        topic, partition, offset = written[0]
        retry = Retry(self._limits, None)
        while (ends := await self._committed_reader.ends([topic]))[topic][partition] <= offset:
            await retry.after(_UNDECIDED, progress=0)
        start, stop = [*ends[topic]], [*ends[topic]]
        start[partition], stop[partition] = offset, offset + 1
        async for batch in self._committed_reader.read([topic], {topic: start}, {topic: stop}):
            return not any(entry.aborted for entry in batch.entries())
        return False

    async def ends(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the end of each partition; a later record has at least this offset.

        Raises:
            LogError: a partition has no leader, or its topic is missing.
        """
        places = [*partitions]
        ends = await self._reader.ends({topic for topic, _ in places})
        return {(topic, number): ends[topic][number] for topic, number in places}

    async def positions(self, records: Sequence[Record], start_offset: int) -> list[Position]:
        """Search a partition from an offset on for a batch; return the positions of the last match.

        Empty: there is no match. The partition must have a marker of a later epoch, so that it
        refuses a late request. `start_offset` must lie after earlier records with the same keys
        and values. A start time could not replace this offset: records may have the times of the
        brokers (`message.timestamp.type=LogAppendTime`).

        Raises:
            LogError: the partition cannot be read.
        """
        topic, partition = records[0].topic, records[0].partition
        start = [*(await self._reader.ends([topic]))[topic]]
        start[partition] = start_offset
        entries = [
            entry
            async for batch in self._reader.read([topic], {topic: start})
            for entry in batch.entries()
            if entry.partition == partition and not entry.aborted
        ]
        pairs = [(entry.key, entry.value) for entry in entries]
        batch_pairs = [(record.key, record.value) for record in records]
        for first in reversed(range(len(pairs) - len(batch_pairs) + 1)):
            stop = first + len(batch_pairs)
            if pairs[first] == batch_pairs[0] and pairs[first:stop] == batch_pairs:
                return [Position(topic, partition, entry.offset) for entry in entries[first:stop]]
        return []
