"""Types of schemas, and Java's names for the classes of Python values."""

import datetime as dt
from decimal import Decimal
from enum import Enum
from typing import Any, Final

from controlplane.core.java.java_library import fits


class SchemaType(Enum):
    """Type of a schema (`Schema.Type`), with the Python class of its values."""

    INT8 = "INT8"
    """`int` of 8 bits, signed."""
    INT16 = "INT16"
    """`int` of 16 bits, signed."""
    INT32 = "INT32"
    """`int` of 32 bits, signed; `date` or `time` under a logical type."""
    INT64 = "INT64"
    """`int` of 64 bits, signed; `datetime` under the logical type Timestamp."""
    FLOAT32 = "FLOAT32"
    """`float` (or `int`), rounded to 32 bits when written."""
    FLOAT64 = "FLOAT64"
    """`float` (or `int`)."""
    BOOLEAN = "BOOLEAN"
    """`bool`."""
    STRING = "STRING"
    """`str`."""
    BYTES = "BYTES"
    """`bytes`, `bytearray` or `memoryview`; `Decimal` under the logical type Decimal."""
    ARRAY = "ARRAY"
    """`list` or `tuple`."""
    MAP = "MAP"
    """`dict`."""
    STRUCT = "STRUCT"
    """`Struct`."""

    def __str__(self) -> str:
        return self.value


DECIMAL_NAME: Final = "org.apache.kafka.connect.data.Decimal"
DATE_NAME: Final = "org.apache.kafka.connect.data.Date"
TIME_NAME: Final = "org.apache.kafka.connect.data.Time"
TIMESTAMP_NAME: Final = "org.apache.kafka.connect.data.Timestamp"

BITS: Final = {
    SchemaType.INT8: 8,
    SchemaType.INT16: 16,
    SchemaType.INT32: 32,
    SchemaType.INT64: 64,
}
"""Number of bits of each integral type."""

_CLASSES: Final[tuple[tuple[type | tuple[type, ...], str], ...]] = (
    (bool, "java.lang.Boolean"),
    (float, "java.lang.Double"),
    (str, "java.lang.String"),
    ((bytes, bytearray), "[B"),
    (memoryview, "java.nio.HeapByteBuffer"),
    ((list, tuple), "java.util.ArrayList"),
    (dict, "java.util.HashMap"),
    (Decimal, "java.math.BigDecimal"),
    ((dt.date, dt.time), "java.util.Date"),
)


def java_class(value: Any) -> str:
    """Class of a value in Kafka's messages: `class java.lang.Long` for an `int`.

    A class without a counterpart in Java keeps its Python name.
    """
    for classes, name in _CLASSES:
        if isinstance(value, classes):
            return f"class {name}"
    if isinstance(value, int):
        is_long = fits(value, BITS[SchemaType.INT64])
        return f"class java.{'lang.Long' if is_long else 'math.BigInteger'}"
    kind = type(value)
    return f"class {getattr(kind, 'java_name', f'{kind.__module__}.{kind.__qualname__}')}"
