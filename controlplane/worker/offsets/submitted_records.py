"""Source records that were sent and not yet acknowledged (Kafka: `SubmittedRecords`).

No I/O: a queue per source partition, and one for marks. The offset of a record may be committed
once that record and all earlier ones of its partition are acknowledged. A mark has offsets without
a record; they may be committed once all earlier records are acknowledged.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from controlplane.connect.records import OffsetFields, OffsetPair, PartitionFields
from controlplane.core.codec.offsets import frozen

SourcePartitionId = tuple[Any, ...]
"""A source partition in a form that can be a key; equal where Java's maps are equal."""


class SubmittedRecord:
    """A record in flight. `ack` may be called in any order."""

    __slots__ = ("_records", "acked", "identity", "next", "number", "offset", "partition")

    def __init__(
        self,
        records: "SubmittedRecords",
        number: int,
        partition: PartitionFields | None,
        offset: OffsetFields | None,
    ) -> None:
        self._records = records
        self.number = number
        self.partition = partition
        self.identity = _identity(partition)
        self.offset = offset
        self.acked = False
        self.next: SubmittedRecord | None = None
        """Next record of the same partition."""

    def ack(self) -> None:
        """Take note that the log has the record, or that its loss is tolerated."""
        self.acked = True
        self._records.take_acked(self.identity)


class _WaitingMark(NamedTuple):
    """Offsets of a mark, by partition; its number counts marks and records together."""

    number: int
    offsets: dict[SourcePartitionId, OffsetPair]


class SubmittedRecords:
    """Records of one task in flight.

    An acknowledgement removes records from their queue immediately. So `committable` need not walk
    the queues of all partitions; only a mark that waits needs their heads.
    """

    def __init__(self) -> None:
        # Linked records: a deque for each of very many partitions would take some 700 bytes.
        self._heads: dict[SourcePartitionId, SubmittedRecord] = {}
        self._tails: dict[SourcePartitionId, SubmittedRecord] = {}
        self._in_flight = 0
        self._marks: deque[_WaitingMark] = deque()
        self._number = 0
        self._offsets: dict[SourcePartitionId, OffsetPair] = {}
        """Latest committable offset of each partition since the previous call of `committable`."""
        self._latest: dict[SourcePartitionId, int] = {}
        """Number of the latest committable record or mark by partition, while a mark waits."""

    def submit(
        self, partition: PartitionFields | None, offset: OffsetFields | None
    ) -> SubmittedRecord:
        """Add a record that is about to be sent."""
        self._number += 1
        submitted = SubmittedRecord(self, self._number, partition, offset)
        identity = submitted.identity
        if identity in self._heads:
            self._tails[identity].next = submitted
        else:
            self._heads[identity] = submitted
        self._tails[identity] = submitted
        self._in_flight += 1
        return submitted

    def submit_acked(self, offsets: Iterable[OffsetPair]) -> Mapping[SourcePartitionId, OffsetPair]:
        """Add offsets that count as acknowledged (KIP-910); return those that may be committed now.

        The others wait for earlier records of their partitions, or for the next `committable`.
        """
        committable: dict[SourcePartitionId, OffsetPair] = {}
        for partition, offset in offsets:
            identity = _identity(partition)
            if identity in self._heads or identity in self._offsets:
                self.submit(partition, offset).ack()
            else:
                self._number += 1
                committable[identity] = partition, offset
                if self._marks:  # an older mark must not turn this offset back
                    self._latest[identity] = self._number
        return committable

    def mark(self, offsets: Iterable[OffsetPair]) -> None:
        """Add offsets that may be committed once all earlier records are acknowledged.

        Marks without a record between them are joined: there may be very many in an outage.
        """
        pairs = {_identity(partition): (partition, offset) for partition, offset in offsets}
        if self._marks and self._marks[-1].number == self._number:
            self._marks[-1].offsets.update(pairs)
            return
        self._number += 1
        self._marks.append(_WaitingMark(self._number, pairs))

    def remove(self, submitted: SubmittedRecord) -> bool:
        """Drop a record that will be sent again; return False if it is no longer in a queue."""
        identity = submitted.identity
        before, record = None, self._heads.get(identity)
        while record is not None and record is not submitted:
            before, record = record, record.next
        if record is None:
            return False
        if before is None:
            self._set_head(identity, record.next)
        else:
            before.next = record.next
            if record.next is None:
                self._tails[identity] = before
        self._in_flight -= 1
        self.take_acked(identity)
        return True

    @property
    def in_flight(self) -> int:
        """Number of records that wait for their own acknowledgement, or for an earlier record's."""
        return self._in_flight

    def take_acked(self, identity: SourcePartitionId) -> None:
        """Take the acknowledged records from the head of a queue; keep the last offset."""
        record = first = self._heads.get(identity)
        while record is not None and record.acked:
            self._in_flight -= 1
            if record.partition is not None:
                self._offsets[identity] = record.partition, record.offset
                if self._marks:
                    self._latest[identity] = record.number
            record = record.next
        if record is not first:
            self._set_head(identity, record)

    def _set_head(self, identity: SourcePartitionId, record: SubmittedRecord | None) -> None:
        if record is None:
            del self._heads[identity], self._tails[identity]
        else:
            self._heads[identity] = record

    def committable(self) -> Mapping[SourcePartitionId, OffsetPair]:
        """Return the offsets that became committable since the previous call, by partition."""
        # A mark and the records of a partition compete by their numbers: the later offset wins.
        for number, offsets in self._passed_marks():
            for identity, pair in offsets.items():
                if number > self._latest.get(identity, 0):
                    self._latest[identity] = number
                    self._offsets[identity] = pair
        if not self._marks:  # a later mark has a greater number than all of these
            self._latest.clear()
        committable, self._offsets = self._offsets, {}
        return committable

    def _passed_marks(self) -> Iterable[_WaitingMark]:
        """Take the marks before which no record is in flight."""
        if not self._marks:
            return
        heads = (record.number for record in self._heads.values())
        first = min(heads, default=self._number + 1)
        while self._marks and self._marks[0].number < first:
            yield self._marks.popleft()


def _identity(partition: PartitionFields | None) -> SourcePartitionId:
    return frozen(partition)
