"""Copy on write: how a fold that changes in place can publish snapshots that never change."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")
I = TypeVar("I")


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


class NestedCopyOnWrite(CopyOnWrite[K, dict[I, V]], Generic[K, I, V]):
    """A dict of dicts; an inner one, too, is copied by the first write after publishing."""

    __slots__ = ("_copied",)

    def __init__(self) -> None:
        super().__init__()
        self._copied: set[K] = set()

    def publish(self) -> Mapping[K, dict[I, V]]:
        """What is here now, for good."""
        self._copied.clear()
        return super().publish()

    def put(self, key: K, item: I, value: V) -> None:
        """Set one item of an inner dict, which is made if it is not there."""
        outer = self.writable()
        if key not in self._copied:
            outer[key] = dict(outer.get(key, ()))
            self._copied.add(key)
        outer[key][item] = value

    def discard(self, key: K, item: I) -> bool:
        """Remove one item, and an inner dict that is empty then; whether it was there."""
        present = self.items.get(key, {})
        if item not in present:
            return False
        rest = {one: value for one, value in present.items() if one != item}
        self._copied.discard(key)
        if rest:
            self.writable()[key] = rest
        else:
            self.drop(key)
        return True

    def drop(self, key: K) -> dict[I, V] | None:
        """Remove an inner dict."""
        self._copied.discard(key)
        return super().drop(key)
