"""Record batches as a broker sends them, turned into columns."""

import struct
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from aiokafka.errors import CorruptRecordException, UnsupportedCodecError
from aiokafka.record.control_record import ABORT_MARKER, ControlRecord
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.legacy_records import _LegacyRecordBatchPy
from cramjam import CompressionError, DecompressionError

from controlplane.core.entry import Batch, Headers
from controlplane.logs.kafka import lenient
from controlplane.logs.kafka.metadata import Partition
from controlplane.logs.kafka.wire import Fetched
from controlplane.logs.log import LogCorrupt

FORMAT = 2
"""Kafka's message format since 0.11; segments of older ones may still lie there."""

_FRAME = struct.Struct(">qi")
"""How every format begins: an offset, and the number of bytes that follow."""

MAGIC_AT = 16
HEADER_SIZE = 61
"""Of a record batch of format 2; its records follow."""

SMALLEST_FRAME = 26
"""Bytes of a record of format 0 without key and value."""

UNKNOWN_MS = -1
"""Time of a record whose format (0) has none."""

_DAMAGE = (
    CorruptRecordException,
    UnsupportedCodecError,
    CompressionError,
    DecompressionError,
    struct.error,
    zlib.error,
    AssertionError,
    EOFError,
    LookupError,
    OSError,
    TypeError,
    ValueError,
)
"""What the iterator and the codecs raise about bytes that are no records."""


class Piece(NamedTuple):
    """What an answer holds of one partition: whole record batches, not decoded yet."""

    partition: Partition
    start: int
    frames: Sequence[bytes]
    batches: Sequence[Any]
    """The frames as aiokafka's iterators."""
    aborted: Sequence[tuple[int, int]]

    @property
    def next_offset(self) -> int:
        """Where reading goes on: behind all batches, also behind what compaction took away."""
        return max(self.start, self.batches[-1].next_offset) if self.batches else self.start


def piece(fetched: Fetched, start: int) -> Piece:
    """Split an answer into its record batches, without looking into them. Cheap.

    Raises:
        LogCorrupt: the framing is damaged.
    """
    try:
        frames = list(_frames(fetched.records))
        batches = [_batch(frame) for frame in frames]
    except _DAMAGE as failure:
        raise _corrupt(fetched.partition, start, failure) from failure
    return Piece(fetched.partition, start, frames, batches, fetched.aborted)


def _frames(records: bytes) -> Iterator[bytes]:
    """Whole record batches, whatever their format; a broker may cut the last one."""
    at = 0
    while at + _FRAME.size <= len(records):
        end = at + _FRAME.size + _FRAME.unpack_from(records, at)[1]
        if end < at + SMALLEST_FRAME:
            raise CorruptRecordException("too short")
        if end > len(records):
            return
        yield records[at:end]
        at = end


def _batch(frame: bytes) -> Any:
    """An iterator over a record batch."""
    magic = frame[MAGIC_AT]
    if magic == FORMAT and len(frame) >= HEADER_SIZE:
        return DefaultRecordBatch(frame)
    if magic < FORMAT:
        # The compiled class for old formats believes any length that it reads.
        return _LegacyRecordBatchPy(frame, magic)
    raise CorruptRecordException(f"{len(frame)} bytes of format {magic}")


def decode(taken: Piece, stop: int | None = None) -> Batch | None:
    """The records of a piece from its start on, up to before `stop`; None if there are none.

    Control records (transaction markers) are left out; records of aborted transactions are marked.

    Raises:
        LogCorrupt: a checksum is wrong, or what it covers are no records.
    """
    columns, aborted = _Columns(), _Aborted(taken.aborted)
    for index, batch in enumerate(taken.batches):
        try:
            _take(taken, index, columns, aborted)
        except _DAMAGE as failure:
            at = getattr(batch, "base_offset", taken.start)
            raise _corrupt(taken.partition, at, failure) from failure
    return columns.between(taken.partition, taken.start, stop)


def _take(taken: Piece, index: int, columns: "_Columns", aborted: "_Aborted") -> None:
    """Append one batch of a piece, or take note of the marker that it is."""
    batch = taken.batches[index]
    if not batch.validate_crc():
        raise CorruptRecordException("wrong checksum")
    if batch.is_control_batch:
        aborted.end(batch)
        return
    is_aborted = aborted.covers(batch)
    try:
        columns.add(batch, aborted=is_aborted)
    except UnicodeDecodeError:  # the name of a header
        columns.add(lenient.rows(taken.frames[index]), aborted=is_aborted)


class _Aborted:
    """Which producers are inside an aborted transaction, while batches go by in log order.

    The broker lists each such transaction with its first offset; a marker in the log ends it.
    """

    def __init__(self, transactions: Sequence[tuple[int, int]]) -> None:
        self._coming = sorted(transactions, key=lambda entry: entry[1], reverse=True)
        self._producers: set[int] = set()

    def covers(self, batch: Any) -> bool:
        """Whether the batch belongs to an aborted transaction."""
        if not batch.is_transactional:
            return False
        while self._coming and self._coming[-1][1] < batch.next_offset:
            self._producers.add(self._coming.pop()[0])
        return batch.producer_id in self._producers

    def end(self, marker: Any) -> None:
        """Take note of a control batch; only one that aborts matters."""
        while self._coming and self._coming[-1][1] < marker.next_offset:
            self._producers.add(self._coming.pop()[0])
        if any(ControlRecord.parse(record.key) == ABORT_MARKER for record in marker):
            self._producers.discard(marker.producer_id)


_ROW = attrgetter("offset", "timestamp", "key", "value", "headers")


class _Columns:
    """The columns of a `Batch` while they grow."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.timestamps: list[int] = []
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.headers: dict[int, Headers] = {}
        self.aborted: list[range] = []

    def add(self, batch: Iterable[Any], *, aborted: bool) -> None:
        """Append all records of one batch, or none if it raises."""
        first = len(self.offsets)
        try:
            self._add(batch)
        except BaseException:
            for column in (self.offsets, self.timestamps, self.keys, self.values):
                del column[first:]
            raise
        if isinstance(batch, _LegacyRecordBatchPy):
            told = self.timestamps[first:]
            self.timestamps[first:] = [UNKNOWN_MS if ms is None else ms for ms in told]
        if aborted:
            self.aborted.append(range(first, len(self.offsets)))

    def _add(self, batch: Iterable[Any]) -> None:
        """What is done for every record, and therefore without a loop in Python."""
        rows = list(map(_ROW, batch))
        if not rows:
            return
        offsets, timestamps, keys, values, headers = zip(*rows, strict=True)
        if any(headers):
            first = len(self.offsets)
            named = ((first + index, tuple(given)) for index, given in enumerate(headers) if given)
            self.headers.update(named)
        self.offsets.extend(offsets)
        self.timestamps.extend(timestamps)
        self.keys.extend(keys)
        self.values.extend(values)

    def between(self, partition: Partition, start: int, stop: int | None) -> Batch | None:
        """The rows from `start` to before `stop`: a batch comes whole, wherever we asked for."""
        low = bisect_left(self.offsets, start)
        high = len(self.offsets) if stop is None else bisect_left(self.offsets, stop)
        if low >= high:
            return None
        rows = slice(low, high)
        return Batch(
            *partition,
            self.offsets[rows],
            self.timestamps[rows],
            self.keys[rows],
            self.values[rows],
            {at - low: found for at, found in self.headers.items() if low <= at < high},
            frozenset(at - low for marked in self.aborted for at in marked if low <= at < high),
        )


def _corrupt(partition: Partition, offset: int, failure: BaseException) -> LogCorrupt:
    topic, number = partition
    why = str(failure) or type(failure).__name__
    return LogCorrupt(
        f"topic {topic}, partition {number}: the record batch at offset {offset} is damaged "
        f"({why}); nothing behind it can be trusted"
    )
