"""LRU cache: a dict of limited size that evicts the least recently used entry."""

from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """Keeps the `room` most recently used entries."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._kept: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: K) -> V | None:
        """Return the value of a key, and mark it as most recently used."""
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def put(self, key: K, value: V) -> V:
        """Store a value; evict the least recently used one if there is no room."""
        self._kept[key] = value
        self._kept.move_to_end(key)
        if len(self._kept) > self._room:
            self._kept.popitem(last=False)
        return value

    def values(self) -> list[V]:
        """Return all values; their order of use does not change."""
        return list(self._kept.values())

    def clear(self) -> None:
        """Remove all entries."""
        self._kept.clear()
