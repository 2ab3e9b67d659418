"""Decoder of record batches: verifies checksums at once, decodes records on access."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any

from aiokafka.errors import CorruptRecordException
from aiokafka.record.control_record import ABORT_MARKER, ControlRecord
from aiokafka.record.legacy_records import _LegacyRecordBatchPy

from controlplane.core.entry import (
    Batch,
    ColumnBatch,
    Entry,
    Headers,
    LastValues,
    LazyBatch,
    TopicPartition,
)
from controlplane.logs.kafka.reads import lenient_decoder
from controlplane.logs.kafka.reads.frames import DAMAGE, Frame, PartitionFrames, corrupt
from controlplane.logs.log import LogCorrupt

UNKNOWN_MS = -1
"""Timestamp of a record in format 0, which has none."""

_ROW = attrgetter("offset", "timestamp", "key", "value", "headers")
_PAIR = attrgetter("key", "value")


def decode(fetched: PartitionFrames, stop: int | None = None) -> Batch | None:
    """Return the records from the requested offset to before `stop`; None if there are none.

    Control records (transaction markers) are left out; records of aborted transactions are marked.

    Raises:
        LogCorrupt: a checksum is wrong. Access to the batch may raise it later: bytes with a valid
            checksum may still be malformed.
    """
    frames = list(_checked(fetched))
    batch = UndecodedBatch(
        fetched.partition, [frame for frame, _ in frames], [aborted for _, aborted in frames]
    )
    if frames and all(_inside(frame, fetched.start, stop) for frame, _ in frames):
        return batch
    return _rows_between(batch.decoded, fetched.start, stop)


def _checked(fetched: PartitionFrames) -> Iterator[tuple[Frame, bool]]:
    """Check the checksums; yield each data batch with True if its transaction was aborted."""
    aborted = _AbortedTransactions(fetched.aborted)
    for frame in fetched.frames:
        batch = frame.batch
        try:
            if not batch.validate_crc():
                raise CorruptRecordException("wrong checksum")
            if batch.is_control_batch:
                aborted.end(batch)
                continue
        except DAMAGE as failure:
            raise corrupt(fetched.partition, frame.at, failure) from failure
        yield frame, aborted.covers(batch)


def _inside(frame: Frame, start: int, stop: int | None) -> bool:
    """Return True if a batch is not empty and lies entirely between start and stop."""
    end: int = frame.batch.next_offset
    return (frame.size or 0) > 0 and start <= frame.at and (stop is None or end <= stop)


class _AbortedTransactions:
    """Producers inside an aborted transaction, tracked while batches pass in log order.

    The broker lists each aborted transaction with its first offset; a marker in the log ends it.
    """

    def __init__(self, transactions: Sequence[tuple[int, int]]) -> None:
        self._pending = sorted(transactions, key=lambda entry: entry[1], reverse=True)
        self._producers: set[int] = set()

    def covers(self, batch: Any) -> bool:
        """Return True if the batch belongs to an aborted transaction."""
        if not batch.is_transactional:
            return False
        while self._pending and self._pending[-1][1] < batch.next_offset:
            self._producers.add(self._pending.pop()[0])
        return batch.producer_id in self._producers

    def end(self, marker: Any) -> None:
        """Process a control batch; an abort marker ends the transaction of its producer."""
        while self._pending and self._pending[-1][1] < marker.next_offset:
            self._producers.add(self._pending.pop()[0])
        if any(ControlRecord.parse(record.key) == ABORT_MARKER for record in marker):
            self._producers.discard(marker.producer_id)


class UndecodedBatch(LazyBatch):
    """Record batches of one partition, decoded on access. Every access may raise `LogCorrupt`."""

    def __init__(
        self, partition: TopicPartition, frames: Sequence[Frame], aborted: Sequence[bool]
    ) -> None:
        self.topic, self.partition = partition
        self._frames = frames
        self._aborted = aborted

    def __len__(self) -> int:
        return sum(frame.size or 0 for frame in self._frames)

    @property
    def end(self) -> int:
        """Offset after all batches, including records that compaction has removed."""
        return int(self._frames[-1].batch.next_offset)

    def decode(self) -> ColumnBatch:
        """Decode all record batches to columns."""
        return self._columns()

    def entries_under(self, key_prefix: bytes) -> Iterable[Entry]:
        """Return the entries whose key has this prefix; decode only batches that may have one."""
        return self._columns(key_prefix).entries()

    def _columns(self, key_prefix: bytes = b"") -> ColumnBatch:
        """Decode all records, or those whose key begins with a prefix."""
        columns = _ColumnBuilder(key_prefix)
        for frame, aborted in zip(self._frames, self._aborted, strict=True):
            # An uncompressed frame contains the bytes of its keys unchanged.
            if frame.may_be_compressed or key_prefix in frame.octets:
                try:
                    columns.add(frame, aborted=aborted)
                except DAMAGE as failure:
                    raise self._corrupt(frame, failure) from failure
        return columns.batch(self.topic, self.partition)

    def keep_last(self, last: LastValues, *, aborted: bool) -> None:
        """Set the last value of each key in `last`, without decoding columns."""
        for frame, was_aborted in zip(self._frames, self._aborted, strict=True):
            if aborted or not was_aborted:
                try:
                    _keep_last(frame, last)
                except DAMAGE as failure:
                    raise self._corrupt(frame, failure) from failure

    def _corrupt(self, frame: Frame, failure: BaseException) -> LogCorrupt:
        return corrupt((self.topic, self.partition), frame.at, failure)


def _keep_last(frame: Frame, last: LastValues) -> None:
    try:
        last.update(map(_PAIR, frame.records()))
    except UnicodeDecodeError:  # a header name is not UTF-8: read the whole batch again
        last.update(map(_PAIR, lenient_decoder.rows(frame.octets)))


class _ColumnBuilder:
    """Builder of the columns of a batch, with the records whose key begins with a prefix.

    An empty prefix selects all records, also those without a key.
    """

    def __init__(self, key_prefix: bytes) -> None:
        self._key_prefix = key_prefix
        self._offsets: list[int] = []
        self._timestamps: list[int] = []
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._headers: dict[int, Headers] = {}
        self._aborted: list[range] = []

    def add(self, frame: Frame, *, aborted: bool) -> None:
        """Append the records of one batch; after an error, none of them is appended."""
        first = len(self._offsets)
        records = frame.records()
        try:
            rows = list(map(_ROW, self._selected(records)))
        except UnicodeDecodeError:  # a header name is not UTF-8
            rows = list(map(_ROW, self._selected(lenient_decoder.rows(frame.octets))))
        self._add(rows)
        if isinstance(records, _LegacyRecordBatchPy):
            timestamps = self._timestamps[first:]
            self._timestamps[first:] = [UNKNOWN_MS if ms is None else ms for ms in timestamps]
        if aborted:
            self._aborted.append(range(first, len(self._offsets)))

    def _selected(self, records: Iterable[Any]) -> Iterable[Any]:
        prefix = self._key_prefix
        if not prefix:
            return records
        return (record for record in records if (record.key or b"").startswith(prefix))

    def _add(self, rows: Iterable[Any]) -> None:
        """Append rows column by column: in this hot path a loop over records is too slow."""
        rows = list(rows)
        if not rows:
            return
        offsets, timestamps, keys, values, headers = zip(*rows, strict=True)
        if any(headers):
            first = len(self._offsets)
            indexed_headers = (
                (first + index, tuple(pairs)) for index, pairs in enumerate(headers) if pairs
            )
            self._headers.update(indexed_headers)
        self._offsets.extend(offsets)
        self._timestamps.extend(timestamps)
        self._keys.extend(keys)
        self._values.extend(values)

    def batch(self, topic: str, partition: int) -> ColumnBatch:
        """Return the columns as a batch."""
        aborted = frozenset(at for marked in self._aborted for at in marked)
        columns = self._offsets, self._timestamps, self._keys, self._values
        return ColumnBatch(topic, partition, *columns, self._headers, aborted)


def _rows_between(whole: ColumnBatch, start: int, stop: int | None) -> ColumnBatch | None:
    """Return the rows from `start` to before `stop`: a broker always sends whole batches."""
    low = bisect_left(whole.offsets, start)
    high = len(whole.offsets) if stop is None else bisect_left(whole.offsets, stop)
    if low >= high:
        return None
    rows = slice(low, high)
    return ColumnBatch(
        whole.topic,
        whole.partition,
        whole.offsets[rows],
        whole.timestamps[rows],
        whole.keys[rows],
        whole.values[rows],
        {at - low: headers for at, headers in whole.headers.items() if low <= at < high},
        frozenset(at - low for at in whole.aborted if low <= at < high),
    )
