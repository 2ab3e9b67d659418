"""A batch whose columns are made when they are first looked at.

Most folds need no more of a batch than the last value of each key, and making its columns costs
more than finding those.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property

from controlplane.core.entry import Decoded, Entry, Headers


class LazyBatch(ABC):
    """All of a `Batch` but `end`, `len` and `keep_last`, from what `decode` answers."""

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition

    @abstractmethod
    def decode(self) -> Decoded:
        """All columns."""

    @cached_property
    def decoded(self) -> Decoded:
        """All columns, made once."""
        return self.decode()

    @property
    def offsets(self) -> Sequence[int]:
        """The offset of each record."""
        return self.decoded.offsets

    @property
    def timestamps(self) -> Sequence[int]:
        """The time of each, in milliseconds since 1970 (-1: unknown)."""
        return self.decoded.timestamps

    @property
    def keys(self) -> Sequence[bytes | None]:
        """The key of each."""
        return self.decoded.keys

    @property
    def values(self) -> Sequence[bytes | None]:
        """The value of each, None for a tombstone."""
        return self.decoded.values

    @property
    def headers(self) -> Mapping[int, Headers]:
        """By index, of those that have any."""
        return self.decoded.headers

    @property
    def aborted(self) -> AbstractSet[int]:
        """The indexes of those whose transaction was aborted."""
        return self.decoded.aborted

    def entries(self) -> Iterator[Entry]:
        """The same records one by one."""
        return self.decoded.entries()
