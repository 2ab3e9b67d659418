"""Source records that were sent and not yet acknowledged (Kafka: `SubmittedRecords`).

Pure: a queue per source partition, and one for marks. The offset of a record may be committed once
that record and all earlier ones of its partition are acknowledged.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from controlplane.connect.records import OffsetFields, OffsetPair, PartitionFields
from controlplane.core.codec.offsets import frozen

SourcePartitionId = tuple[Any, ...]
"""A source partition, equal under Java's equality."""


class SubmittedRecord:
    """A record in flight. `ack` may be called in any order."""

    __slots__ = ("acked", "number", "offset", "partition")

    def __init__(
        self, number: int, partition: PartitionFields | None, offset: OffsetFields | None
    ) -> None:
        self.number = number
        self.partition = partition
        self.offset = offset
        self.acked = False

    def ack(self) -> None:
        """Record that the log has the record, or that its loss is tolerated."""
        self.acked = True


class CommittableOffsets(NamedTuple):
    """Offsets that may be committed, and how far the task's records are acknowledged."""

    offsets: Mapping[SourcePartitionId, OffsetPair]
    """Latest committable offset of each partition."""
    acked: int
    """Records that left their queues with this snapshot."""
    in_flight: int
    """Records that are still in a queue."""


class SubmittedRecords:
    """Records of one task in flight."""

    def __init__(self) -> None:
        self._queues: dict[SourcePartitionId, deque[SubmittedRecord]] = {}
        self._marks: deque[tuple[int, tuple[OffsetPair, ...]]] = deque()
        self._number = 0
        self._committed: dict[SourcePartitionId, int] = {}
        """Number of the record or mark whose offset was given out last, by partition."""

    def submit(
        self, partition: PartitionFields | None, offset: OffsetFields | None
    ) -> SubmittedRecord:
        """Add a record that is about to be sent."""
        self._number += 1
        submitted = SubmittedRecord(self._number, partition, offset)
        self._queues.setdefault(_identity(partition), deque()).append(submitted)
        return submitted

    def submit_acked(self, offsets: Iterable[OffsetPair]) -> Mapping[SourcePartitionId, OffsetPair]:
        """Add offsets that count as acknowledged (KIP-910); return those that may be committed now.

        The others wait for earlier records of their partitions.
        """
        committable: dict[SourcePartitionId, OffsetPair] = {}
        for partition, offset in offsets:
            identity = _identity(partition)
            if identity in self._queues:
                self.submit(partition, offset).ack()
            else:
                self._number += 1
                committable[identity] = partition, offset
                if self._marks:  # an older mark must not turn this offset back
                    self._committed[identity] = self._number
        return committable

    def mark(self, offsets: Iterable[OffsetPair]) -> None:
        """Add offsets that may be committed once all earlier records are acknowledged."""
        self._number += 1
        self._marks.append((self._number, tuple(offsets)))

    def remove(self, submitted: SubmittedRecord) -> bool:
        """Drop a record that will be sent again; return False if it is no longer in a queue."""
        queue = self._queues.get(_identity(submitted.partition), deque())
        if submitted not in queue:
            return False
        queue.remove(submitted)
        if not queue:
            del self._queues[_identity(submitted.partition)]
        return True

    @property
    def in_flight(self) -> int:
        """Number of records that wait for their own acknowledgement, or for an earlier one's."""
        return sum(map(len, self._queues.values()))

    def committable(self) -> CommittableOffsets:
        """Take the acknowledged records from the heads of the queues; return their last offsets."""
        latest: dict[SourcePartitionId, tuple[int, OffsetPair]] = {}
        acked = 0
        for identity, queue in [*self._queues.items()]:
            while queue and queue[0].acked:
                record = queue.popleft()
                acked += 1
                if record.partition is not None:
                    latest[identity] = record.number, (record.partition, record.offset)
            if not queue:
                del self._queues[identity]
        # A mark and the records of a partition compete by their numbers: the later offset wins.
        for number, offsets in self._passed_marks():
            for partition, offset in offsets:
                identity = _identity(partition)
                before = latest[identity][0] if identity in latest else 0
                if number > max(before, self._committed.get(identity, 0)):
                    latest[identity] = number, (partition, offset)
        if self._marks:
            self._committed |= {identity: number for identity, (number, _) in latest.items()}
        else:  # a later mark has a greater number than all of these
            self._committed.clear()
        committable = {identity: pair for identity, (_, pair) in latest.items()}
        return CommittableOffsets(committable, acked, self.in_flight)

    def _passed_marks(self) -> Iterable[tuple[int, tuple[OffsetPair, ...]]]:
        """Take the marks before which no record is in flight."""
        heads = (queue[0].number for queue in self._queues.values())
        first = min(heads, default=self._number + 1)
        while self._marks and self._marks[0][0] < first:
            yield self._marks.popleft()


def _identity(partition: PartitionFields | None) -> SourcePartitionId:
    return frozen(partition)
