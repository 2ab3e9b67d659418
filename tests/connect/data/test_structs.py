"""Structs of Connect: access by name, validation and equality."""

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest

from controlplane.connect.data import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT64,
    OPTIONAL_STRING,
    STRING,
    TIME,
    TIMESTAMP,
    Schema,
    Struct,
    validate,
)
from controlplane.connect.errors import DataError

ITEM = Schema.struct("Item", sku=STRING, count=INT16.optional(1))
ORDER = Schema.struct("Order", id=INT64, note=OPTIONAL_STRING, items=Schema.array(ITEM).optional())


def test_fields_are_read_and_written_by_name() -> None:
    """An unset field reads as its default, or None."""
    item = Struct(ITEM, sku="a")
    assert (item["sku"], item["count"], item.without_default("count")) == ("a", 1, None)
    item["count"] = 2
    assert item["count"] == 2
    assert list(item) == ["sku", "count"]


def test_a_struct_becomes_a_dict() -> None:
    """The dict has nested structs as dicts, with their defaults."""
    order = Struct(ORDER, id=7, items=[Struct(ITEM, sku="a")])
    assert order.to_dict() == {"id": 7, "note": None, "items": [{"sku": "a", "count": 1}]}


def test_structs_are_equal_by_schema_and_values() -> None:
    """An unset field differs from one set to its default."""
    assert Struct(ITEM, sku="a") == Struct(ITEM, sku="a")
    assert hash(Struct(ITEM, sku="a")) == hash(Struct(ITEM, sku="a"))
    assert Struct(ITEM, sku="a") != Struct(ITEM, sku="a", count=1)
    assert Struct(ITEM, sku="a") != Struct(ITEM.optional(), sku="a")
    assert Struct(ITEM, sku="a") != {"sku": "a"}


def test_unfit_values_are_refused_when_set() -> None:
    """A value that does not fit raises Kafka's error; the struct keeps its value."""
    item = Struct(ITEM, sku="a")
    with pytest.raises(DataError) as caught:
        item["count"] = "x"
    assert str(caught.value) == (
        'Invalid Java object for schema with type INT16: class java.lang.String for field: "count"'
    )
    assert item["count"] == 1


def test_unknown_fields_are_refused() -> None:
    """The struct refuses an unknown field in a read and in its constructor."""
    with pytest.raises(DataError, match=r"^other is not a valid field name$"):
        Struct(ITEM)["other"]
    with pytest.raises(DataError, match=r"^other is not a valid field name$"):
        Struct(ITEM, other=1)


def test_only_a_struct_schema_makes_a_struct() -> None:
    """A struct of another schema type raises Kafka's error."""
    with pytest.raises(DataError, match=r"^Not a struct schema: Schema\{INT64\}$"):
        Struct(INT64)


def test_required_fields_are_checked_at_the_end() -> None:
    """A struct may be filled field by field; setting it in another struct checks it."""
    order = Struct(ORDER)
    with pytest.raises(DataError) as caught:
        order.validate()
    required = 'Invalid value: null used for required field: "id", schema type: INT64'
    assert str(caught.value) == required
    with pytest.raises(DataError, match='required field: "sku"'):
        order["items"] = [Struct(ITEM)]
    order["id"] = 1
    order.validate()


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (INT8, -128),
        (INT64, 2**63 - 1),
        (FLOAT32, 1),
        (FLOAT64, float("nan")),
        (BOOLEAN, False),
        (STRING, "\ud800"),
        (BYTES, memoryview(b"a")),
        (Schema.array(INT8), (1, 2)),
        (Schema.map(STRING, INT8.optional()), {"a": None}),
        (DATE, date(2024, 2, 29)),
        (TIME, time(23, 59, 59, 999_999)),
        (TIMESTAMP, datetime(2024, 1, 1, tzinfo=UTC)),
        (Schema.decimal(2), Decimal("1.25")),
        (INT8.optional(), None),
    ],
)
def test_values_of_pythons_types_are_valid(schema: Schema, value: Any) -> None:
    """Each type has its class in Python."""
    validate(schema, value)


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        (INT8, 128, "with type INT8: class java.lang.Long for value"),
        (INT64, 2**63, "with type INT64: class java.math.BigInteger for value"),
        (INT64, True, "with type INT64: class java.lang.Boolean for value"),
        (INT64, 1.0, "with type INT64: class java.lang.Double for value"),
        (FLOAT64, 10**400, "with type FLOAT64: class java.math.BigInteger for value"),
        (BOOLEAN, 1, "with type BOOLEAN: class java.lang.Long for value"),
        (STRING, b"a", "with type STRING: class [B for value"),
        (BYTES, "a", "with type BYTES: class java.lang.String for value"),
        (ITEM, {"sku": "a"}, '"Item" with type STRUCT: class java.util.HashMap for value'),
        (Schema.array(INT8), [300], "class java.lang.Long for element of array value"),
        (Schema.map(STRING, INT8), {1: 1}, "class java.lang.Long for key of map value"),
        (Schema.map(STRING, INT8), {"a": ""}, "class java.lang.String for value of map value"),
        (DATE, 5, 'data.Date" with type INT32: class java.lang.Long for value'),
        (Schema.decimal(0), Decimal("NaN"), "class java.math.BigDecimal for value"),
        (STRING, object, "with type STRING: class builtins.type for value"),
    ],
)
def test_invalid_values_are_named(schema: Schema, value: Any, message: str) -> None:
    """The error is Kafka's, with Java's class names where Java has such a class."""
    with pytest.raises(DataError) as caught:
        validate(schema, value)
    assert str(caught.value).startswith("Invalid Java object for schema ")
    assert str(caught.value).endswith(message)


def test_a_struct_of_another_schema_is_refused() -> None:
    """A struct whose schema differs raises Kafka's error."""
    with pytest.raises(DataError, match=r"^Struct schemas do not match\.$"):
        validate(ITEM, Struct(ORDER, id=1))


def test_a_moment_has_a_time_zone() -> None:
    """A `datetime` without a time zone is ambiguous and refused."""
    with pytest.raises(DataError, match=r"time zone of .* is missing"):
        validate(TIMESTAMP, datetime(2024, 1, 1))  # noqa: DTZ001
