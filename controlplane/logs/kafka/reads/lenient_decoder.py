"""Fallback decoder for record batches with header names that are not UTF-8.

aiokafka refuses such a batch. But producers may write any bytes there; librdkafka does not check
them. Brokers accept them, and Java reads them with replacement characters. One record must not stop
a read, so this slow decoder reads the batch as Java does.
"""

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from aiokafka.codec import gzip_decode, lz4_decode, snappy_decode, zstd_decode

from controlplane.core.entry import Headers

_HEADER = struct.Struct(">qiibIhiqqqhii")
_CODEC_MASK, _LOG_APPEND_TIME = 0x07, 0x08

_CODECS: Mapping[int, Callable[[bytes], bytes]] = {
    0: bytes,
    1: gzip_decode,
    2: snappy_decode,
    3: lz4_decode,
    4: zstd_decode,
}
"""Codecs by their number in the attributes of a batch."""


VARINT_BITS = 63
"""Largest shift of a group of bits in a number: numbers have at most 64 bits, in ten groups."""


class LenientRecord(NamedTuple):
    """Record with the same field names as aiokafka's records."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def rows(batch: bytes) -> Iterator[LenientRecord]:
    """Yield the records of a batch of format 2 with a valid checksum.

    Raises:
        ValueError, LookupError: the bytes are no records, or the codec is unknown. Codecs raise
            other errors (`frames.DAMAGE`).
    """
    fields = _HEADER.unpack_from(batch)
    base, attributes, first_ms, last_ms, count = (fields[at] for at in (0, 5, 7, 8, 12))
    body = _RecordCursor(_CODECS[attributes & _CODEC_MASK](batch[_HEADER.size :]))
    for _ in range(count):
        body.varint()  # length of the record
        body.take(1)  # attributes, unused so far
        time_delta_ms, offset_delta = body.varint(), body.varint()
        timestamp = last_ms if attributes & _LOG_APPEND_TIME else first_ms + time_delta_ms
        yield LenientRecord(
            base + offset_delta, timestamp, body.nullable(), body.nullable(), body.headers()
        )


class _RecordCursor:
    """Cursor over the decompressed records of a batch."""

    def __init__(self, octets: bytes) -> None:
        self._octets = octets
        self._at = 0

    def take(self, count: int) -> bytes:
        self._at += count
        if count < 0 or self._at > len(self._octets):
            raise ValueError("a record ends early")
        return self._octets[self._at - count : self._at]

    def varint(self) -> int:
        """Read a number in 7-bit groups, zig-zag encoded."""
        number = shift = 0
        while shift <= VARINT_BITS:
            group = self.take(1)[0]
            number |= (group & 0x7F) << shift
            if group < 0x80:
                return number >> 1 ^ -(number & 1)
            shift += 7
        raise ValueError("a number has more than ten bytes")

    def nullable(self) -> bytes | None:
        size = self.varint()
        return None if size < 0 else self.take(size)

    def headers(self) -> Headers:
        return tuple(
            (self.take(self.varint()).decode("utf-8", "replace"), self.nullable())
            for _ in range(self.varint())
        )
