"""Predefined schemas: primitive types, their optional forms, and logical types."""

from typing import Final

from controlplane.connect.data.schema import Schema
from controlplane.connect.data.schema_type import (
    DATE_NAME,
    TIME_NAME,
    TIMESTAMP_NAME,
    SchemaType,
)

INT8: Final = Schema(SchemaType.INT8)
INT16: Final = Schema(SchemaType.INT16)
INT32: Final = Schema(SchemaType.INT32)
INT64: Final = Schema(SchemaType.INT64)
FLOAT32: Final = Schema(SchemaType.FLOAT32)
FLOAT64: Final = Schema(SchemaType.FLOAT64)
BOOLEAN: Final = Schema(SchemaType.BOOLEAN)
STRING: Final = Schema(SchemaType.STRING)
BYTES: Final = Schema(SchemaType.BYTES)

OPTIONAL_INT8: Final = INT8.optional()
OPTIONAL_INT16: Final = INT16.optional()
OPTIONAL_INT32: Final = INT32.optional()
OPTIONAL_INT64: Final = INT64.optional()
OPTIONAL_FLOAT32: Final = FLOAT32.optional()
OPTIONAL_FLOAT64: Final = FLOAT64.optional()
OPTIONAL_BOOLEAN: Final = BOOLEAN.optional()
OPTIONAL_STRING: Final = STRING.optional()
OPTIONAL_BYTES: Final = BYTES.optional()

DATE: Final = Schema(SchemaType.INT32, name=DATE_NAME, version=1)
"""A day without a time: `datetime.date`."""
TIME: Final = Schema(SchemaType.INT32, name=TIME_NAME, version=1)
"""A time of day to the millisecond: `datetime.time`."""
TIMESTAMP: Final = Schema(SchemaType.INT64, name=TIMESTAMP_NAME, version=1)
"""A moment to the millisecond: `datetime.datetime` with a time zone; UTC when read."""
