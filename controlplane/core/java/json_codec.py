"""Keys and JSON values as a Connect worker reads and writes them.

Kafka: `StringSerializer`, `StringDeserializer`, `JsonConverter` and Jackson's trees beneath it.
Each release reads JSON differently (fields `json_*` of a `Profile`). So do Python's parsers. The
parser msgspec reads ordinary JSON, which is nearly all JSON. The parser in `jackson` reads the
rest: JSON that msgspec refuses or, by the checks below, may read differently.
"""

import math
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from typing import Final

import msgspec

from controlplane.core.java import jackson
from controlplane.core.java.jackson_numbers import NumberRules, big_decimal, floating
from controlplane.core.java.java_library import double_text, hash_map_order, wrap_long
from controlplane.core.java.json_errors import StackOverflow, Undecodable
from controlplane.core.releases.profiles import HugeExponent, Profile

__all__ = [
    "JsonNumber",
    "StackOverflow",
    "Undecodable",
    "decode",
    "decode_envelope",
    "decode_key",
    "decode_tree",
    "encode",
    "encode_hash_order",
    "encode_key",
]

_SURROGATE_BYTES: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT: Final = "\ufffd".encode()

_LONG_RANGE: Final = range(-(2**63), 2**63)

_PLAIN_BYTES: Final = 1000
"""Jackson's limit on levels, and on digits. A document of at most so many bytes breaks neither."""
_PLAIN_NAME: Final = 50_000
"""Jackson's limit on the bytes of a name."""

_DIGITS: Final = b"0123456789"
_LONG_DIGITS: Final = 19
"""An integer with fewer digits fits into 64 bits."""
_ZEROS: Final = bytes.maketrans(_DIGITS, b"0" * len(_DIGITS))
"""Turns every digit into a zero, so that a run of digits can be found by a text search."""


def decode_key(key: bytes) -> str:
    """Decode a key as Kafka's StringDeserializer: UTF-8, with U+FFFD for bad bytes.

    Java writes one U+FFFD for each maximal broken start of a character, as Python does. They differ
    for a surrogate encoded as UTF-8, whole (`ED A0 80`) or cut off (`ED A0`): Java writes only one.
    """
    try:
        return key.decode()
    except UnicodeDecodeError:
        return _SURROGATE_BYTES.sub(_REPLACEMENT, key).decode("utf-8", "replace")


def encode_key(text: str) -> bytes:
    """Encode a key as Kafka's StringSerializer: UTF-8, with `?` for a lone surrogate."""
    return text.encode("utf-8", "replace")


@cache
def _decoder_for(
    limited: bool, as_double: bool, huge_exponent: HugeExponent
) -> msgspec.json.Decoder[object]:
    """Decoder of ordinary JSON that reads fractions by the rules of some releases."""
    rules = NumberRules(limited, as_double, huge_exponent)
    return msgspec.json.Decoder(float_hook=lambda token: floating(token, rules))


def decode(value: bytes, profile: Profile) -> object:
    """Decode bytes to the value that a worker of a release gets.

    Returns None, bool, int, float, str, list or dict. An int is wrapped to 64 bits. A str may hold
    lone surrogates. A dict has the order of appearance; the last of equal names wins.

    Raises:
        Undecodable: the release throws a DataException.
        StackOverflow: the release overflows its stack (deep nesting before Jackson 2.15).
    """
    if len(value) > _PLAIN_BYTES and not _is_plain(value):
        return jackson.parse(value, profile)
    try:
        decoded = _decode_ordinary(value, profile)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return jackson.parse(value, profile)
    if not _has_digits(value, _LONG_DIGITS) or _has_only_longs(decoded):
        return decoded
    return jackson.parse(value, profile)


def decode_tree(value: bytes, profile: Profile) -> object:
    """Decode bytes to the tree that a worker of a release reads when schemas are enabled.

    Unlike `decode`, integers keep their size. A number with a fraction or an exponent is a
    `Decimal` with all of its digits. A document without a value is None.

    Raises:
        Undecodable: the release throws a DataException.
    """
    if len(value) <= _PLAIN_BYTES or _is_plain(value):
        with suppress(msgspec.DecodeError, ValueError, RecursionError):
            return _TREE_DECODER.decode(value)
    return jackson.parse_tree(value, profile)


class _Envelope(msgspec.Struct, forbid_unknown_fields=True):
    """Document of JsonConverter with schemas enabled: the texts of its two fields."""

    schema: msgspec.Raw
    payload: msgspec.Raw


_TREE_DECODER: Final = msgspec.json.Decoder[object](float_hook=big_decimal)
_ENVELOPE_DECODER: Final = msgspec.json.Decoder(_Envelope)


def decode_envelope(value: bytes) -> tuple[bytes, bytes] | None:
    """Split a document with the fields `schema` and `payload`, and no others, into their texts.

    None: it is another document, or not ordinary JSON; use `decode_tree`.
    """
    if len(value) > _PLAIN_BYTES and not _is_plain(value):
        return None
    try:
        envelope = _ENVELOPE_DECODER.decode(value)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return bytes(envelope.schema), bytes(envelope.payload)


class _FractionFound(Exception):
    """The document has a number with a fraction or exponent, which releases read differently."""


def _found_fraction(_token: str) -> float:
    raise _FractionFound


_WHOLE_NUMBER_DECODER: Final = msgspec.json.Decoder[object](float_hook=_found_fraction)


def _decode_ordinary(value: bytes, profile: Profile) -> object:
    """Decode ordinary JSON by msgspec. The profile matters only for fractions, which are rare."""
    try:
        return _WHOLE_NUMBER_DECODER.decode(value)
    except _FractionFound:
        rules = profile.json_limits, profile.json_negative_zero, profile.json_huge_exponent
        return _decoder_for(*rules).decode(value)


def _is_plain(value: bytes) -> bool:
    """True if the document breaks none of Jackson's limits; False: it may break one.

    The bytes are checked, because the decoded value lacks repeated fields.
    """
    if len(value) > _PLAIN_NAME and _may_have_long_name(value):
        return False
    if value.count(b"[") + value.count(b"{") > _PLAIN_BYTES:
        return False
    return not _has_digits(value, _PLAIN_BYTES)


def _may_have_long_name(value: bytes) -> bool:
    """True if a name may be too long: a text between quotes is too long, or a quote is escaped."""
    return b'\\"' in value or max(map(len, value.split(b'"'))) > _PLAIN_NAME


def _has_digits(value: bytes, count: int) -> bool:
    """True if `count` digits stand in a row.

    The sample is every `count`-th byte. A row of `count` digits includes one byte of the sample. So
    a sample without digits proves that there is no such row, and the sample is checked first.
    Removing all its digits is six times as fast as searching it for a digit.
    """
    sample = value[count - 1 :: count]
    has_digit = len(sample.translate(None, _DIGITS)) != len(sample)
    return has_digit and b"0" * count in value.translate(_ZEROS)


def _has_only_longs(decoded: object) -> bool:
    """True if all integers fit into 64 bits. msgspec reads larger ones, which Java wraps."""
    reached = [decoded]  # grows while the loop reads it: no recursion
    for value in reached:
        if isinstance(value, str):
            continue
        if isinstance(value, dict):
            reached.extend(value.values())
        elif isinstance(value, list):
            reached.extend(value)
        elif isinstance(value, int) and value not in _LONG_RANGE:
            return False
    return True


def encode(value: object) -> bytes:
    """Encode a decoded value as Jackson does: no spaces, fields in dict order."""
    if _is_simple(value):
        with suppress(UnicodeEncodeError):  # half a surrogate pair
            written = _SIMPLE_ENCODER.encode(value)
            # Jackson may spell escapes and characters beyond ASCII differently.
            if b"\\" not in written and written.isascii():
                return written
    return _encode(value, iter)


def encode_hash_order(value: object) -> bytes:
    """Encode as `encode`, but with the fields of every object in the order of a HashMap.

    Connect uses this order to write a map that it has read before.
    """
    return _encode(value, hash_map_order)


_SIMPLE_ENCODER = msgspec.json.Encoder()
_SMALL_INTEGERS = range(-(2**31), 2**31)


_SIMPLE_DEPTH = 8
"""Most levels of a simple value, which is written by recursion."""


def _is_simple(value: object, depth: int = _SIMPLE_DEPTH) -> bool:
    """True for maps and lists of texts, flags and small numbers, as most values are."""
    members: Iterable[object]
    if type(value) is dict:
        members = value.values()
    elif type(value) is list:
        members = value
    else:
        return False
    for member in members:
        kind = type(member)
        if kind in _WRITTEN_ALIKE or (kind is int and member in _SMALL_INTEGERS):
            continue
        if not depth or not _is_simple(member, depth - 1):
            return False
    return True


_WRITTEN_ALIKE = frozenset({str, bool, type(None)})

_ESCAPED: Final = re.compile('["\\\\\x00-\x1f\ud800-\udfff\U00010000-\U0010ffff]')
_ESCAPES: Final = {"\b": r"\b", "\t": r"\t", "\n": r"\n", "\f": r"\f", "\r": r"\r"} | {
    char: "\\" + char for char in '"\\'
}


def _escape(match: re.Match[str]) -> str:
    char = match[0]
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


class JsonNumber(str):
    """A number in the spelling in which it is encoded."""

    __slots__ = ()


_SCALARS: Final[dict[type, Callable[..., str]]] = {
    str: _quoted,
    JsonNumber: str,
    bool: lambda truth: "true" if truth else "false",
    int: lambda number: str(wrap_long(number)),
    float: _real,
    type(None): lambda _null: "null",
}


class _Punctuation(str):
    """Punctuation on the stack of output, as opposed to a string to be quoted."""

    __slots__ = ()


_COMMA, _END_LIST, _END_MAP = _Punctuation(","), _Punctuation("]"), _Punctuation("}")


def _encode(value: object, order: Callable[[Iterable[str]], Iterable[str]]) -> bytes:
    """Encode without recursion, with the fields of each object in the given order."""
    pieces: list[str] = []
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, _Punctuation):
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
    """Remaining output of a list, last part first."""
    later: list[object] = [_END_LIST]
    for item in reversed(items):
        later += (item, _COMMA)
    return later[:-1] if items else later


def _fields(
    fields: dict[str, object], order: Callable[[Iterable[str]], Iterable[str]]
) -> list[object]:
    """Remaining output of a map, last part first."""
    later: list[object] = [_END_MAP]
    for name in reversed(list(order(fields))):
        later += (fields[name], _Punctuation(_quoted(name) + ":"), _COMMA)
    return later[:-1] if fields else later
