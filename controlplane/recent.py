"""A dict with room for a few: what was not asked for longest makes way."""

from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Keeps the `room` entries that were asked for last."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._kept: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: K) -> V | None:
        """What is kept under a key; it becomes the one asked for last."""
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def put(self, key: K, value: V) -> V:
        """Keep a value, and forget the one not asked for longest if there is no room."""
        self._kept[key] = value
        self._kept.move_to_end(key)
        if len(self._kept) > self._room:
            self._kept.popitem(last=False)
        return value

    def values(self) -> list[V]:
        """All that is kept; nothing counts as asked for."""
        return list(self._kept.values())

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()
