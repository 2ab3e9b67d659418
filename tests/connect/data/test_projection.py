"""Projection of values onto other versions of their schema."""

from typing import Any

import pytest

from controlplane.connect.data import (
    BOOLEAN,
    FLOAT32,
    FLOAT64,
    INT8,
    INT32,
    INT64,
    OPTIONAL_INT64,
    STRING,
    Schema,
    Struct,
    project,
)
from controlplane.connect.errors import DataError

UNEQUAL_PARAMETERS = (
    "Schema parameters not equal. source parameters: null and target parameters: {a=b, c=d}"
)
OLD = Schema.struct("Order", id=INT32, note=STRING)
NEW = Schema.struct("Order", id=INT64, state=STRING.optional("new"), size=INT8.replace(default=3))


def test_fields_are_matched_by_name() -> None:
    """New fields get their default, unknown ones are dropped, numbers are widened."""
    projected = project(OLD, Struct(OLD, id=7, note="x"), NEW)
    assert projected == Struct(NEW, id=7, size=3)
    assert projected["state"] == "new"


@pytest.mark.parametrize(
    ("source", "value", "target", "expected"),
    [
        (INT8, 1, FLOAT64, 1.0),
        (INT64, 2**24 + 1, FLOAT32, 2.0**24),
        (FLOAT32, 0.5, FLOAT64, 0.5),
        (Schema.array(INT8), [1], Schema.array(INT64), [1]),
        (Schema.map(STRING, INT8), {"a": 1}, Schema.map(STRING, FLOAT64), {"a": 1.0}),
        (OPTIONAL_INT64, None, INT64.replace(default=5), 5),
        (OPTIONAL_INT64, 1, INT64.replace(default=5), 1),
        (OPTIONAL_INT64, None, OPTIONAL_INT64, None),
    ],
)
def test_values_become_the_target_type(
    source: Schema, value: Any, target: Schema, expected: Any
) -> None:
    """Values get the Python type of the target schema."""
    projected = project(source, value, target)
    assert projected == expected
    assert type(projected) is type(expected)


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (INT64, INT8, "Schema type mismatch. source type: INT64 and target type: INT8"),
        (INT64, BOOLEAN, "Schema type mismatch. source type: INT64 and target type: BOOLEAN"),
        (
            INT64,
            INT64.replace(name="Id"),
            "Schema name mismatch. source name: null and target name: Id",
        ),
        (
            INT64,
            INT64.replace(parameters={"a": "b", "c": "d"}),
            UNEQUAL_PARAMETERS,
        ),
        (
            OPTIONAL_INT64,
            INT64,
            "Writer schema is optional, however, target schema does not provide a default value.",
        ),
    ],
)
def test_incompatible_schemas_are_refused(source: Schema, target: Schema, message: str) -> None:
    """An incompatible schema raises Kafka's error."""
    with pytest.raises(DataError) as caught:
        project(source, 1, target)
    assert str(caught.value) == message


def test_a_missing_field_is_named() -> None:
    """The error names the missing field, its struct, and the outer field."""
    target = Schema.struct("Order", total=INT64)
    with pytest.raises(DataError) as caught:
        project(OLD, Struct(OLD, id=1, note=""), target)
    missing = "Required field `total` is missing from source schema: Schema{Order:STRUCT}"
    assert str(caught.value) == missing
    outer, outer_target = Schema.struct("O", order=OLD), Schema.struct("O", order=target)
    record = Struct(outer, order=Struct(OLD, id=1, note=""))
    with pytest.raises(DataError, match=r"^Error projecting order$") as caught:
        project(outer, record, outer_target)
    assert str(caught.value.__cause__) == missing
