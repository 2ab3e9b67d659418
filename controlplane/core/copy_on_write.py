"""Copy on write: publishes snapshots of a table that the fold keeps changing.

A snapshot may be published after every single record. So neither publishing nor the next write may
cost as much as the whole table. A small table is copied. A large table stays; writes go into a thin
layer above it, and only the layer is copied. A layer that has grown too thick is merged with its
table into a new one.
"""

from collections.abc import ItemsView, Iterator, Mapping, MutableMapping, ValuesView
from itertools import chain, filterfalse
from math import isqrt
from types import MappingProxyType
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")
I = TypeVar("I")

_ENDLESS = -1
"""Room of a dict that no snapshot shares. Counting down from it never reaches 0."""

SMALL = 128
"""Largest number of items that is simply copied: some 0.5 µs, as much as a layer costs."""


class LayeredDict(MutableMapping[K, V]):
    """A shared dict and a layer with the writes since.

    It behaves, also in the order of its items, like the dict that results from applying the writes
    to the shared dict.
    """

    __slots__ = ("_base", "_gone", "_over")

    def __init__(self, base: dict[K, V], over: dict[K, V], gone: set[K]) -> None:
        self._base = base
        self._over = over
        self._gone = gone  # keys of the base that have been removed, even if they came back

    @property
    def room(self) -> int:
        """Number of keys that the layer may still take; negative: it has too many.

        A thicker layer costs more, copy by copy, than merging it into a new table.
        """
        return 2 * isqrt(len(self._base)) - len(self._over) - len(self._gone)

    def copy(self) -> "LayeredDict[K, V]":
        """An independent copy; the base is shared."""
        return LayeredDict(self._base, self._over.copy(), self._gone.copy())

    def merged(self) -> dict[K, V]:
        """Return the items of all layers as one new dict."""
        items = self._base.copy()
        for key in self._gone:
            del items[key]
        items.update(self._over)
        return items

    def __getitem__(self, key: K) -> V:
        if key in self._over:
            return self._over[key]
        if key in self._gone:
            raise KeyError(key)
        return self._base[key]

    def __contains__(self, key: object) -> bool:
        return key in self._over or (key in self._base and key not in self._gone)

    def __iter__(self) -> Iterator[K]:
        return chain(filterfalse(self._gone.__contains__, self._base), self._added())

    def __len__(self) -> int:
        return len(self._base) - len(self._gone) + len(self._added())

    def __setitem__(self, key: K, value: V) -> None:
        self._over[key] = value

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        self._over.pop(key, None)
        if key in self._base:
            self._gone.add(key)

    def items(self) -> ItemsView[K, V]:
        """Keys and values, merged first: faster than looking up each."""
        return self.merged().items()

    def values(self) -> ValuesView[V]:
        """Values, merged first: faster than looking up each."""
        return self.merged().values()

    def __repr__(self) -> str:
        return repr(self.merged())

    def _added(self) -> list[K]:
        """Keys that come after those of the base."""
        return [key for key in self._over if key not in self._base or key in self._gone]


class CopyOnWrite(Generic[K, V]):
    """A dict that publishes itself without a copy; the first write after that copies.

    Publishing is free, and a table without further writes is never copied. Values must not be
    changed in place: replace them.
    """

    __slots__ = ("_published", "_room", "items")

    def __init__(self) -> None:
        self._room = _ENDLESS
        self.items: dict[K, V] | LayeredDict[K, V] = {}
        """The items, to read. Use `writable()` to write."""
        self._published: Mapping[K, V] | None = None

    def publish(self) -> Mapping[K, V]:
        """An immutable view of the current items."""
        if self._published is None:
            self._published = MappingProxyType(self.items)
        return self._published

    def writable(self) -> MutableMapping[K, V]:
        """The mapping to change, shared with no snapshot. Call it for every change."""
        if self._published is not None:
            self.items = _writable_copy(self.items)
            self._published = None
            self._room = self.items.room if isinstance(self.items, LayeredDict) else _ENDLESS
        elif not self._room:
            assert isinstance(self.items, LayeredDict)
            self.items = self.items.merged()
            self._room = _ENDLESS
        else:
            self._room -= 1  # each change adds at most one key
        return self.items

    def take(self, items: dict[K, V]) -> None:
        """Replace all items. The caller must not change the dict afterwards."""
        self.items = items
        self._published = None
        self._room = _ENDLESS

    def drop(self, key: K) -> V | None:
        """Remove a key; copies nothing if the key is absent."""
        return self.writable().pop(key) if key in self.items else None


def _writable_copy(items: dict[K, V] | LayeredDict[K, V]) -> dict[K, V] | LayeredDict[K, V]:
    """A mapping with the same items that may be changed while `items` stays as it is."""
    if isinstance(items, LayeredDict):
        return items.copy() if items.room > 0 else items.merged()
    return items.copy() if len(items) <= SMALL else LayeredDict(items, {}, set())


class NestedCopyOnWrite(CopyOnWrite[K, dict[I, V]], Generic[K, I, V]):
    """A dict of dicts; the first write after publishing copies an inner dict, too."""

    __slots__ = ("_copied",)

    def __init__(self) -> None:
        super().__init__()
        self._copied: set[K] = set()

    def publish(self) -> Mapping[K, dict[I, V]]:
        """An immutable view of the current items."""
        self._copied.clear()
        return super().publish()

    def put(self, key: K, item: I, value: V) -> None:
        """Set one item of an inner dict, which is created if missing."""
        self._own(key)[item] = value

    def _own(self, key: K) -> dict[I, V]:
        """The inner dict of a key, copied first if a snapshot shares it."""
        outer = self.writable()
        if key not in self._copied:
            outer[key] = dict(outer.get(key, ()))
            self._copied.add(key)
        return outer[key]

    def discard(self, key: K, item: I) -> bool:
        """Remove one item, and its inner dict if empty then; True if the item was present."""
        if item not in self.items.get(key, {}):
            return False
        inner = self._own(key)
        del inner[item]
        if not inner:
            self.drop(key)
        return True

    def drop(self, key: K) -> dict[I, V] | None:
        """Remove an inner dict and return it; None if there is none."""
        self._copied.discard(key)
        return super().drop(key)
