"""Common schemas of the elements of a header's array or map (`Values.mergeSchemas`)."""

import datetime as dt
from typing import Any, Final

from controlplane.connect.data.logical_types import to_logical
from controlplane.connect.data.schema import Schema, SchemaAndValue
from controlplane.connect.data.schema_type import (
    BITS,
    DATE_NAME,
    TIME_NAME,
    TIMESTAMP_NAME,
    SchemaType,
    java_class,
)
from controlplane.connect.errors import DataError
from controlplane.core.java.big_decimals import narrowed
from controlplane.core.java.java_library import narrow_int, wrap
from controlplane.core.java.json_values import is_integer

_RANKS: Final = {
    kind: rank
    for rank, kind in enumerate(
        (
            *(SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64),
            *(SchemaType.FLOAT32, SchemaType.FLOAT64),
        )
    )
}
_INT32_NAMES: Final = (DATE_NAME, TIME_NAME)


class CommonSchema:
    """Common schema of the values so far; `schema` is None if they have none in common."""

    def __init__(self) -> None:
        self.schema: Schema | None = None
        self._is_compatible = True

    def merge(self, value: SchemaAndValue | None) -> None:
        """Add a value; null fits every schema."""
        if value is None or value.schema is None or not self._is_compatible:
            return
        if self.schema is None:
            self.schema = value.schema
        else:
            self.schema = _merged(self.schema, value.schema)
            self._is_compatible = self.schema is not None


def _merged(previous: Schema, following: Schema) -> Schema | None:
    """The schema of the larger numeric type; None: the types have none in common.

    The later of two schemas of the same type wins, even if they differ.
    """
    if previous.type is following.type:
        return following
    ranks = _RANKS.get(previous.type), _RANKS.get(following.type)
    if ranks[0] is None or ranks[1] is None:
        return None
    return previous if ranks[0] > ranks[1] else following


def convert(schema: Schema, value: Any) -> Any:
    """Convert a parsed value to the common schema (`Values.convertTo`).

    Raises:
        DataError: the value is null or not of the schema's kind.
    """
    if value is None:
        raise DataError("Unable to convert a null value to a schema that requires a value")
    kind = schema.type
    is_temporal = isinstance(value, dt.date | dt.time)
    if kind is SchemaType.FLOAT32 or kind is SchemaType.FLOAT64:
        if is_temporal or isinstance(value, bool) or not isinstance(value, int | float):
            raise _no_number(value)
        return narrowed(float(value)) if kind is SchemaType.FLOAT32 else float(value)
    if kind in BITS:
        return _integral(schema, value, is_temporal=is_temporal)
    return value


def _integral(schema: Schema, value: Any, *, is_temporal: bool) -> Any:
    is_logical = schema.name in {DATE_NAME, TIME_NAME, TIMESTAMP_NAME}
    if is_logical and is_temporal:
        return value
    if not is_integer(value):
        raise _no_number(value)
    if not is_logical:
        return wrap(value, BITS[schema.type])
    return to_logical(schema, narrow_int(value) if schema.name in _INT32_NAMES else value)


def _no_number(value: Any) -> DataError:
    return DataError(f"Unable to convert {value} ({java_class(value)}) to a number")
