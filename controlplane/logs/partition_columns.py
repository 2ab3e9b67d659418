"""A partition in memory, stored as columns."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress, count

from controlplane.core.entry import Batch, ColumnBatch, Entry, Headers
from controlplane.logs.compaction import Sieve
from controlplane.logs.log import Record
from controlplane.logs.offset_rules import GAP, OTHER_ENTRY, conflict
from controlplane.logs.spans import OffsetSpan

BATCH_ENTRIES = 65_536
"""Entries per batch: few enough that other tasks of the event loop run in between."""


class PartitionColumns:
    """Entries of one partition in order of their offsets; `end` is the next offset."""

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

    def extend(self, ascending: Iterable[Entry]) -> None:
        """Add entries of another log; all their offsets lie at the end or behind it."""
        for entry in ascending:
            self._add(entry.offset, entry)
            self._aborted.append(entry.aborted)

    def check_holds(self, entries: Iterable[Entry]) -> None:
        """Raise `LogNotUsable` unless each entry, all below the end, is in this partition."""
        for entry in entries:
            index = bisect_left(self._offsets, entry.offset)
            if index == len(self._offsets) or self._offsets[index] != entry.offset:
                raise conflict(entry, GAP)
            there = self._batch(OffsetSpan(entry.topic, entry.partition, 0, 0), index, index + 1)
            if next(there.entries()) != entry:
                raise conflict(entry, OTHER_ENTRY)

    def batches(self, span: OffsetSpan) -> Iterator[Batch]:
        """Yield the entries of a span. The log may change between two batches."""
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
        sieve = Sieve(below)
        sieve.sift([self._batch(OffsetSpan("", 0, 0, 0), 0, len(self._offsets))])
        gone = {*sieve.superseded, *(sieve.tombstones if tombstones else ())}
        self._keep([offset not in gone for offset in self._offsets])
        return len(gone)

    def trim(self, below: int) -> int:
        """Remove the entries before an offset; return their number."""
        before = len(self._offsets)
        self._keep([offset >= below for offset in self._offsets])
        return before - len(self._offsets)

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
    """Headers by index, for the records that have any."""
    return {index: each for index, each in enumerate(headers) if each} if any(headers) else {}
