"""Log in memory: the reference implementation of the contract. Scenarios run on it."""

from bisect import bisect_left
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

from controlplane.core.entry import Batch, Entry, Position
from controlplane.core.order import Ends
from controlplane.logs.log import LogUnavailable, Record
from controlplane.logs.offset_rules import (
    by_place,
    check_epoch,
    check_partitions,
    check_room,
    check_topic,
    partition_in,
)
from controlplane.logs.partition_columns import PartitionColumns
from controlplane.logs.spans import below_ends, spans, topic_in, trim_limits
from controlplane.logs.tail import ChangeCounter, follow


class MemoryLog:
    """Log that ends with the process. It belongs to one event loop; only `tail` waits."""

    def __init__(self) -> None:
        self._topics: dict[str, list[PartitionColumns]] = {}
        self._epoch = 0
        self._changes = ChangeCounter()
        self._closed = False

    async def topics(self) -> Mapping[str, int]:
        """All topics, each with its number of partitions."""
        self._check_open()
        return {topic: len(partitions) for topic, partitions in self._topics.items()}

    async def starts(self, topics: Iterable[str]) -> Ends:
        """Offset of the first record that the log still holds, per partition."""
        return {topic: [each.start for each in self._partitions(topic)] for topic in topics}

    async def ends(self, topics: Iterable[str]) -> Ends:
        """Offset behind the last record, per partition."""
        return {topic: self._ends(topic) for topic in topics}

    async def read(
        self, topics: Iterable[str], start: Ends | None = None, stop: Ends | None = None
    ) -> AsyncIterator[Batch]:
        """Yield all batches from `start` to `stop`, partition after partition."""
        self._check_open()
        ends = {topic: self._ends(topic) for topic in self._topics}
        for span in spans(topics, ends, start, stop):
            for batch in self._topics[span.topic][span.partition].batches(span):
                yield batch
                self._check_open()

    def tail(self, topics: Iterable[str], start: Ends) -> AsyncIterator[Batch]:
        """Yield batches from `start` on, without end."""
        return follow(self, topics, start, self._changes)

    async def close(self) -> None:
        """Close the log and wake waiting tails. The records go with the object."""
        self._closed = True
        self._changes.tell()

    async def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic, unless it exists with as many partitions."""
        self._check_open()
        check_partitions(topic, partitions, len(self._topics.get(topic, ())))
        self._topics.setdefault(topic, [PartitionColumns() for _ in range(partitions)])

    async def add_partitions(self, topic: str, partitions: int) -> None:
        """Raise the number of partitions of a topic; no effect if it has as many or more."""
        there = self._partitions(topic)
        check_topic(topic, partitions)
        there.extend(PartitionColumns() for _ in range(partitions - len(there)))

    async def claim(self) -> int:
        """Become the only writer: start a new epoch and return it."""
        self._check_open()
        self._epoch += 1
        return self._epoch

    async def append(
        self, records: Sequence[Record], epoch: int | None = None
    ) -> Sequence[Position]:
        """Append all records in order, or none."""
        self._check_open()
        check_epoch(epoch, self._epoch)
        places = {(record.topic, record.partition) for record in records}
        columns = {place: self._columns(*place) for place in places}
        for place, each in columns.items():
            check_room(*place, each.end, len(records))
        positions = [
            Position(topic, partition, columns[topic, partition].append(record))
            for record in records
            for topic, partition in [(record.topic, record.partition)]
        ]
        self._changes.tell()
        return positions

    async def put(self, entries: Sequence[Entry]) -> int:
        """Import entries of another log unchanged; return the number of new entries."""
        self._check_open()
        new: list[tuple[PartitionColumns, list[Entry]]] = []
        for place, ascending in by_place(entries).items():
            columns = self._columns(*place)
            border = bisect_left(ascending, columns.end, key=lambda entry: entry.offset)
            columns.check_holds(ascending[:border])
            new.append((columns, ascending[border:]))
        for columns, ascending in new:
            columns.extend(ascending)
        self._changes.tell()
        return sum(len(ascending) for _, ascending in new)

    async def add_marker(self, topic: str, partition: int) -> int:
        """Add a transaction marker, as Kafka does: it takes an offset but is no readable record."""
        columns = self._columns(topic, partition)
        check_room(topic, partition, columns.end, 1)
        columns.end += 1
        self._changes.tell()
        return columns.end - 1

    async def compact(
        self, topic: str, below: Sequence[int] = (), *, tombstones: bool = False
    ) -> int:
        """Remove the entries that Kafka's log cleaner may remove; return their number.

        The last entry of each key stays, and so do all ends. `below` gives by partition the offset
        from which on entries are ignored (in Kafka the active segment; default: the end).
        `tombstones` also removes tombstones that are the last of their key, as Kafka does after
        `delete.retention.ms`.
        """
        partitions = self._partitions(topic)
        limits = below_ends(topic, self._ends(topic), below)
        return sum(
            columns.compact(limit, tombstones=tombstones)
            for columns, limit in zip(partitions, limits, strict=True)
        )

    async def trim(self, topic: str, below: Sequence[int]) -> int:
        """Remove all entries before these offsets, by partition; return their number.

        Partitions that are left out keep their entries; all ends stay.
        """
        partitions = self._partitions(topic)
        limits = trim_limits(topic, self._ends(topic), below)
        return sum(columns.trim(limit) for columns, limit in zip(partitions, limits, strict=True))

    def _ends(self, topic: str) -> list[int]:
        return [columns.end for columns in self._partitions(topic)]

    def _partitions(self, topic: str) -> list[PartitionColumns]:
        self._check_open()
        return topic_in(self._topics, topic)

    def _columns(self, topic: str, partition: int) -> PartitionColumns:
        return partition_in(self._partitions(topic), topic, partition)

    def _check_open(self) -> None:
        if self._closed:
            raise LogUnavailable("This log is closed: open it again")
