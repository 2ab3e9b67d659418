"""Log in memory: the reference implementation of the contract. Scenarios run on it."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from itertools import compress, count

from controlplane.core.entry import Batch, ColumnBatch, Entry, Headers, Position, TopicPartition
from controlplane.core.order import Ends
from controlplane.event_loop import slices
from controlplane.logs.compaction import CompactionFilter
from controlplane.logs.log import LogUnavailable, Record
from controlplane.logs.offset_rules import (
    GAP,
    OTHER_ENTRY,
    by_place,
    check_epoch,
    check_partitions,
    check_room,
    check_topic,
    conflict,
    partition_in,
)
from controlplane.logs.spans import OffsetSpan, below_ends, spans, topic_in, trim_limits
from controlplane.logs.tail import ChangeCounter, follow

BATCH_ENTRIES = 65_536
"""Maximum entries per batch: other tasks of the event loop run between batches."""


class PartitionColumns:
    """Entries of one partition as columns, in order of their offsets; `end` is the next offset."""

    def __init__(self) -> None:
        self.end = 0
        self._offsets: list[int] = []
        self._timestamps: list[int] = []
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._headers: list[Headers] = []
        self._aborted: list[bool] = []

    @property
    def start(self) -> int:
        """Offset of the first entry, the end if there is none."""
        return self._offsets[0] if self._offsets else self.end

    def append(self, record: Record) -> int:
        """Append one record and return its offset."""
        offset = self.end
        self._add(offset, record)
        self._aborted.append(False)
        return offset

    def add_all(self, staged: "PartitionColumns") -> int:
        """Append staged entries, whose offsets count from 0; return the offset of the first one."""
        first = self.end
        self.end += staged.end
        self._offsets += range(first, self.end)
        self._timestamps += staged._timestamps  # noqa: SLF001 - columns of the same class
        self._keys += staged._keys  # noqa: SLF001
        self._values += staged._values  # noqa: SLF001
        self._headers += staged._headers  # noqa: SLF001
        self._aborted += staged._aborted  # noqa: SLF001
        return first

    def extend(self, ascending: Iterable[Entry]) -> None:
        """Add entries of another log; all their offsets lie at the end or after it."""
        for entry in ascending:
            self._add(entry.offset, entry)
            self._aborted.append(entry.aborted)

    def check_holds(self, entries: Iterable[Entry]) -> None:
        """Raise `LogNotUsable` unless each entry is stored; all given offsets lie below the end."""
        for entry in entries:
            index = bisect_left(self._offsets, entry.offset)
            if index == len(self._offsets) or self._offsets[index] != entry.offset:
                raise conflict(entry, GAP)
            stored = self._batch(OffsetSpan(entry.topic, entry.partition, 0, 0), index, index + 1)
            if next(stored.entries()) != entry:
                raise conflict(entry, OTHER_ENTRY)

    def batches(self, span: OffsetSpan) -> Iterator[Batch]:
        """Yield the entries of a span, in batches. The log may change between two batches."""
        start = span.start
        while True:
            low = bisect_left(self._offsets, start)
            high = min(bisect_left(self._offsets, span.stop), low + BATCH_ENTRIES)
            if low >= high:
                return
            start = self._offsets[high - 1] + 1
            yield self._batch(span, low, high)

    def compact(self, below: int, *, tombstones: bool) -> int:
        """Remove the entries that compaction may remove; return their number."""
        filter_ = CompactionFilter(below)
        filter_.sift([self._batch(OffsetSpan("", 0, 0, 0), 0, len(self._offsets))])
        removed = {*filter_.superseded, *(filter_.tombstones if tombstones else ())}
        self._keep([offset not in removed for offset in self._offsets])
        return len(removed)

    def trim(self, below: int) -> int:
        """Remove the entries before an offset; return their number."""
        old_count = len(self._offsets)
        self._keep([offset >= below for offset in self._offsets])
        return old_count - len(self._offsets)

    def _keep(self, keep: Sequence[bool]) -> None:
        self._offsets = list(compress(self._offsets, keep))
        self._timestamps = list(compress(self._timestamps, keep))
        self._keys = list(compress(self._keys, keep))
        self._values = list(compress(self._values, keep))
        self._headers = list(compress(self._headers, keep))
        self._aborted = list(compress(self._aborted, keep))

    def _add(self, offset: int, record: Record | Entry) -> None:
        self._offsets.append(offset)
        self._timestamps.append(record.timestamp)
        self._keys.append(record.key)
        self._values.append(record.value)
        self._headers.append(record.headers)
        self.end = offset + 1

    def _batch(self, span: OffsetSpan, low: int, high: int) -> Batch:
        return ColumnBatch(
            span.topic,
            span.partition,
            self._offsets[low:high],
            self._timestamps[low:high],
            self._keys[low:high],
            self._values[low:high],
            _sparse(self._headers[low:high]),
            frozenset(compress(count(), self._aborted[low:high])),
        )


def _sparse(headers: Sequence[Headers]) -> dict[int, Headers]:
    """Return the non-empty headers by index."""
    return {index: pairs for index, pairs in enumerate(headers) if pairs} if any(headers) else {}


class MemoryLog:
    """Log in memory. It belongs to one event loop; only `tail` waits."""

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
        return {topic: [columns.start for columns in self._partitions(topic)] for topic in topics}

    async def ends(self, topics: Iterable[str]) -> Ends:
        """Offset after the last record, per partition."""
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
        """Close the log and wake waiting tails. The records are freed with this object."""
        self._closed = True
        self._changes.note_change()

    async def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic, unless it exists with as many partitions."""
        self._check_open()
        check_partitions(topic, partitions, len(self._topics.get(topic, ())))
        self._topics.setdefault(topic, [PartitionColumns() for _ in range(partitions)])

    async def add_partitions(self, topic: str, partitions: int) -> None:
        """Raise the number of partitions of a topic; no effect if it has as many or more."""
        existing = self._partitions(topic)
        check_topic(topic, partitions)
        existing.extend(PartitionColumns() for _ in range(partitions - len(existing)))

    async def claim(self) -> int:
        """Become the only writer: start a new epoch and return it."""
        self._check_open()
        self._epoch += 1
        return self._epoch

    async def append(
        self, records: Sequence[Record], epoch: int | None = None
    ) -> Sequence[Position]:
        """Append all records in order, or none; other tasks run while a large batch is prepared."""
        staged: defaultdict[TopicPartition, PartitionColumns] = defaultdict(PartitionColumns)
        indexes = [
            staged[record.topic, record.partition].append(record)
            async for part in slices(records)
            for record in part
        ]
        # From here to `note_change` no other task runs: the append is atomic.
        self._check_open()
        check_epoch(epoch, self._epoch)
        targets = {place: self._columns(*place) for place in staged}
        for place, columns in targets.items():
            check_room(*place, columns.end, len(records))
        starts = {place: columns.add_all(staged[place]) for place, columns in targets.items()}
        self._changes.note_change()
        return [
            Position(record.topic, record.partition, starts[record.topic, record.partition] + index)
            async for part in slices([*zip(records, indexes, strict=True)])
            for record, index in part
        ]

    async def put(self, entries: Sequence[Entry]) -> int:
        """Import entries of another log unchanged; return the number of new entries."""
        self._check_open()
        new: list[tuple[PartitionColumns, list[Entry]]] = []
        for topic_partition, ascending in by_place(entries).items():
            columns = self._columns(*topic_partition)
            border = bisect_left(ascending, columns.end, key=lambda entry: entry.offset)
            columns.check_holds(ascending[:border])
            new.append((columns, ascending[border:]))
        for columns, ascending in new:
            columns.extend(ascending)
        self._changes.note_change()
        return sum(len(ascending) for _, ascending in new)

    async def add_marker(self, topic: str, partition: int) -> int:
        """Add a transaction marker, as Kafka does: it takes an offset but is no readable record."""
        columns = self._columns(topic, partition)
        check_room(topic, partition, columns.end, 1)
        columns.end += 1
        self._changes.note_change()
        return columns.end - 1

    async def compact(
        self, topic: str, below: Sequence[int] = (), *, tombstones: bool = False
    ) -> int:
        """Remove the entries that Kafka's log cleaner may remove; return their number.

        The last entry of each key stays, and so do all ends. `below`: one offset per partition
        (default: the end). Entries at or after that offset are ignored, like Kafka's active
        segment. `tombstones` also removes tombstones that are the last of their key, as Kafka does
        after `delete.retention.ms`.
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
