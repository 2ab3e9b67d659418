"""Copy on write: how a fold that changes in place can publish snapshots that never change."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class CopyOnWrite(Generic[K, V]):
    """A dict that is handed out as it is and copied by the first write after that.

    Publishing costs nothing; a table that nobody writes to is never copied. Values must not be
    changed in place: replace them.
    """

    __slots__ = ("_published", "items")

    def __init__(self) -> None:
        self.items: dict[K, V] = {}
        """For reading. To write, ask `writable()`."""
        self._published: Mapping[K, V] | None = None

    def publish(self) -> Mapping[K, V]:
        """What is here now, for good."""
        if self._published is None:
            self._published = MappingProxyType(self.items)
        return self._published

    def writable(self) -> dict[K, V]:
        """The dict to change; a fresh copy if the present one has been published."""
        if self._published is not None:
            self.items = dict(self.items)
            self._published = None
        return self.items

    def take(self, items: dict[K, V]) -> None:
        """Have these instead of what is here. The caller keeps its hands off them from now on."""
        self.items = items
        self._published = None

    def drop(self, key: K) -> V | None:
        """Remove a key; nothing is copied where it is not there."""
        return self.writable().pop(key) if key in self.items else None
