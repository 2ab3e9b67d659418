"""Any value as one flat list, and back: for what MessagePack's writers refuse.

That are values nested as deeply as Connect reads them, halves of surrogate pairs, and integers
beyond 64 bits: all of them may stand in a log.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

import msgspec

_LONGS = range(-(2**63), 2**63)


class _Mark(NamedTuple):
    """A token that stands for what follows it, or for a value that cannot stand by itself."""

    kind: str
    detail: int | bytes


def flat(value: Any) -> list[Any]:
    """A value as tokens, each container before what it holds. Records become maps of fields."""
    tokens: list[Any] = []
    waiting = [value]
    while waiting:
        token, members = _token(waiting.pop())
        tokens.append(token)
        waiting += reversed(members)
    return tokens


def _token(item: Any) -> tuple[Any, Sequence[Any]]:
    """What stands for a value, and what follows."""
    if isinstance(item, msgspec.Struct):
        item = msgspec.structs.asdict(item)
    elif isinstance(item, Enum):
        item = item.value
    match item:
        case Mapping():
            return _Mark("map", len(item)), [side for pair in item.items() for side in pair]
        case list() | tuple():
            return _Mark("list", len(item)), item
        case str() if not _is_unicode(item):
            return _Mark("text", item.encode("utf-8", "surrogatepass")), ()
        case int() if item not in _LONGS:
            return _Mark("int", item.to_bytes(item.bit_length() // 8 + 1, "big", signed=True)), ()
    return item, ()


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def unflat(tokens: Iterable[Any]) -> Any:
    """The value again, of maps, lists and scalars.

    Raises:
        ValueError: these are no such tokens.
    """
    done: list[Any] = []
    try:
        # From the end: what a container holds is there before the container.
        for token in reversed(list(tokens)):
            done.append(_value(token, done) if isinstance(token, list | tuple) else token)
        (value,) = done
    except (TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"no flat value: {error}") from error
    return value


def _value(mark: Sequence[Any], done: list[Any]) -> Any:
    """What a mark stands for; what it holds is taken off the values that are done."""
    kind, detail = mark
    match kind:
        case "map":
            return {done.pop(): done.pop() for _ in range(detail)}
        case "list":
            return [done.pop() for _ in range(detail)]
        case "text":
            return detail.decode("utf-8", "surrogatepass")
        case "int":
            return int.from_bytes(detail, "big", signed=True)
    raise ValueError(f"no flat value: unknown mark {kind!r}")
