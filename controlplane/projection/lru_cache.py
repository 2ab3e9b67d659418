"""LRU cache: a dict of limited size that evicts the least recently used entry."""

from collections import OrderedDict
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LruCache(OrderedDict[K, V]):
    """Cache of the `room` most recently used entries: read with `use`, write with `put`."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self._room = room

    def use(self, key: K) -> V | None:
        """Return the value of a key, or None; mark the key as most recently used."""
        if key in self:
            self.move_to_end(key)
        return self.get(key)

    def put(self, key: K, value: V) -> V:
        """Store and return a value; evict the least recently used one if the cache is full."""
        self[key] = value
        self.move_to_end(key)
        if len(self) > self._room:
            self.popitem(last=False)
        return value
