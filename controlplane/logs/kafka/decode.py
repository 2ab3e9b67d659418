"""Record batches as a broker sends them, turned into columns."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, NamedTuple

from aiokafka.errors import CorruptRecordException, UnsupportedCodecError
from aiokafka.record.control_record import ABORT_MARKER, ControlRecord
from aiokafka.record.memory_records import MemoryRecords
from cramjam import CompressionError, DecompressionError

from controlplane.core.entry import Batch, Headers
from controlplane.logs.kafka.wire import Fetched, Partition
from controlplane.logs.log import LogCorrupt

_DAMAGE = (
    CorruptRecordException,
    UnsupportedCodecError,
    CompressionError,
    DecompressionError,
    ValueError,
    OSError,  # gzip
    EOFError,  # gzip
    IndexError,
    AssertionError,
)
"""What the iterator and the codecs raise about bytes that are no records."""


class Piece(NamedTuple):
    """What an answer holds of one partition: whole record batches, not decoded yet."""

    partition: Partition
    start: int
    batches: Sequence[Any]
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
    found = []
    try:
        records = MemoryRecords(fetched.records)
        while records.has_next():
            found.append(records.next_batch())
    except _DAMAGE as failure:
        raise _corrupt(fetched.partition, start, failure) from failure
    return Piece(fetched.partition, start, found, fetched.aborted)


def decode(taken: Piece, stop: int | None = None) -> Batch | None:
    """The records of a piece from its start on, up to before `stop`; None if there are none.

    Control records (transaction markers) are left out; records of aborted transactions are marked.

    Raises:
        LogCorrupt: a checksum is wrong, or what it covers are no records.
    """
    columns, aborted = _Columns(), _Aborted(taken.aborted)
    for batch in taken.batches:
        try:
            _take(batch, columns, aborted)
        except _DAMAGE as failure:
            at = getattr(batch, "base_offset", taken.start)
            raise _corrupt(taken.partition, at, failure) from failure
    return columns.between(taken.partition, taken.start, stop)


def _take(batch: Any, columns: "_Columns", aborted: "_Aborted") -> None:
    if not batch.validate_crc():
        raise CorruptRecordException("wrong checksum")
    if batch.is_control_batch:
        aborted.end(batch)
    else:
        columns.add(batch, aborted=aborted.covers(batch))


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


class _Columns:
    """The columns of a `Batch` while they grow."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.timestamps: list[int] = []
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.headers: dict[int, Headers] = {}
        self.aborted: list[range] = []

    def add(self, batch: Any, *, aborted: bool) -> None:
        """Append the records of one batch. The one loop that runs for every record."""
        first = len(self.offsets)
        offset, timestamp = self.offsets.append, self.timestamps.append
        key, value = self.keys.append, self.values.append
        for record in batch:
            if record.headers:
                self.headers[len(self.offsets)] = tuple(record.headers)
            offset(record.offset)
            timestamp(record.timestamp)
            key(record.key)
            value(record.value)
        if aborted:
            self.aborted.append(range(first, len(self.offsets)))

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
