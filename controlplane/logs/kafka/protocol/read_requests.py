"""Requests of the reader, and the fields of their responses in all supported versions.

aiokafka picks the newest version that it and the broker share. No request changes anything on a
broker; in particular, no request creates a topic.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from itertools import starmap
from typing import Any, Literal, NamedTuple

import aiokafka.protocol.fetch as _fetch
from aiokafka.protocol.offset import OffsetRequest, OffsetRequest_v3, OffsetResponse_v3
from aiokafka.protocol.types import Array, Int8, Int32, Schema, String

from controlplane.core.entry import TopicPartition
from controlplane.logs.kafka.limits import ReadLimits

Isolation = Literal["read_committed", "read_uncommitted"]
"""Kafka's `isolation.level`; `KafkaReader` describes the effect of each."""

EARLIEST, LATEST = -2, -1
"""Timestamps that ListOffsets uses for the first record and the end."""

_ISOLATION = {"read_uncommitted": 0, "read_committed": 1}
_NO_REPLICA = -1
"""Replica id of a reader that is no broker."""
_SESSION_VERSION = 7
"""First version of a fetch request that has sessions."""


def _by_topic(values: Mapping[TopicPartition, Any]) -> list[tuple[str, list[tuple[Any, ...]]]]:
    topics: dict[str, list[tuple[Any, ...]]] = {}
    for (topic, partition), value in values.items():
        topics.setdefault(topic, []).append((partition, *value))
    return list(topics.items())


class NumberRows:
    """Array of rows of numbers, as a field of aiokafka's schemas.

    One call of `struct` converts a row; aiokafka's `Array` makes several calls for each number.
    """

    def __init__(self, layout: str) -> None:
        self._row = struct.Struct(layout)

    def encode(self, rows: Sequence[tuple[int, ...]]) -> bytes:
        """Return the count of the rows and their numbers."""
        return b"".join((Int32.encode(len(rows)), *starmap(self._row.pack, rows)))

    def decode(self, stream: BytesIO) -> list[tuple[int, ...]]:
        """Read what `encode` returns; a null array has no rows.

        Raises:
            ValueError: rows are missing.
        """
        count = max(Int32.decode(stream), 0)
        try:
            return [self._row.unpack(stream.read(self._row.size)) for _ in range(count)]
        except struct.error as failure:
            raise ValueError(f"fewer than {count} rows: {failure}") from failure

    def repr(self, rows: Sequence[tuple[int, ...]]) -> str:
        """Text of the rows, for aiokafka's log."""
        return repr(rows)


def _topic_rows(layout: str) -> tuple[str, Array]:
    return "topics", Array(("topic", String()), ("partitions", NumberRows(layout)))


class _OffsetResponse(OffsetResponse_v3):  # type: ignore[misc]  # aiokafka has no types
    SCHEMA = Schema(("throttle_time_ms", Int32), _topic_rows(">ihqq"))


class _OffsetRequest(OffsetRequest_v3):  # type: ignore[misc]
    RESPONSE_TYPE = _OffsetResponse
    SCHEMA = Schema(("replica_id", Int32), ("isolation_level", Int8), _topic_rows(">iq"))


class _OffsetRequests(OffsetRequest):  # type: ignore[misc]
    """ListOffsets request with `NumberRows` in its newest version.

    Each read to the end waits for this request, so it must be encoded fast.
    """

    def build(self, request_struct_class: Any) -> Any:
        """Return the request in a version."""
        newest = request_struct_class is OffsetRequest_v3
        return super().build(_OffsetRequest if newest else request_struct_class)


def offsets_request(
    partitions: Iterable[TopicPartition], timestamp: int, isolation: Isolation
) -> OffsetRequest:
    """Build the request for offsets at `EARLIEST`, `LATEST` or a time in ms since 1970."""
    timestamps = dict.fromkeys(partitions, (timestamp,))
    return _OffsetRequests(_NO_REPLICA, _ISOLATION[isolation], _by_topic(timestamps))


def offsets(response: Any) -> Iterator[tuple[TopicPartition, int, int]]:
    """Yield partition, error code and offset from a ListOffsets response."""
    for topic, partitions in response.topics:
        for partition, code, _, offset in partitions:
            yield (topic, partition), code, offset


class SessionEpoch(NamedTuple):
    """Place of a fetch request in a session (KIP-227): the session, and the request's number."""

    session: int
    number: int


NO_SESSION, NEW_SESSION = SessionEpoch(0, -1), SessionEpoch(0, 0)
"""Places of a request that belongs to no session, and of one that begins a session."""


class _FetchRequest(_fetch.FetchRequest):  # type: ignore[misc]  # aiokafka has no types
    """Fetch request with its place in a session; aiokafka's own belongs to none."""

    def __init__(self, place: SessionEpoch, *args: Any) -> None:
        super().__init__(*args)
        self._place = place

    def build(self, request_struct_class: Any) -> Any:
        """Return the request in a version; versions before 7 have no sessions."""
        request = super().build(request_struct_class)
        if request.API_VERSION >= _SESSION_VERSION:
            request.session_id, request.session_epoch = self._place
        return request


def fetch_request(
    positions: Mapping[TopicPartition, int],
    isolation: Isolation,
    limits: ReadLimits,
    place: SessionEpoch = NO_SESSION,
) -> _fetch.FetchRequest:
    """Build the fetch request for these positions; a broker delays an empty response.

    In a session, name only the positions that have changed; the broker remembers the others.
    """
    offsets = {
        partition: (offset, limits.partition_max_bytes) for partition, offset in positions.items()
    }
    limit = (limits.fetch_wait_ms, 1, limits.fetch_max_bytes, _ISOLATION[isolation])
    return _FetchRequest(place, *limit, _by_topic(offsets))


def session_of(response: Any) -> tuple[int, int]:
    """Return the session of a fetch response (0: none), and its error code (0: none)."""
    if response.API_VERSION < _SESSION_VERSION:
        return 0, 0
    return response.session_id, response.error_code


class FetchedPartition(NamedTuple):
    """Part of a fetch response about one partition; `records` are undecoded record batches."""

    partition: TopicPartition
    code: int
    high_watermark: int
    last_stable: int
    aborted: list[tuple[int, int]]
    """Producer id and first offset of each aborted transaction with batches in `records`."""
    records: bytes

    def readable(self, isolation: Isolation) -> int:
        """Return the offset before which a reader of this isolation level sees every record."""
        return self.last_stable if isolation == "read_committed" else self.high_watermark


def fetched(response: Any) -> Iterator[FetchedPartition]:
    """Yield the partitions of a fetch response (version 4 or later)."""
    # Index of the aborted transactions; from version 5 on, the start of the log precedes them.
    transactions = 4 if response.API_VERSION == 4 else 5
    for topic, partitions in response.topics:
        for fields in partitions:
            number, code, high_watermark, last_stable = fields[:4]
            aborted = fields[transactions] or []
            records = fields[-1] or b""
            yield FetchedPartition(
                (topic, number), code, high_watermark, last_stable, aborted, records
            )
