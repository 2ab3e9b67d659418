"""Schemas: their parts, their equality, and their errors."""

from enum import IntEnum

import pytest

from controlplane.connect.data import (
    BYTES,
    FLOAT64,
    INT32,
    INT64,
    OPTIONAL_STRING,
    STRING,
    Field,
    Schema,
    SchemaType,
    Struct,
)
from controlplane.connect.data.schema import validate
from controlplane.connect.errors import DataError

ORDER = Schema.struct("Order", {"order-id": INT64}, note=STRING.optional("none"))


def test_fields_keep_their_order_and_know_their_place() -> None:
    """Fields of the mapping come first, then those given by Python names."""
    assert ORDER.fields == (
        Field("order-id", 0, INT64),
        Field("note", 1, STRING.optional("none")),
    )
    assert ORDER.field("note") == ORDER.fields[1]
    assert ORDER.field("other") is None


def test_only_structs_have_fields() -> None:
    """A request for a field of another schema type raises Kafka's error."""
    with pytest.raises(DataError, match=r"^Cannot look up fields on non-struct type$"):
        INT64.field("a")


def test_schemas_are_immutable_and_copied() -> None:
    """`optional` and `replace` return a copy."""
    renamed = STRING.replace(name="Id", version=2, doc="of an order", parameters={"a": "b"})
    assert (renamed.name, renamed.version, renamed.parameters) == ("Id", 2, {"a": "b"})
    assert STRING.optional() == OPTIONAL_STRING
    assert (STRING.name, STRING.is_optional) == (None, False)
    with pytest.raises(AttributeError):
        STRING.name = "x"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("schema", "other"),
    [
        (INT64, INT32),
        (INT64, INT64.optional()),
        (INT64.optional(1), INT64.optional(2)),
        (FLOAT64.optional(0.0), FLOAT64.optional(-0.0)),
        (Schema.array(INT64), Schema.array(INT32)),
        (Schema.map(STRING, INT64), Schema.map(INT64, INT64)),
        (Schema.struct("A", a=INT64, b=INT64), Schema.struct("A", b=INT64, a=INT64)),
        (Schema.decimal(1), Schema.decimal(2)),
        (STRING.replace(doc="a"), STRING.replace(doc="b")),
    ],
)
def test_schemas_of_different_attributes_differ(schema: Schema, other: Schema) -> None:
    """Each attribute counts, and so does the sign of zero."""
    assert schema != other


def test_equal_schemas_are_interchangeable() -> None:
    """Equal schemas have one hash and are interchangeable as keys, even with a list as default."""
    schema, other = (
        Schema.struct("S", a=Schema.array(BYTES).optional([b"x"]), b=Schema.decimal(3))
        for _ in range(2)
    )
    assert schema == other
    assert {schema: 1}[other] == 1


@pytest.mark.parametrize("default", ["x", 2**31, True, 1.5])
def test_a_default_has_to_fit(default: object) -> None:
    """A default that does not fit raises Kafka's error with the reason as cause."""
    with pytest.raises(DataError, match=r"^Invalid default value$") as caught:
        INT32.optional(default)
    assert "Invalid Java object for schema with type INT32" in str(caught.value.__cause__)


def test_a_struct_is_no_default() -> None:
    """Kafka refuses a struct as default, too: it would contain its own schema."""
    with pytest.raises(DataError, match="Invalid default value"):
        ORDER.optional(Struct(ORDER))


def test_names_of_fields_are_unique_and_not_empty() -> None:
    """Duplicate and empty field names raise Kafka's errors."""
    twice = (Field("a", 0, INT64), Field("a", 1, INT64))
    with pytest.raises(DataError, match="because of field name duplication a"):
        Schema(SchemaType.STRUCT, fields=twice)
    with pytest.raises(DataError, match="fieldName cannot be null"):
        Schema.struct("A", {"": INT64})


def test_a_schema_names_itself() -> None:
    """The text of a schema has its name and type, or its type alone (`ConnectSchema#toString`)."""
    assert str(ORDER) == "Schema{Order:STRUCT}"
    assert str(INT64) == "Schema{INT64}"


class Priority(IntEnum):
    """Integers of a connector's own class."""

    LOW = -5
    HIGH = 2**40


def test_integers_of_other_classes_are_compared_like_numbers() -> None:
    """The check does not use `in range(…)`, which would try one number after the other."""
    validate(INT64, Priority.HIGH)
    validate(INT32, Priority.LOW)
    with pytest.raises(DataError, match=r"expected INT32|INT32"):
        validate(INT32, Priority.HIGH)
