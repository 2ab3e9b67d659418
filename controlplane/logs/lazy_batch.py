"""Batch that decodes its columns on first access.

Most folds need only the last value of each key. To decode all columns costs more than to find these
values.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property

from controlplane.core.entry import ColumnBatch, Entry, Headers


class LazyBatch(ABC):
    """Base of a `Batch`: derives all members but `end`, `len` and `keep_last` from `decode`."""

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition

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
        """Iterate over the records."""
        return self.decoded.entries()
