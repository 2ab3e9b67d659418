"""Methods of Java's library that decide what a worker reads, finds and writes.

Most functions are one method of the JDK, on Python values. A Java string is a sequence of UTF-16
units. Here it is a `str`: a character beyond U+FFFF stands for its pair of units, a lone surrogate
for itself.
"""

import binascii
import math
import re
import struct
import unicodedata
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import islice
from typing import TypeVar

_INT_BITS, _LONG_BITS = 32, 64
_UNSIGNED = 0xFFFFFFFF
"""Mask of 32 bits, to compute with an `int` as an unsigned number."""
_INT_DIGITS, _LONG_DIGITS = 10, 19
"""Most decimal digits of a 32- or 64-bit integer, without leading zeros."""

_CAPACITY = 16
_TREEIFY_CHAIN = 8
_TREEIFY_CAPACITY = 64
"""java.util.HashMap: initial capacity; a bucket of more than 8 keys doubles a table of fewer than
64 buckets."""

_REMEMBERED_NAMES = 4096
"""Maximum number of keys whose hash is cached: most maps have the same few names."""

_PLAIN_FROM, _PLAIN_TO = -3, 7
"""Range in which Double.toString writes no exponent: from 10**-3 up to below 10**7."""

_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*+(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?")


def wrap(number: int, bits: int) -> int:
    """The low `bits` bits of an integer, as a signed number."""
    half = 1 << bits - 1
    return (number + half) % (1 << bits) - half


def fits(number: int, bits: int) -> bool:
    """True if an integer fits into `bits` bits, as a signed number.

    `number in range(…)` does the same for an exact `int`. For None or a subclass of `int` it walks
    through the whole range, which takes minutes for 32 bits.
    """
    limit = 1 << bits - 1
    return -limit <= number < limit


def narrow_int(number: int) -> int:
    """Narrowing of a `long` to an `int`: the low 32 bits, so that `4294967296` becomes 0."""
    return wrap(number, _INT_BITS)


def wrap_long(number: int) -> int:
    """Low 64 bits of an integer of any size, as a `long` (BigInteger.longValue)."""
    return wrap(number, _LONG_BITS)


def utf16_units(text: str) -> tuple[int, ...]:
    """UTF-16 units of a Java string, lone surrogates included."""
    raw = text.encode("utf-16-le", "surrogatepass")
    return struct.unpack(f"<{len(raw) // 2}H", raw)


def length(text: str) -> int:
    """String.length(): the number of UTF-16 units."""
    return len(text) if text.isascii() else len(utf16_units(text))


def substring(text: str, begin: int) -> str | None:
    """String.substring(begin); None where that throws. `begin` counts UTF-16 units.

    A cut through a surrogate pair leaves its second half.
    """
    if text.isascii():
        return text[begin:] if begin <= len(text) else None
    units = text.encode("utf-16-le", "surrogatepass")
    if 2 * begin > len(units):
        return None
    return units[2 * begin :].decode("utf-16-le", "surrogatepass")


def string_order(text: str) -> bytes:
    """Sort key with the order of String.compareTo: by UTF-16 units."""
    return text.encode("utf-16-be", "surrogatepass")


def hash_code(text: str) -> int:
    """String.hashCode: a signed 32-bit number."""
    code = 0
    for unit in utf16_units(text):
        code = (31 * code + unit) & _UNSIGNED
    return narrow_int(code)


@lru_cache(_REMEMBERED_NAMES)
def _spread(text: str) -> int:
    """Hash code as HashMap spreads it: the upper half is mixed into the lower one."""
    code = hash_code(text) & _UNSIGNED
    return code ^ code >> 16


def hash_map_order(keys: Iterable[str], capacity: int = _CAPACITY) -> list[str]:
    """Iteration order of a java.util.HashMap over string keys.

    The keys are put in the given order into a table of `capacity` buckets, a power of two. The
    default is the capacity of `new HashMap<>()`. A repeated key keeps its first place.
    """
    return _iteration_order({key: _spread(key) for key in keys}, capacity)


_Key = TypeVar("_Key")


def hash_order(codes: Mapping[_Key, int], capacity: int = _CAPACITY) -> list[_Key]:
    """Iteration order of a HashMap over any keys.

    `codes` has the hash code of each key, in the order in which the keys were inserted.
    """
    spreads = {key: code & _UNSIGNED for key, code in codes.items()}
    return _iteration_order({key: code ^ code >> 16 for key, code in spreads.items()}, capacity)


def _iteration_order(spreads: Mapping[_Key, int], capacity: int) -> list[_Key]:
    """Iteration order of keys whose hash codes are already spread.

    A table doubles above three quarters of its capacity. It also doubles if a bucket exceeds eight
    keys while the table has fewer than 64 buckets. Within a bucket the order is that of insertion.
    The result is exact, except where more than eight keys share one of 64 or more buckets. Java
    then makes the bucket a tree. This happens to one map in millions, unless an attacker constructs
    it.
    """
    for put, spread in enumerate(spreads.values()):
        if put >= _TREEIFY_CHAIN and capacity < _TREEIFY_CAPACITY:
            present = islice(spreads.values(), put)
            bucket = spread & capacity - 1
            chain = sum(other & capacity - 1 == bucket for other in present)
            capacity <<= chain >= _TREEIFY_CHAIN
        capacity <<= (put + 1) * 4 > capacity * 3
    return sorted(spreads, key=lambda key: spreads[key] & capacity - 1)


def byte_buffer_hash(content: bytes) -> int:
    """ByteBuffer.hashCode: over the bytes as signed numbers, from the last to the first."""
    code = 1
    for byte in reversed(content):
        code = 31 * code + byte - (byte << 1 & 0x100) & _UNSIGNED
    return narrow_int(code)


_Value = TypeVar("_Value")


def patched_hash_map(
    original: Mapping[str, _Value], patch: Mapping[str, _Value | None]
) -> dict[str, _Value]:
    """Iteration order of `new HashMap<>(original)` after `putAll(patch)`, as a dict.

    A None in the patch removes the key. `original` is also a HashMap, filled in the given order.
    The copy's table fits its entries, as in JDKs before 19, and only ever grows.
    """
    result = {key: original[key] for key in hash_map_order(original)}
    capacity = table_size(len(result) * 4 // 3 + 1) if result else _CAPACITY
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = value
            capacity <<= len(result) * 4 > capacity * 3
    return {key: result[key] for key in hash_map_order(result, capacity)}


def table_size(entries: int) -> int:
    """Capacity of `new HashMap<>(entries)`: the smallest power of two not below `entries` (≥ 1)."""
    return 1 << (entries - 1).bit_length()


_WORD_CATEGORIES = frozenset(
    {"Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Nd", "Sc", "Pc", "Mn", "Mc", "Cf"}
)
_IGNORABLE = (range(0x09), range(0x0E, 0x1C), range(0x7F, 0xA0))


def is_identifier_part(unit: str) -> bool:
    """Character.isJavaIdentifierPart of one UTF-16 unit.

    Letters, digits, currency signs, connectors such as `_`, combining marks, ignorable characters.
    """
    return unicodedata.category(unit) in _WORD_CATEGORIES or any(
        ord(unit) in span for span in _IGNORABLE
    )


def trim(text: str) -> str:
    """`String.trim()`: strips U+0020 and below at both ends; other white space stays."""
    return text.strip(_BLANKS)


_BLANKS = "".join(map(chr, range(ord(" ") + 1)))


def split_dashes(text: str) -> list[str]:
    """`String.split("-")`: trailing empty parts are dropped, even if nothing else is left."""
    parts = text.split("-")
    while len(parts) > 1 and not parts[-1]:
        del parts[-1]
    return [] if parts == [""] and text else parts


def _digit(char: str) -> int | None:
    """Character.digit(char, 10). None beyond U+FFFF: Java sees two chars, neither a digit."""
    return unicodedata.decimal(char, None) if char <= "\uffff" else None


def parse_int(text: str) -> int | None:
    """Integer.parseInt; None where that throws. Takes a sign and decimal digits of any script.

    Only scripts within U+FFFF count: Java looks at UTF-16 units.
    """
    if len(text) < _INT_DIGITS and text.isascii() and text.isdigit():
        return int(text)  # the usual case
    return _parse(text, _INT_BITS)


def parse_long(text: str) -> int | None:
    """Long.parseLong; None where that throws. Takes the same texts as `parse_int`, in 64 bits."""
    return _parse(text, _LONG_BITS)


def _parse(text: str, bits: int) -> int | None:
    """Signed decimal integer of a text; None if it is malformed or exceeds `bits` bits."""
    sign, digits = (text[0], text[1:]) if text[:1] in {"+", "-"} else ("+", text)
    values = [_digit(char) for char in digits]
    if not values or None in values:
        return None
    significant = "".join(map(str, values)).lstrip("0") or "0"
    if len(significant) > _LONG_DIGITS:
        return None  # `int` would take quadratic time, or raise
    number = int(sign + significant)
    return number if number == wrap(number, bits) else None


def double_text(number: float) -> str:
    """Double.toString of JDK 19 and later: the shortest digits that identify the number.

    `1.0E10`, `1.0E-5`, `0.001`, `Infinity`, `NaN`. Older JDKs write a digit too many for a few
    numbers (JDK-4511638), and the same text for all others.
    """
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else "-Infinity" if number < 0 else "Infinity"
    return decimal_layout(*_shortest(number))


def decimal_layout(sign: str, digits: str, power: int) -> str:
    """Text of a sign and significant digits, as Double.toString and Float.toString write it.

    `power` is the power of ten of the first digit.
    """
    if _PLAIN_FROM <= power < _PLAIN_TO:
        return sign + _positional(digits, power)
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{power}"


def _shortest(number: float) -> tuple[str, str, int]:
    """Sign, significant digits, and power of ten of the first digit."""
    text = repr(abs(number)) if number else "0.0"
    if len(_significant(text)) == 1 and float(two := f"{abs(number):.1e}") == abs(number):
        text = two  # Java uses two digits even if one suffices: 4.9E-324
    mantissa, _, exponent = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    power = len(whole) - 1 + int(exponent or 0)
    if whole == "0":
        power -= len(fraction) - len(digits) + 1
    sign = "-" if math.copysign(1, number) < 0 else ""
    return (sign, digits.rstrip("0"), power) if digits else (sign, "0", 0)


def _significant(text: str) -> str:
    """Digits of a number's text, without zeros at both ends."""
    return text.partition("e")[0].replace(".", "").strip("0")


def _positional(digits: str, power: int) -> str:
    """Significant digits with a point and without an exponent; `power`: that of the first one."""
    if power < 0:
        return "0." + "0" * (-power - 1) + digits
    whole = digits[: power + 1].ljust(power + 1, "0")
    return f"{whole}.{digits[power + 1 :] or '0'}"


def decode_base64(text: str) -> bytes | None:
    """`Base64.getDecoder().decode(text)`; None where that throws.

    Padding may be missing, but not wrong. White space and the URL alphabet are refused; leftover
    bits are ignored.
    """
    if not _BASE64.fullmatch(text):
        return None
    bare = text.rstrip("=")
    return binascii.a2b_base64(bare + "=" * (-len(bare) % 4))
