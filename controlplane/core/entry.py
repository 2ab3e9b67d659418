"""Raw records with their position in a log: the truth from which everything else is derived.

An `Entry` is one record as Kafka stores it. A `Batch` holds the entries of one partition as
columns, for bulk readers. An object per record would cost more than the fold itself. Neither class
interprets the bytes; `codec` does.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import NamedTuple, Protocol

import msgspec

Headers = tuple[tuple[str, bytes | None], ...]
"""Record headers in order of appearance; a name may repeat."""


TopicPartition = tuple[str, int]
"""A topic and the number of one of its partitions."""


LastValues = MutableMapping[bytes | None, bytes | None]
"""Last value of each raw key: the input of a fold of offsets."""


class Position(NamedTuple):
    """Position of one record: topic, partition, offset. Text form: `moments.position_text`."""

    topic: str
    partition: int
    offset: int


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One record with its position.

    `timestamp` is in milliseconds since 1970 (-1: unknown). A `value` of None is a tombstone.
    `aborted` marks a record of an aborted transaction (`Topics.sees_aborted`). A worker that reads
    with isolation level `read_uncommitted` sees it.
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
        """Topic, partition and offset: they identify the record in a log."""
        return Position(self.topic, self.partition, self.offset)


class Batch(Protocol):
    """Consecutive entries of one partition, at least one, offsets ascending.

    All columns have the same length. `headers` (by index) and `aborted` (indexes) are sparse, for
    few records have any. A log may build the columns at the first access. `keep_last` needs no
    columns: it serves folds in which only the last value of a key counts.
    """

    @property
    def topic(self) -> str:
        """Topic of all entries."""
        ...

    @property
    def partition(self) -> int:
        """Partition of all entries."""
        ...

    @property
    def offsets(self) -> Sequence[int]:
        """Offset of each entry."""
        ...

    @property
    def timestamps(self) -> Sequence[int]:
        """Time of each entry, in milliseconds since 1970 (-1: unknown)."""
        ...

    @property
    def keys(self) -> Sequence[bytes | None]:
        """Key of each entry."""
        ...

    @property
    def values(self) -> Sequence[bytes | None]:
        """Value of each entry, None for a tombstone."""
        ...

    @property
    def headers(self) -> Mapping[int, Headers]:
        """Headers by index, of the entries that have any."""
        ...

    @property
    def aborted(self) -> AbstractSet[int]:
        """Indexes of entries of aborted transactions."""
        ...

    @property
    def end(self) -> int:
        """Offset at which reading continues, perhaps some offsets after the last entry."""
        ...

    def __len__(self) -> int: ...

    def entries(self) -> Iterator[Entry]:
        """Iterate over the entries, in offset order."""
        ...

    def keep_last(self, last: LastValues, *, aborted: bool) -> None:
        """Put the last value of each key into `last`; skip aborted records unless `aborted`."""
        ...

    def entries_under(self, key_prefix: bytes) -> Iterable[Entry]:
        """Return the entries whose key begins with these bytes, in offset order."""
        ...


class ColumnBatch(msgspec.Struct, frozen=True, gc=False):
    """A `Batch` with its columns in memory."""

    topic: str
    partition: int
    offsets: Sequence[int]
    timestamps: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Mapping[int, Headers] = {}
    aborted: AbstractSet[int] = frozenset()

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def end(self) -> int:
        """Offset after the last entry."""
        return self.offsets[-1] + 1

    def entries(self) -> Iterator[Entry]:
        """Iterate over the entries, in offset order."""
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

    def keep_last(self, last: LastValues, *, aborted: bool) -> None:
        """Put the last value of each key into `last`; skip aborted records unless `aborted`."""
        if aborted or not self.aborted:
            last.update(zip(self.keys, self.values, strict=True))
        else:
            committed = (entry for entry in self.entries() if not entry.aborted)
            last.update((entry.key, entry.value) for entry in committed)

    def entries_under(self, key_prefix: bytes) -> Iterable[Entry]:
        """Return the entries whose key begins with these bytes, in offset order."""
        return [
            entry_at(self, index)
            for index, key in enumerate(self.keys)
            if (key or b"").startswith(key_prefix)
        ]


def entry_at(batch: Batch, index: int) -> Entry:
    """Return one entry of a batch, without making the others."""
    return Entry(
        batch.topic,
        batch.partition,
        batch.offsets[index],
        batch.timestamps[index],
        batch.keys[index],
        batch.values[index],
        batch.headers.get(index, ()),
        index in batch.aborted,
    )


def by_partition(entries: Iterable[Entry]) -> dict[TopicPartition, list[Entry]]:
    """Group entries by topic and partition, in the order of their appearance."""
    groups: dict[TopicPartition, list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.topic, entry.partition), []).append(entry)
    return groups


def batch_of(entries: Sequence[Entry]) -> ColumnBatch:
    """Build a `Batch` of entries of one partition (at least one)."""
    first = entries[0]
    return ColumnBatch(
        first.topic,
        first.partition,
        [entry.offset for entry in entries],
        [entry.timestamp for entry in entries],
        [entry.key for entry in entries],
        [entry.value for entry in entries],
        {index: entry.headers for index, entry in enumerate(entries) if entry.headers},
        frozenset(index for index, entry in enumerate(entries) if entry.aborted),
    )


class LazyBatch(ABC):
    """Base of a `Batch` that decodes its columns on first access.

    A subclass defines `decode`, `end`, `len` and `keep_last`; the other members derive from
    `decode`. Most folds need only the last value of each key. Decoding all columns costs more than
    finding these values.
    """

    topic: str
    partition: int

    @abstractmethod
    def decode(self) -> ColumnBatch:
        """Decode all columns."""

    @cached_property
    def decoded(self) -> ColumnBatch:
        """All columns, decoded once and cached."""
        return self.decode()

    @property
    def offsets(self) -> Sequence[int]:
        """Offset of each record."""
        return self.decoded.offsets

    @property
    def timestamps(self) -> Sequence[int]:
        """Timestamp of each record, in milliseconds since 1970 (-1: unknown)."""
        return self.decoded.timestamps

    @property
    def keys(self) -> Sequence[bytes | None]:
        """Key of each record."""
        return self.decoded.keys

    @property
    def values(self) -> Sequence[bytes | None]:
        """Value of each record, None for a tombstone."""
        return self.decoded.values

    @property
    def headers(self) -> Mapping[int, Headers]:
        """Headers by index, for the records that have any."""
        return self.decoded.headers

    @property
    def aborted(self) -> AbstractSet[int]:
        """Indexes of the records whose transaction was aborted."""
        return self.decoded.aborted

    def entries(self) -> Iterator[Entry]:
        """Iterate over the entries, in offset order."""
        return self.decoded.entries()

    def entries_under(self, key_prefix: bytes) -> Iterable[Entry]:
        """Return the entries whose key begins with these bytes, in offset order."""
        return self.decoded.entries_under(key_prefix)
