"""Raw bytes with their place in a log: the truth from which everything else is derived.

An `Entry` is one record as Kafka stores it. A `Batch` is many entries of one partition as columns:
what bulk readers hand over, because a million Python objects cost more than the fold itself.
Neither knows what the bytes mean; that is `codec`'s business.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

Headers = tuple[tuple[str, bytes | None], ...]
"""Record headers in order of appearance; a name may repeat."""


class Position(NamedTuple):
    """Place of one record: topic, partition, log offset. Printed `config@57` where unambiguous."""

    topic: str
    partition: int
    offset: int


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One record with its place.

    `timestamp` is in milliseconds since 1970 (-1: unknown). A `value` of None is a tombstone.
    `aborted` marks a record of an aborted transaction: only a reader with isolation level
    `read_uncommitted` (a worker without exactly-once support) ever sees it.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    aborted: bool = False

    @property
    def position(self) -> Position:
        """Where this record lies."""
        return Position(self.topic, self.partition, self.offset)


class Batch(msgspec.Struct, frozen=True, gc=False):
    """Consecutive entries of one partition, as columns of equal length, offsets ascending.

    `headers` (by index into the columns) and `aborted` (indexes) are sparse: few records have any.
    """

    topic: str
    partition: int
    offsets: list[int]
    timestamps: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: Mapping[int, Headers] = {}
    aborted: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return len(self.offsets)

    def entries(self) -> Iterator[Entry]:
        """The same records one by one."""
        columns = zip(self.offsets, self.timestamps, self.keys, self.values, strict=True)
        for index, (offset, timestamp, key, value) in enumerate(columns):
            yield Entry(
                self.topic,
                self.partition,
                offset,
                timestamp,
                key,
                value,
                self.headers.get(index, ()),
                index in self.aborted,
            )


def batch_of(entries: list[Entry]) -> Batch:
    """Entries of one partition (at least one) as a `Batch`."""
    first = entries[0]
    return Batch(
        first.topic,
        first.partition,
        [entry.offset for entry in entries],
        [entry.timestamp for entry in entries],
        [entry.key for entry in entries],
        [entry.value for entry in entries],
        {index: entry.headers for index, entry in enumerate(entries) if entry.headers},
        frozenset(index for index, entry in enumerate(entries) if entry.aborted),
    )
