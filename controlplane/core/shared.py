"""Copy on write: how a fold that changes in place can publish snapshots that never change.

A snapshot may be published after every single record, so neither publishing nor the write after it
may cost what the whole table costs. A small table is copied. A large one is left alone: what is
written goes into a thin layer above it, which is copied instead, and laid into a new table when it
has grown too thick.
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
"""Room in a dict that is nobody else's; whatever is taken away from it, it never comes to 0."""

SMALL = 128
"""Items up to which a table is simply copied: some 0.5 µs, as much as a layer costs."""


class Layered(MutableMapping[K, V]):
    """A dict that others hold on to, and above it what has been written since.

    In every respect, the order of its items included, it is the dict that would be there if the
    writes had gone into the dict itself.
    """

    __slots__ = ("_base", "_gone", "_over")

    def __init__(self, base: dict[K, V], over: dict[K, V], gone: set[K]) -> None:
        self._base = base
        self._over = over
        self._gone = gone  # keys of the base that have been removed, even if they came back

    @property
    def room(self) -> int:
        """How many more keys may lie above the base; below 0: there are too many already.

        A thicker layer costs more, copy by copy, than laying it into a new table.
        """
        return 2 * isqrt(len(self._base)) - len(self._over) - len(self._gone)

    def copy(self) -> "Layered[K, V]":
        """The same, which changes on its own; the base is shared."""
        return Layered(self._base, self._over.copy(), self._gone.copy())

    def merged(self) -> dict[K, V]:
        """The same as one new dict."""
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
        """Keys and values; made at once, which is faster than looking up each."""
        return self.merged().items()

    def values(self) -> ValuesView[V]:
        """Values; made at once, too."""
        return self.merged().values()

    def __repr__(self) -> str:
        return repr(self.merged())

    def _added(self) -> list[K]:
        """Keys whose place is behind those of the base."""
        return [key for key in self._over if key not in self._base or key in self._gone]


class CopyOnWrite(Generic[K, V]):
    """A dict that is handed out as it is, and spared by the writes after that.

    Publishing costs nothing; a table that nobody writes to is never copied. Values must not be
    changed in place: replace them.
    """

    __slots__ = ("_published", "_room", "items")

    def __init__(self) -> None:
        self._room = _ENDLESS
        self.items: dict[K, V] | Layered[K, V] = {}
        """For reading. To write, ask `writable()`."""
        self._published: Mapping[K, V] | None = None

    def publish(self) -> Mapping[K, V]:
        """What is here now, for good."""
        if self._published is None:
            self._published = MappingProxyType(self.items)
        return self._published

    def writable(self) -> MutableMapping[K, V]:
        """The mapping to change, which is nobody else's. Ask anew for every change."""
        if self._published is not None:
            self.items = _spared(self.items)
            self._published = None
            self._room = self.items.room if isinstance(self.items, Layered) else _ENDLESS
        elif not self._room:
            assert isinstance(self.items, Layered)
            self.items = self.items.merged()
            self._room = _ENDLESS
        else:
            self._room -= 1  # each change adds a key at the most
        return self.items

    def take(self, items: dict[K, V]) -> None:
        """Have these instead of what is here. The caller keeps its hands off them from now on."""
        self.items = items
        self._published = None
        self._room = _ENDLESS

    def drop(self, key: K) -> V | None:
        """Remove a key; nothing is copied where it is not there."""
        return self.writable().pop(key) if key in self.items else None


def _spared(items: dict[K, V] | Layered[K, V]) -> dict[K, V] | Layered[K, V]:
    """The same to be written to; those who hold on to `items` do not notice."""
    if isinstance(items, Layered):
        return items.copy() if items.room > 0 else items.merged()
    return items.copy() if len(items) <= SMALL else Layered(items, {}, set())


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
        self._own(key)[item] = value

    def _own(self, key: K) -> dict[I, V]:
        """The inner dict of a key, which no snapshot shares."""
        outer = self.writable()
        if key not in self._copied:
            outer[key] = dict(outer.get(key, ()))
            self._copied.add(key)
        return outer[key]

    def discard(self, key: K, item: I) -> bool:
        """Remove one item, and an inner dict that is empty then; whether it was there."""
        if item not in self.items.get(key, {}):
            return False
        inner = self._own(key)
        del inner[item]
        if not inner:
            self.drop(key)
        return True

    def drop(self, key: K) -> dict[I, V] | None:
        """Remove an inner dict."""
        self._copied.discard(key)
        return super().drop(key)
