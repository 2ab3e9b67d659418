"""Raw bytes with their place in a log: the truth from which everything else is derived.

An `Entry` is one record as Kafka stores it. A `Batch` is many entries of one partition as columns:
what bulk readers hand over, because a million Python objects cost more than the fold itself.
Neither knows what the bytes mean; that is `codec`'s business.
"""

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple, Protocol

import msgspec

Headers = tuple[tuple[str, bytes | None], ...]
"""Record headers in order of appearance; a name may repeat."""


LastValues = MutableMapping[bytes | None, bytes | None]
"""Raw keys and the last value of each: what a fold of offsets needs."""


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


class Batch(Protocol):
    """Consecutive entries of one partition, at least one, offsets ascending.

    All columns are of equal length; `headers` (by index into them) and `aborted` (indexes) are
    sparse: few records have any. A log may make them when they are first looked at; for folds in
    which only the last value of a key counts there is `keep_last`, which needs none.
    """

    @property
    def topic(self) -> str:
        """Where they lie."""
        ...

    @property
    def partition(self) -> int:
        """Where they lie."""
        ...

    @property
    def offsets(self) -> Sequence[int]:
        """The offset of each."""
        ...

    @property
    def timestamps(self) -> Sequence[int]:
        """The time of each, in milliseconds since 1970 (-1: unknown)."""
        ...

    @property
    def keys(self) -> Sequence[bytes | None]:
        """The key of each."""
        ...

    @property
    def values(self) -> Sequence[bytes | None]:
        """The value of each, None for a tombstone."""
        ...

    @property
    def headers(self) -> Mapping[int, Headers]:
        """By index, of those that have any."""
        ...

    @property
    def aborted(self) -> AbstractSet[int]:
        """The indexes of those whose transaction was aborted."""
        ...

    @property
    def end(self) -> int:
        """The offset at which reading goes on."""
        ...

    def __len__(self) -> int: ...

    def entries(self) -> Iterator[Entry]:
        """The same records one by one."""
        ...

    def keep_last(self, last: LastValues, *, aborted: bool) -> None:
        """Set the last value of each key; records of aborted transactions only if wanted."""
        ...


class Decoded(msgspec.Struct, frozen=True, gc=False):
    """A `Batch` whose columns are made."""

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
        """The offset after the last entry."""
        return self.offsets[-1] + 1

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

    def keep_last(self, last: LastValues, *, aborted: bool) -> None:
        """Set the last value of each key; records of aborted transactions only if wanted."""
        if aborted or not self.aborted:
            last.update(zip(self.keys, self.values, strict=True))
        else:
            last.update((one.key, one.value) for one in self.entries() if not one.aborted)


def batch_of(entries: Sequence[Entry]) -> Decoded:
    """Entries of one partition (at least one) as a `Batch`."""
    first = entries[0]
    return Decoded(
        first.topic,
        first.partition,
        [entry.offset for entry in entries],
        [entry.timestamp for entry in entries],
        [entry.key for entry in entries],
        [entry.value for entry in entries],
        {index: entry.headers for index, entry in enumerate(entries) if entry.headers},
        frozenset(index for index, entry in enumerate(entries) if entry.aborted),
    )
