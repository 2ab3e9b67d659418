"""Java's `hashCode` of JSON values, which decides the order of a HashMap, and their `toString`.

Values are those of Python's JSON. Jackson reads them into `LinkedHashMap`, `ArrayList`, `String`,
`Double`, `Boolean` and an integer class. Connect's own converter makes every integer a `Long`. No
function here is recursive: values may be nested more deeply than the stack allows.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Any

from controlplane.core.java.java_library import double_text, fits, hash_code

_INT_BITS, _LONG_BITS = 32, 64
_WORD = 0xFFFFFFFF


def is_integer(value: Any) -> bool:
    """True if a value is an integer and not a boolean."""
    return isinstance(value, int) and not isinstance(value, bool)


def members(value: Any) -> Iterable[Any]:
    """Values directly inside an object or a list; empty for other values."""
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


def fits_long(number: int) -> bool:
    """True if Jackson reads an integer as Integer or Long; larger ones become a BigInteger."""
    return fits(number, _LONG_BITS)


def value_hash(value: Any, *, as_longs: bool) -> int:
    """`hashCode` of a value, as an unsigned 32-bit number.

    `as_longs`: every integer is a Long. Otherwise it has the smallest class that holds it; the
    codes differ for negative numbers only.
    """
    reached = [value]  # grows while the loop reads it: no recursion
    for item in reached:
        reached += _parts(item)
    codes: dict[int, int] = {}  # by identity: containers are not hashable
    for item in reversed(reached):  # members before their container
        if isinstance(item, dict):
            code = sum(hash_code(name) ^ codes[id(part)] for name, part in item.items())
        elif isinstance(item, list):
            code = 1
            for part in item:
                code = 31 * code + codes[id(part)] & _WORD
        else:
            code = _scalar_hash(item, as_longs=as_longs)
        codes[id(item)] = code & _WORD
    return codes[id(value)]


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _scalar_hash(value: Any, *, as_longs: bool) -> int:
    """`hashCode` of a null, Boolean, integer, Double or String, not yet reduced to 32 bits."""
    match value:
        case None:
            return 0
        case bool():
            return 1231 if value else 1237
        case int():
            return _integer_hash(value, as_longs=as_longs)
        case float():
            bits = int.from_bytes(struct.pack(">d", value))
            return bits ^ bits >> 32
        case _:
            return hash_code(value)


def _integer_hash(number: int, *, as_longs: bool) -> int:
    """`hashCode` of an Integer, Long or BigInteger, not yet reduced to 32 bits."""
    if fits(number, _INT_BITS) and not as_longs:
        return number
    if fits(number, _LONG_BITS):
        return number ^ number >> 32
    code = 0  # as BigInteger.hashCode: the words of the magnitude, from the highest
    for word in reversed(range(0, number.bit_length(), 32)):
        code = 31 * code + (abs(number) >> word & _WORD) & _WORD
    return code if number > 0 else -code


def value_text(value: Any) -> str:
    """`String.valueOf`: `{a=1, b=[x, null]}`, maps in the given order, doubles as in Java."""
    pieces: list[str] = []
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            fields = (piece for name, part in item.items() for piece in (", ", name + "=", part))
            waiting += _last_first("{", fields, "}")
        elif isinstance(item, list):
            waiting += _last_first("[", (piece for part in item for piece in (", ", part)), "]")
        else:
            pieces.append(_scalar_text(item))
    return "".join(pieces)


def _last_first(begin: str, pieces: Iterable[Any], end: str) -> list[Any]:
    """Remaining output, last part first; no comma precedes the first part."""
    return [end, *reversed(list(pieces)[1:]), begin]


def _scalar_text(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            return double_text(value)
        case _:
            return str(value)
