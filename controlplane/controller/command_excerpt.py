"""A bounded excerpt of a command, for the record that it was refused.

It keeps the shape: names and short values, until the room is used up. A long text is replaced by
its length, never cut, since half of a secret would no longer be recognised as one.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

TEXT_KEPT = 256
"""Characters of the longest text that is kept."""

DEPTH = 6
"""Levels that are kept; the configs of tasks have three."""

_LONG = 1 << 64


def excerpt(value: Mapping[str, Any], room: int) -> dict[str, Any]:
    """The first members that fit into so many bytes of JSON."""
    return _Excerpt(room).members(value, DEPTH)


class _Excerpt:
    """Counts down the room that is left, as the longest form of JSON needs it."""

    def __init__(self, room: int) -> None:
        self._room = room

    def members(self, value: Mapping[str, Any], depth: int) -> dict[str, Any]:
        """The members that fit. A member with a longer name is left out, for it may be secret."""
        kept: dict[str, Any] = {}
        for name, member in value.items():
            if len(name) > TEXT_KEPT:
                continue
            shown = _shown(member, depth)
            if not (self._takes(name) and self._takes(shown)):
                break
            kept[name] = self._inside(member, shown, depth)
        return kept

    def _items(self, value: Iterable[Any], depth: int) -> list[Any]:
        kept: list[Any] = []
        for item in value:
            shown = _shown(item, depth)
            if not self._takes(shown):
                break
            kept.append(self._inside(item, shown, depth))
        return kept

    def _inside(self, value: Any, shown: Any, depth: int) -> Any:
        """Excerpt of a container; an empty one is kept as it is."""
        if shown == {}:
            return self.members(value, depth - 1)
        return self._items(value, depth - 1) if shown == [] else shown

    def _takes(self, shown: Any) -> bool:
        """True if a text, a number or an empty container fits; it is then counted."""
        room = self._room - len(json.dumps(shown)) - 2
        if room < 0:
            return False
        self._room = room
        return True


def _shown(value: Any, depth: int) -> Any:
    """A value as it is kept, containers without their content."""
    match value:
        case Mapping():
            return {} if depth else "…"
        case list() | tuple():
            return [] if depth else "…"
        case str() if len(value) > TEXT_KEPT:
            return f"… ({len(value)} characters)"
        case int() if abs(value) >= _LONG:
            return "… (a long number)"
    return value
