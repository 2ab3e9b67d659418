"""Answers of a broker, cut into record batches: what they are framed by, not what they hold."""

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from aiokafka.errors import CorruptRecordException, UnsupportedCodecError
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.legacy_records import _LegacyRecordBatchPy
from cramjam import CompressionError, DecompressionError

from controlplane.logs.kafka.metadata import Partition
from controlplane.logs.kafka.wire import Fetched
from controlplane.logs.log import LogCorrupt

FORMAT = 2
"""Kafka's message format since 0.11; segments of older ones may still lie there."""

_FRAME = struct.Struct(">qi")
"""How every format begins: an offset, and the number of bytes that follow."""

_COUNT = struct.Struct(">i")
"""How many records a batch of format 2 holds: the last field of its header."""

MAGIC_AT, COUNT_AT = 16, 57
HEADER_SIZE = 61
"""Of a record batch of format 2; its records follow."""

SMALLEST_FRAME = 26
"""Bytes of a record of format 0 without key and value."""

DAMAGE = (
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


class Frame(NamedTuple):
    """One record batch."""

    octets: bytes
    batch: Any
    """What aiokafka makes of its header, and of its records, once."""

    @property
    def at(self) -> int:
        """Its first offset; formats before 2 do not tell it up front."""
        return getattr(self.batch, "base_offset", 0)

    @property
    def size(self) -> int | None:
        """How many records it says it has; formats before 2 do not say."""
        if self.octets[MAGIC_AT] < FORMAT:
            return None
        return int(_COUNT.unpack_from(self.octets, COUNT_AT)[0])

    def records(self) -> Any:
        """An iterator over its records."""
        return _records(self.octets)


class Piece(NamedTuple):
    """What an answer holds of one partition: whole record batches, not decoded yet."""

    partition: Partition
    start: int
    frames: Sequence[Frame]
    aborted: Sequence[tuple[int, int]]

    @property
    def next_offset(self) -> int:
        """Where reading goes on: behind all batches, also behind what compaction took away."""
        return max(self.start, self.frames[-1].batch.next_offset) if self.frames else self.start


def piece(fetched: Fetched, start: int) -> Piece:
    """Split an answer into its record batches, without looking into them. Cheap.

    Raises:
        LogCorrupt: the framing is damaged.
    """
    try:
        frames = [Frame(octets, _records(octets)) for octets in _frames(fetched.records)]
    except DAMAGE as failure:
        raise corrupt(fetched.partition, start, failure) from failure
    return Piece(fetched.partition, start, frames, fetched.aborted)


def corrupt(partition: Partition, offset: int, failure: BaseException) -> LogCorrupt:
    """What is said about a record batch that raised one of `DAMAGE`."""
    topic, number = partition
    why = str(failure) or type(failure).__name__
    return LogCorrupt(
        f"topic {topic}, partition {number}: the record batch at offset {offset} is damaged "
        f"({why}); nothing behind it can be trusted"
    )


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


def _records(frame: bytes) -> Any:
    """An iterator over a record batch."""
    magic = frame[MAGIC_AT]
    if magic == FORMAT and len(frame) >= HEADER_SIZE:
        return DefaultRecordBatch(frame)
    if magic < FORMAT:
        # The compiled class for old formats believes any length that it reads.
        return _LegacyRecordBatchPy(frame, magic)
    raise CorruptRecordException(f"{len(frame)} bytes of format {magic}")
