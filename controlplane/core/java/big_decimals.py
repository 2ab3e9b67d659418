"""`java.math.BigDecimal` and `float` on Python values: parsing, narrowing, digits.

A BigDecimal is a `decimal.Decimal`: an unscaled integer and a power of ten. It has no negative
zero, and no NaN or infinity.
"""

import math
import re
import struct
from decimal import Decimal
from fractions import Fraction
from typing import Final

from controlplane.core.java.java_library import decimal_layout, parse_int, wrap_long

_NUMBER: Final = re.compile(r"([+-]?)(?:(\d+)(?:\.(\d*))?|\.(\d+))(?:[eE]([+-]?\d+))?")
_SCALES: Final = range(-(2**31) + 1, 2**31)
"""Scales that `new BigDecimal(text)` accepts."""
_LONG_BITS: Final = 64
_FLOAT_DIGITS: Final = 9
"""Decimal digits that identify any float."""
_OVERFLOWING_MANTISSA: Final = 2 - 2**-24
"""From this mantissa on, a float of the largest exponent is rounded to infinity."""
_LARGEST_POWER: Final = 127
_SMALLEST_POWER: Final = -149
"""Exponents of two: of the largest float, and of the distance between the smallest floats."""
_MANTISSA_BITS: Final = 23


def parse_decimal(text: str) -> Decimal | None:
    """`new BigDecimal(text)`; None where that throws. Takes digits of any script within U+FFFF."""
    number = _NUMBER.fullmatch(text)
    if number is None or not all(char <= "\uffff" for char in text):
        return None
    sign, whole, fraction, only_fraction, exponent = number.groups()
    digits = f"{whole or ''}{fraction or ''}{only_fraction or ''}"
    power = parse_int(exponent or "0")
    if power is None:
        return None
    scale = len(fraction or "") + len(only_fraction or "") - power
    if scale not in _SCALES:
        return None
    return without_negative_zero(Decimal(f"{sign}{digits}E{-scale}"))


def without_negative_zero(number: Decimal) -> Decimal:
    """The number; a negative zero becomes 0, because BigDecimal has no negative zero."""
    return number or number.copy_abs()


def decimal_of(unscaled_value: int, scale: int) -> Decimal:
    """`new BigDecimal(unscaledValue, scale)`: the unscaled value times 10**-scale."""
    sign, digits, _ = Decimal(unscaled_value).as_tuple()
    return Decimal((sign, digits, -scale))


def scale_of(number: Decimal) -> int:
    """`BigDecimal.scale`: number of digits after the decimal point.

    A negative scale -n means that n zeros follow the digits: `12E3` is 12000, and has scale -3.
    """
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    return -exponent


def unscaled(number: Decimal) -> int:
    """`BigDecimal.unscaledValue`: all digits as an integer."""
    sign, digits, _ = number.as_tuple()
    return int(Decimal((sign, digits, 0)))


def long_value(number: Decimal) -> int:
    """`BigDecimal.longValue`: the low 64 bits of the whole part."""
    scale = scale_of(number)
    if scale <= -_LONG_BITS:
        return 0  # a multiple of 2**64
    if number.adjusted() < 0:
        return 0
    whole = abs(unscaled(number))
    whole = whole // 10**scale if scale > 0 else whole * 10**-scale
    return wrap_long(-whole if number.is_signed() else whole)


def round_to_float(number: float | Decimal) -> float:
    """The nearest 32-bit float, or an infinity; rounded once, whatever the number's size."""
    if isinstance(number, float) and not math.isfinite(number):
        return number
    # Floats other than 0 lie between 10**-46 and 10**39, so a number far outside becomes 0 or an
    # infinity. The exact calculation below would need integers of up to 2**31 digits for it.
    if isinstance(number, Decimal) and not -60 < number.adjusted() < 60:
        return math.copysign(0.0 if not number or number.adjusted() < 0 else math.inf, number)
    exact = Fraction(number)
    size = abs(exact)
    if not size:
        return number if isinstance(number, float) else 0.0
    power = size.numerator.bit_length() - size.denominator.bit_length()
    power -= size < Fraction(2) ** power  # now 2**power <= size < 2**(power + 1)
    if power > _LARGEST_POWER or size >= Fraction(2) ** _LARGEST_POWER * Fraction(
        _OVERFLOWING_MANTISSA
    ):
        return math.inf if exact > 0 else -math.inf
    unit = Fraction(2) ** max(power - _MANTISSA_BITS, _SMALLEST_POWER)
    rounded = float(round(size / unit) * unit)  # halves to even, as IEEE 754 has it
    return rounded if exact > 0 else -rounded


def float_text(number: float) -> str:
    """Float.toString of JDK 19 and later: the shortest digits that identify a 32-bit float.

    `number` must be such a float (`round_to_float`). Java writes at least two digits.
    """
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else "-Infinity" if number < 0 else "Infinity"
    sign = "-" if math.copysign(1, number) < 0 else ""
    if not number:
        return f"{sign}0.0"
    for precision in range(1, _FLOAT_DIGITS):
        mantissa, _, power = f"{abs(number):.{precision}e}".partition("e")
        if narrowed(float(f"{mantissa}e{power}")) == abs(number):
            break
    return decimal_layout(sign, mantissa.replace(".", "").rstrip("0"), int(power))


def narrowed(number: float) -> float:
    """`(float) number`: a double as the nearest 32-bit float."""
    try:
        rounded: float = struct.unpack(">f", struct.pack(">f", number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)
    return rounded
