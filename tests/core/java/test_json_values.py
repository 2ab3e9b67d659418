"""JSON values as Java's objects; the table holds results of a JDK 17."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.codec.offsets import frozen
from controlplane.core.java.java_library import narrow_int
from controlplane.core.java.json_values import fits_long, value_hash, value_text

VALUES: list[tuple[Any, int, str]] = [
    (None, 0, "null"),
    (True, 1231, "true"),
    (False, 1237, "false"),
    (0, 0, "0"),
    (-1, -1, "-1"),
    (2**31, -(2**31), "2147483648"),
    (-(2**31) - 1, -(2**31), "-2147483649"),
    (2**63, -(2**31), "9223372036854775808"),
    (-(2**63) - 1, 2**31 - 1, "-9223372036854775809"),
    (-(2**65), -1922, "-36893488147419103232"),
    (123456789012345678901234567890123, -9222817, "123456789012345678901234567890123"),
    (1.5, 1073217536, "1.5"),
    (0.0, 0, "0.0"),
    (-0.0, -(2**31), "-0.0"),
    (1e10, 1644339295, "1.0E10"),
    ("", 0, ""),
    ("\U0001f600", 1772899, "\U0001f600"),
    ({}, 0, "{}"),
    ([], 1, "[]"),
    ({"b": None, "a": 1}, 194, "{b=null, a=1}"),
    ([[], {"": 1}], 993, "[[], {=1}]"),
    (
        {"a": [1, "x", None, {"c": -7}], "d": -3.25},
        -1072017929,
        "{a=[1, x, null, {c=-7}], d=-3.25}",
    ),
]


@pytest.mark.parametrize(("value", "code", "text"), VALUES, ids=[text for _, _, text in VALUES])
def test_values_hash_and_print_as_java_objects(value: Any, code: int, text: str) -> None:
    """An integer hashes as Integer, Long or BigInteger by its size; maps hash as in Java."""
    assert narrow_int(value_hash(value, as_longs=False)) == code
    assert value_text(value) == text


@pytest.mark.parametrize(("number", "code"), [(-1, 0), (-5, 4), (5, 5), (2**40, 256)])
def test_the_hash_of_a_long_differs_from_an_integers_below_zero(number: int, code: int) -> None:
    """Connect's converter makes every integer a Long."""
    assert value_hash(number, as_longs=True) == code


@pytest.mark.parametrize(
    ("number", "fits"), [(2**63 - 1, True), (2**63, False), (-(2**63), True), (-(2**63) - 1, False)]
)
def test_integers_beyond_64_bits_are_no_longs(number: int, fits: bool) -> None:
    """Larger integers are BigInteger, which is no type of an offset."""
    assert fits_long(number) is fits


any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=8,
)


@given(left=any_json, right=any_json)
def test_equal_values_have_equal_hashes(left: Any, right: Any) -> None:
    """Values are equal as Java compares them: the order of members does not count."""
    if isinstance(left, dict):
        right = dict(reversed(left.items()))
    if frozen(left) == frozen(right):
        assert value_hash(left, as_longs=False) == value_hash(right, as_longs=False)


def test_deep_values_overflow_no_stack() -> None:
    """Values nested more deeply than any stack are hashed and printed."""
    deep: Any = []
    for _ in range(20_000):
        deep = [{"a": deep}]
    assert value_text(deep).startswith("[{a=[{a=")
    assert 0 <= value_hash(deep, as_longs=True) < 2**32
