"""Frames of record batches: splits a fetch response without decoding records."""

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from aiokafka.errors import CorruptRecordException, UnsupportedCodecError
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.legacy_records import _LegacyRecordBatchPy
from cramjam import CompressionError, DecompressionError

from controlplane.core.entry import TopicPartition
from controlplane.logs.kafka.protocol.read_requests import FetchedPartition
from controlplane.logs.log import LogCorrupt

FORMAT = 2
"""Kafka's message format since 0.11; a log may still hold segments of older formats."""

_FRAME = struct.Struct(">qi")
"""Start of a frame in every format: an offset, and the number of bytes that follow."""

_OFFSET = struct.Struct(">q")
"""First field of a record batch: the offset of its first record."""

_COUNT = struct.Struct(">i")
"""Number of records in a batch of format 2: the last field of its header."""

MAGIC_AT, COUNT_AT = 16, 57
"""Positions of two fields in a frame: the format, and the number of records (format 2)."""
HEADER_SIZE = 61
"""Size of the header of a record batch of format 2; its records follow."""

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
"""Errors that aiokafka and the codecs raise for malformed records."""


class Frame(NamedTuple):
    """Record batch: its bytes, and its parsed header."""

    octets: bytes
    batch: Any
    """Header as parsed by aiokafka. It iterates over the records once."""

    @property
    def at(self) -> int:
        """First offset of the batch; 0 for formats before 2, where aiokafka hides it."""
        return getattr(self.batch, "base_offset", 0)

    @property
    def size(self) -> int | None:
        """Number of records according to the header; None for formats before 2."""
        if self.octets[MAGIC_AT] < FORMAT:
            return None
        return int(_COUNT.unpack_from(self.octets, COUNT_AT)[0])

    @property
    def may_be_compressed(self) -> bool:
        """True if compression may hide the bytes of a key; always true before format 2."""
        return self.octets[MAGIC_AT] < FORMAT or bool(self.batch.compression_type)

    def records(self) -> Any:
        """Return a new iterator over the records."""
        return _records(self.octets)


class PartitionFrames(NamedTuple):
    """Complete record batches of one partition in a fetch response, not decoded yet."""

    partition: TopicPartition
    start: int
    frames: Sequence[Frame]
    aborted: Sequence[tuple[int, int]]

    @property
    def next_offset(self) -> int:
        """Next offset to fetch: after all batches, also after records that compaction removed."""
        return max(self.start, self.frames[-1].batch.next_offset) if self.frames else self.start


def partition_frames(fetched: FetchedPartition, start: int) -> PartitionFrames:
    """Split a fetch response into record batches without decoding them.

    Raises:
        LogCorrupt: a frame is damaged.
    """
    try:
        frames = [Frame(octets, _records(octets)) for octets in _frames(fetched.records)]
    except DAMAGE as failure:
        raise corrupt(fetched.partition, start, failure) from failure
    return PartitionFrames(fetched.partition, start, frames, fetched.aborted)


def appended_frames(partition: TopicPartition, offset: int, octets: bytes) -> PartitionFrames:
    """Return a batch as a fetch returns it after its append at an offset.

    A broker writes the offset into the batch; the checksum does not cover it.
    """
    stored = _OFFSET.pack(offset) + octets[_OFFSET.size :]
    return PartitionFrames(partition, offset, [Frame(stored, _records(stored))], ())


def corrupt(partition: TopicPartition, offset: int, failure: BaseException) -> LogCorrupt:
    """Build the error for a record batch that raised one of `DAMAGE`."""
    topic, number = partition
    reason = str(failure) or type(failure).__name__
    return LogCorrupt(
        f"topic {topic}, partition {number}: the record batch at offset {offset} is damaged "
        f"({reason}). Nothing after it can be trusted: check the disk of its broker"
    )


def _frames(records: bytes) -> Iterator[bytes]:
    """Yield complete record batches of any format; skip a last one that the broker has cut."""
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
    """Return an iterator over the records of a batch."""
    magic = frame[MAGIC_AT]
    if magic == FORMAT and len(frame) >= HEADER_SIZE:
        return DefaultRecordBatch(frame)
    if magic < FORMAT:
        # aiokafka's compiled class for old formats does not check the lengths that it reads.
        return _LegacyRecordBatchPy(frame, magic)
    raise CorruptRecordException(f"{len(frame)} bytes of format {magic}")
