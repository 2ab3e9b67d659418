"""BigDecimal and float as in Java; `test_conversions` compares them with Kafka's converters."""

import math
import struct
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.java.big_decimals import (
    decimal_of,
    float_text,
    long_value,
    narrowed,
    parse_decimal,
    round_to_float,
    scale_of,
    unscaled,
)

FLOATS = st.integers(0, 2**32 - 1).map(lambda bits: struct.unpack(">f", bits.to_bytes(4))[0])


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1.50", "1.50"),
        ("+1.", "1"),
        (".5", "0.5"),
        ("1e-3", "0.001"),
        ("1E+3", "1E+3"),
        ("1E00000000001", "1E+1"),
        ("15e-\u066000000000002", "0.15"),
        ("-0.0", "0.0"),
        ("\u0663", "3"),
        ("1" * 5000, "1" * 5000),
    ],
)
def test_decimals_are_parsed(text: str, number: str) -> None:
    """Parsed decimals keep their scale, and lose the sign of zero."""
    assert str(parse_decimal(text)) == number


@pytest.mark.parametrize(
    "text",
    [
        *("", "+", ".", "1e", "1_0", "NaN", " 1", "1e2147483648", "1e00012345678901", "0x1"),
        *("1" * 100_000 + "x", "1." + "1" * 100_000 + "x"),  # minutes, if the time were quadratic
    ],
)
def test_other_texts_are_no_decimals(text: str) -> None:
    """A text that makes Java throw a NumberFormatException gives None."""
    assert parse_decimal(text) is None


@pytest.mark.parametrize(
    ("number", "low_bits"),
    [
        ("1.9", 1),
        ("-1.9", -1),
        ("18446744073709551617.5", 1),
        ("1e70", 0),
        ("1e999999999", 0),
        ("1e-999999999", 0),
        ("9223372036854775808", -(2**63)),
    ],
)
def test_the_whole_part_wraps(number: str, low_bits: int) -> None:
    """`longValue` keeps the low 64 bits, whatever the size of the exponent."""
    assert long_value(Decimal(number)) == low_bits


@given(st.integers(), st.integers(-50, 50))
def test_digits_and_scale_make_a_decimal(digits: int, scale: int) -> None:
    """A decimal gives back its digits and its scale."""
    number = decimal_of(digits, scale)
    assert (unscaled(number), scale_of(number)) == (digits, scale)


@given(st.floats(allow_nan=False))
def test_a_double_is_rounded_once(number: float) -> None:
    """A double becomes the float to which Java's cast rounds it."""
    assert round_to_float(number) == narrowed(number)


@given(FLOATS.filter(math.isfinite), st.fractions(-1, 1))
def test_decimals_become_the_nearest_float(number: float, part: Fraction) -> None:
    """The result is the nearest float, also where rounding twice would miss it."""
    step = Fraction(math.ulp(number)) * 2**29
    exact = Decimal(number) + Decimal(float(step * part))
    rounded = round_to_float(exact)
    if math.isfinite(rounded):
        error = abs(Fraction(rounded) - Fraction(exact))
        assert error <= abs(Fraction(number) - Fraction(exact))


@given(FLOATS.filter(math.isfinite))
def test_the_text_of_a_float_parses_to_it(number: float) -> None:
    """The text of a float parses to the same float, with its sign."""
    text = float_text(number)
    assert narrowed(float(text)) == number
    assert math.copysign(1, float(text)) == math.copysign(1, number)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.1, "0.1"),
        (16777216.0, "1.6777216E7"),
        (1.401298464324817e-45, "1.4E-45"),
        (math.inf, "Infinity"),
        (-0.0, "-0.0"),
        (math.nan, "NaN"),
    ],
)
def test_the_text_of_a_float_is_javas(number: float, text: str) -> None:
    """Floats are printed as `Float.toString` prints them."""
    assert float_text(narrowed(number)) == text
