"""JSON as a Connect worker reads and writes it: JsonConverter with `schemas.enable=false`.

Reading differs from release to release (flags `json_*` of a `Profile`) and from every Python
parser. Good JSON, which is nearly all JSON, is read by msgspec; whatever msgspec refuses goes to
the full parser in `jackson`, and whatever it would read otherwise is caught on the way.
"""

import math
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from typing import Final

import msgspec

from controlplane.core import jackson
from controlplane.core.jackson_numbers import NumberRules, floating
from controlplane.core.java import double_text, hash_map_order, wrap_long
from controlplane.core.profiles import HugeExponent, Profile
from controlplane.core.undecodable import StackOverflow, Undecodable

__all__ = ["StackOverflow", "Undecodable", "decode", "encode", "encode_hash_order"]

_LONGS: Final = range(-(2**63), 2**63)

_PLAIN_BYTES: Final = 1000
_PLAIN_NAME: Final = 50_000
"""A document of so many bytes breaks no limit of Jackson's; a longer one of up to the second has
no name that does."""

_DIGITS: Final = b"0123456789"
_LONG_DIGITS: Final = 19
"""No integer of fewer digits lies outside of 64 bits."""
_ZEROS: Final = bytes.maketrans(_DIGITS, b"0" * len(_DIGITS))
"""Turns every digit into a zero, so that a run of digits is found as one text is in another."""


@cache
def _decoder(
    limited: bool, as_double: bool, huge_exponent: HugeExponent
) -> msgspec.json.Decoder[object]:
    rules = NumberRules(limited, as_double, huge_exponent)
    return msgspec.json.Decoder(float_hook=lambda token: floating(token, rules))


def decode(value: bytes, profile: Profile) -> object:
    """The value that a worker of a release sees in these bytes.

    Answers None, bool, int (64 bits, wrapped), float, str (lone surrogates possible), list, or dict
    (in order of appearance; the last of equal names wins).

    Raises:
        Undecodable: the release throws a DataException.
        StackOverflow: the release overflows its stack (deep nesting before Jackson 2.15).
    """
    if len(value) > _PLAIN_BYTES and not _is_plain(value):
        return jackson.parse(value, profile)
    try:
        decoded = _decoded(value, profile)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return jackson.parse(value, profile)
    if not _has_digits(value, _LONG_DIGITS) or _has_only_longs(decoded):
        return decoded
    return jackson.parse(value, profile)


class _Fraction(Exception):
    """There is a number that is no integer: releases read those differently."""


def _found_fraction(_token: str) -> float:
    raise _Fraction


_WHOLE: Final = msgspec.json.Decoder[object](float_hook=_found_fraction)


def _decoded(value: bytes, profile: Profile) -> object:
    """What msgspec makes of it. Nearly all JSON is without fractions, and nobody is asked then."""
    try:
        return _WHOLE.decode(value)
    except _Fraction:
        rules = profile.json_limits, profile.json_negative_zero, profile.json_huge_exponent
        return _decoder(*rules).decode(value)


def _is_plain(value: bytes) -> bool:
    """Looks at bytes, not at values: of a repeated field msgspec drops all values but the last."""
    if len(value) > _PLAIN_NAME and _may_have_long_name(value):
        return False
    if value.count(b"[") + value.count(b"{") > _PLAIN_BYTES:
        return False
    return not _has_digits(value, _PLAIN_BYTES)


def _may_have_long_name(value: bytes) -> bool:
    """Whether something in quotes is long enough; a quote within quotes would hide it."""
    return b'\\"' in value or max(map(len, value.split(b'"'))) > _PLAIN_NAME


def _has_digits(value: bytes, count: int) -> bool:
    """Whether so many digits stand in a row: they would cover one of every `count` bytes.

    Taking the digits away is six times as fast as looking for one.
    """
    looked_at = value[count - 1 :: count]
    some = len(looked_at.translate(None, _DIGITS)) != len(looked_at)
    return some and b"0" * count in value.translate(_ZEROS)


def _has_only_longs(decoded: object) -> bool:
    """Whether no integer lies outside of 64 bits, which msgspec reads and Java wraps."""
    reached = [decoded]
    for value in reached:
        if isinstance(value, str):
            continue
        if isinstance(value, dict):
            reached.extend(value.values())
        elif isinstance(value, list):
            reached.extend(value)
        elif isinstance(value, int) and value not in _LONGS:
            return False
    return True


def encode(value: object) -> bytes:
    """The bytes that Jackson writes for a decoded value: no spaces, fields in dict order."""
    if _is_simple(value):
        with suppress(UnicodeEncodeError):  # half a surrogate pair
            written = _SIMPLE.encode(value)
            if b"\\" not in written and written.isascii():  # nothing that may be spelled otherwise
                return written
    return _encode(value, iter)


def encode_hash_order(value: object) -> bytes:
    """The same with the fields of every object in the order of a java.util.HashMap.

    That is what Connect writes of a map that it has read before.
    """
    return _encode(value, hash_map_order)


_SIMPLE = msgspec.json.Encoder()
_SMALL = range(-(2**31), 2**31)


def _is_simple(value: object) -> bool:
    """Whether it is a map of texts, flags and small numbers, or of such maps: most records are."""
    if type(value) is not dict:
        return False
    for one in value.values():
        for member in one.values() if type(one) is dict else (one,):
            if type(member) not in _WRITTEN_ALIKE and not (
                type(member) is int and member in _SMALL
            ):
                return False
    return True


_WRITTEN_ALIKE = frozenset({str, bool, type(None)})

_ESCAPED: Final = re.compile('["\\\\\x00-\x1f\ud800-\udfff\U00010000-\U0010ffff]')
_ESCAPES: Final = {"\b": r"\b", "\t": r"\t", "\n": r"\n", "\f": r"\f", "\r": r"\r"} | {
    char: "\\" + char for char in '"\\'
}


def _escape(found: re.Match[str]) -> str:
    char = found[0]
    if char in _ESCAPES:
        return _ESCAPES[char]
    units = char.encode("utf-16-be", "surrogatepass").hex().upper()
    pairs = [units[start : start + 4] for start in range(0, len(units), 4)]
    return "".join(rf"\u{unit}" for unit in pairs)


def _quoted(text: str) -> str:
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _real(number: float) -> str:
    text = double_text(number)
    return text if math.isfinite(number) else _quoted(text)


_SCALARS: Final[dict[type, Callable[..., str]]] = {
    str: _quoted,
    bool: lambda truth: "true" if truth else "false",
    int: lambda number: str(wrap_long(number)),
    float: _real,
    type(None): lambda _null: "null",
}


class _Mark(str):
    """A piece of output waiting on the stack, not a string to be quoted."""

    __slots__ = ()


_COMMA, _END_LIST, _END_MAP = _Mark(","), _Mark("]"), _Mark("}")


def _encode(value: object, order: Callable[[Iterable[str]], Iterable[str]]) -> bytes:
    pieces: list[str] = []
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, _Mark):
            pieces.append(item)
        elif isinstance(item, dict):
            pieces.append("{")
            waiting += _fields(item, order)
        elif isinstance(item, list):
            pieces.append("[")
            waiting += _elements(item)
        else:
            pieces.append(_SCALARS[type(item)](item))
    return "".join(pieces).encode()


def _elements(items: list[object]) -> list[object]:
    """What remains to be written of a list, last things first."""
    later: list[object] = [_END_LIST]
    for item in reversed(items):
        later += (item, _COMMA)
    return later[:-1] if items else later


def _fields(
    fields: dict[str, object], order: Callable[[Iterable[str]], Iterable[str]]
) -> list[object]:
    """What remains to be written of a map, last things first."""
    later: list[object] = [_END_MAP]
    for name in reversed(list(order(fields))):
        later += (fields[name], _Mark(_quoted(name) + ":"), _COMMA)
    return later[:-1] if fields else later
