"""Copy on write: publishes snapshots of a table that the fold keeps changing.

A snapshot may be published after every single record. So neither publishing nor the next write may
cost as much as the whole table. A small table is copied. A large table stays; writes go into a thin
layer above it, and only the layer is copied. A layer that has grown too thick is merged with its
table into a new table.
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
"""Room of a plain dict, which needs no merge. Counting down from it never reaches 0."""

SMALL = 128
"""Maximum items of a table that is copied whole: a copy takes about 0.5 µs, like a new layer."""


class LayeredDict(MutableMapping[K, V]):
    """Shared dict (the base) and a layer with the writes since.

    Its items and their order are those of a copy of the base with the writes applied.
    """

    __slots__ = ("_base", "_removed", "_written")

    def __init__(self, base: dict[K, V], written: dict[K, V], removed: set[K]) -> None:
        self._base = base
        self._written = written
        # Keys removed from the base. A key that was written again is in `_written`, too.
        self._removed = removed

    @property
    def room(self) -> int:
        """Number of keys that the layer may still take; negative: it has too many.

        A limit of about √n keys balances two costs. Each snapshot copies the layer, and each merge
        copies the table of n keys.
        """
        return 2 * isqrt(len(self._base)) - len(self._written) - len(self._removed)

    def copy(self) -> "LayeredDict[K, V]":
        """An independent copy; the base is shared."""
        return LayeredDict(self._base, self._written.copy(), self._removed.copy())

    def merged(self) -> dict[K, V]:
        """Return the base, with the writes of the layer applied, as one new dict."""
        items = self._base.copy()
        for key in self._removed:
            del items[key]
        items.update(self._written)
        return items

    def __getitem__(self, key: K) -> V:
        if key in self._written:
            return self._written[key]
        if key in self._removed:
            raise KeyError(key)
        return self._base[key]

    def __contains__(self, key: object) -> bool:
        return key in self._written or (key in self._base and key not in self._removed)

    def __iter__(self) -> Iterator[K]:
        return chain(filterfalse(self._removed.__contains__, self._base), self._added())

    def __len__(self) -> int:
        return len(self._base) - len(self._removed) + len(self._added())

    def __setitem__(self, key: K, value: V) -> None:
        self._written[key] = value

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        self._written.pop(key, None)
        if key in self._base:
            self._removed.add(key)

    def items(self) -> ItemsView[K, V]:
        """Keys and values of the merged dict: faster than looking up each key."""
        return self.merged().items()

    def values(self) -> ValuesView[V]:
        """Values of the merged dict: faster than looking up each key."""
        return self.merged().values()

    def __repr__(self) -> str:
        return repr(self.merged())

    def _added(self) -> list[K]:
        """Written keys that are new, or were removed before: they come after those of the base."""
        return [key for key in self._written if key not in self._base or key in self._removed]


class CopyOnWrite(Generic[K, V]):
    """Dict that publishes itself without a copy; the first write after that copies.

    A table without further writes is never copied. Values must not be changed in place: replace
    them.
    """

    __slots__ = ("_published", "_room", "items")

    def __init__(self) -> None:
        # Estimate of `LayeredDict.room`, which is slower to compute. An `update` with several keys
        # makes it too high. The layer is then merged later, and no item is lost.
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
        """The mapping to change, which no snapshot shares. Call this method before every change."""
        if self._published is not None:
            self.items = _writable_copy(self.items)
            self._published = None
            self._room = self.items.room if isinstance(self.items, LayeredDict) else _ENDLESS
        elif not self._room:
            assert isinstance(self.items, LayeredDict)
            self.items = self.items.merged()
            self._room = _ENDLESS
        else:
            self._room -= 1  # a change of one key thickens the layer by at most one key
        return self.items

    def take(self, items: dict[K, V]) -> None:
        """Replace all items. The caller must not change the dict afterwards."""
        self.items = items
        self._published = None
        self._room = _ENDLESS

    def drop(self, key: K) -> V | None:
        """Remove a key; copies nothing if the key is absent."""
        return self.writable().pop(key) if key in self.items else None


def plain_copy(items: Mapping[K, V]) -> dict[K, V]:
    """Copy a table, published or not, to a dict.

    `dict` looks up each key of a published table. Its own copy takes a tenth of that time.
    """
    copied = items.copy() if isinstance(items, MappingProxyType) else items
    return copied if isinstance(copied, dict) and copied is not items else dict(copied)


def _writable_copy(items: dict[K, V] | LayeredDict[K, V]) -> dict[K, V] | LayeredDict[K, V]:
    """Return a mapping with the same items; its changes leave `items` as they are."""
    if isinstance(items, LayeredDict):
        return items.copy() if items.room > 0 else items.merged()
    return items.copy() if len(items) <= SMALL else LayeredDict(items, {}, set())


class NestedCopyOnWrite(CopyOnWrite[K, dict[I, V]], Generic[K, I, V]):
    """Dict of dicts; the first write to an inner dict after publishing copies that dict, too."""

    __slots__ = ("_copied",)

    def __init__(self) -> None:
        super().__init__()
        self._copied: set[K] = set()  # keys whose inner dict no snapshot shares

    def publish(self) -> Mapping[K, dict[I, V]]:
        """An immutable view of the current items."""
        self._copied.clear()
        return super().publish()

    def put(self, key: K, item: I, value: V) -> None:
        """Set one item of an inner dict; create the inner dict if it is missing."""
        self._writable_inner(key)[item] = value

    def _writable_inner(self, key: K) -> dict[I, V]:
        """The inner dict of a key, copied first if a snapshot shares it."""
        outer = self.writable()
        if key not in self._copied:
            outer[key] = dict(outer.get(key, ()))
            self._copied.add(key)
        return outer[key]

    def discard(self, key: K, item: I) -> bool:
        """Remove one item, and an inner dict that becomes empty; True if the item was present."""
        if item not in self.items.get(key, {}):
            return False
        inner = self._writable_inner(key)
        del inner[item]
        if not inner:
            self.drop(key)
        return True

    def drop(self, key: K) -> dict[I, V] | None:
        """Remove an inner dict and return it; None if there is none."""
        self._copied.discard(key)
        return super().drop(key)
