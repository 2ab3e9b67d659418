"""Flattens any value into one list and back, for values that MessagePack cannot hold.

Logs may hold values nested as deeply as Connect reads them, halves of surrogate pairs, and integers
beyond 64 bits.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

import msgspec

_BEYOND_LONG = 1 << 63
"""Smallest positive integer that a `long` cannot hold."""


class _OpaqueValue(NamedTuple):
    """Token for a container, or for a value that MessagePack cannot hold."""

    kind: str
    detail: int | bytes


def flat(value: Any) -> list[Any]:
    """Flatten a value to tokens, containers before their members. Structs become maps.

    A loop replaces recursion: values may be nested more deeply than Python's stack.
    """
    tokens: list[Any] = []
    waiting = [value]
    while waiting:
        item = waiting.pop()
        # A shortcut for most items: it saves more than half of the time.
        if item is None or (type(item) is str and item.isascii()):
            tokens.append(item)
            continue
        token, members = _token_of(item)
        tokens.append(token)
        waiting += reversed(members)
    return tokens


def _token_of(item: Any) -> tuple[Any, Sequence[Any]]:
    """Token of a value, and its members, whose tokens follow."""
    if isinstance(item, msgspec.Struct):
        item = msgspec.structs.asdict(item)
    elif isinstance(item, Enum):
        item = item.value
    match item:
        case Mapping():
            return _OpaqueValue("map", len(item)), [side for pair in item.items() for side in pair]
        case list() | tuple():
            return _OpaqueValue("list", len(item)), item
        case str() if not _is_unicode(item):
            return _OpaqueValue("text", item.encode("utf-8", "surrogatepass")), ()
        case int() if not -_BEYOND_LONG <= item < _BEYOND_LONG:
            return _OpaqueValue(
                "int", item.to_bytes(item.bit_length() // 8 + 1, "big", signed=True)
            ), ()
    return item, ()


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def unflat(tokens: Iterable[Any]) -> Any:
    """Rebuild a value of maps, lists and scalars from its tokens.

    Raises:
        ValueError: the tokens are malformed.
    """
    built: list[Any] = []
    try:
        # From the end, so that the members of a container are built before it.
        for token in reversed(list(tokens)):
            built.append(_value(token, built) if isinstance(token, list | tuple) else token)
        (value,) = built
    except (TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"no flat value: {error}") from error
    return value


def _value(token: Sequence[Any], built: list[Any]) -> Any:
    """Build the value of a token; members of a container are popped from `built`."""
    kind, detail = token
    match kind:
        case "map":
            return {built.pop(): built.pop() for _ in range(detail)}  # pops the key first
        case "list":
            return [built.pop() for _ in range(detail)]
        case "text":
            return detail.decode("utf-8", "surrogatepass")
        case "int":
            return int.from_bytes(detail, "big", signed=True)
    raise ValueError(f"no flat value: unknown mark {kind!r}")
