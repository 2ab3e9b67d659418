"""Strings of headers: the types that a reader guesses, and the written texts."""

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.connect.data import (
    BOOLEAN,
    DATE,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    TIME,
    TIMESTAMP,
    Schema,
    SchemaAndValue,
    SchemaType,
    Struct,
    header_text,
    parse_header,
)
from controlplane.connect.errors import DataError


@pytest.mark.parametrize(
    ("text", "value", "schema"),
    [
        ("7", 7, INT8),
        ("-129", -129, INT16),
        ("40000", 40000, INT32),
        ("3000000000", 3_000_000_000, INT64),
        ("1.0", 1, INT8),
        ("1.5", 1.5, FLOAT32),
        ("1e39", 1e39, FLOAT64),
        ("9223372036854775808", Decimal(2**63), Schema.decimal(0)),
        ("true", True, BOOLEAN),
        ("true}", "true}", STRING),
        ("null", None, None),
        ("", "", STRING),
        (" x ", " x ", STRING),
        ('"x"', '"x"', STRING),
        ("2024-02-29", date(2024, 2, 29), DATE),
        ("2024-13-01", date(2025, 1, 1), DATE),
        ("10:20:30.123Z", time(10, 20, 30, 123_000), TIME),
        ("2024-01-31T00:00:00.000Z", datetime(2024, 1, 31, tzinfo=UTC), TIMESTAMP),
        ("[1, 2.5]", [1.0, 2.5], Schema.array(FLOAT32)),
        ('["a", "b"]', ["a", "b"], Schema.array(STRING)),
        ("[]", [], Schema(SchemaType.ARRAY)),
        ("[1, null]", "[1, null]", STRING),
        ("[1", "[1", STRING),
        ('[1, "a"]', [1, "a"], Schema(SchemaType.ARRAY)),
        ('{"a": 1, "b": 300}', {"a": 1, "b": 300}, Schema.map(STRING, INT16)),
        ("{[1]: 2}", {(1,): 2}, Schema.map(Schema.array(INT8), INT8)),
        ("{1: 2, 1.0: 3}", {1: 3}, Schema.map(INT8, INT8)),
        ("{1: 2, true: 3}", "{1: 2, true: 3}", STRING),
        ("{[false]: 2, [0]: 3}", "{[false]: 2, [0]: 3}", STRING),
        ('{1: 2, "1": 3}', {1: 2, "1": 3}, Schema(SchemaType.MAP)),
        ("0000-01-01", "0000-01-01", STRING),
        ("[24:00:00.000Z]", "[24:00:00.000Z]", STRING),
    ],
)
def test_types_are_guessed(text: str, value: Any, schema: Schema | None) -> None:
    """Guesses equal those of Kafka's `Values`; text that fits no other type is a string."""
    parsed = parse_header(text)
    assert parsed == SchemaAndValue(value, schema)
    assert type(parsed.value) is type(value)


def test_deep_nesting_overflows_no_stack() -> None:
    """A string of thousands of brackets overflows no stack."""
    with pytest.raises(DataError, match="nested too deeply"):
        parse_header("[" * 100_000)


ITEM = Schema.struct("Item", name=STRING, size=FLOAT32)


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        (None, "a b", "a b"),
        (None, b"\x01\x02\x03", "AQID"),
        (None, ["a", b"\x01", None, 1.0], '["a","AQ==",null,1.0]'),
        (None, {"a\\": 'q"', "b": {}}, '{"a\\\\":"q\\"","b":{}}'),
        (ITEM, Struct(ITEM, name="x", size=0.1), '{"name":"x","size":0.1}'),
        (DATE, date(2024, 2, 29), "2024-02-29"),
        (DATE, date(1969, 12, 31), "00:00:00.000Z"),
        (TIME, time(10, 20, 30), "10:20:30.000Z"),
        (TIMESTAMP, datetime(2024, 2, 29, 1, tzinfo=UTC), "2024-02-29T01:00:00.000Z"),
        (FLOAT64, 5, "5.0"),
        (None, Decimal("1.50"), "1.50"),
    ],
)
def test_values_are_written(schema: Schema | None, value: Any, text: str) -> None:
    """Texts equal Kafka's. Kafka, too, writes a date before 1970-01-02 as a time."""
    assert header_text(schema, value) == text


def test_values_of_unknown_classes_are_refused() -> None:
    """A value of another class raises Kafka's error."""
    with pytest.raises(DataError, match=r"^Failed to serialize unexpected value type builtins"):
        header_text(None, {1})


_TEXTS = st.text("ab1é,:[]{}")
_LONGS = st.integers(-(2**63), 2**63 - 1)
_OF_ONE_TYPE = st.one_of(
    *(st.lists(members, max_size=4) for members in (_LONGS, st.booleans(), _TEXTS)),
    st.dictionaries(_TEXTS, st.lists(_LONGS, min_size=1, max_size=2), max_size=3),
)


@given(_OF_ONE_TYPE)
def test_written_values_are_read_back(value: Any) -> None:
    """An array or map whose elements have one type is read as it was written."""
    assert parse_header(header_text(None, value)).value == value


@given(st.text())
def test_any_string_is_a_header(text: str) -> None:
    """The schema is None exactly if the value is None."""
    parsed = parse_header(text)
    assert (parsed.schema is None) == (parsed.value is None)
