"""Connect's data model: schemas, structs and logical types.

A connector that handles plain dicts needs none of it. A schema says what a consumer may rely on:

    from controlplane.connect.data import INT64, STRING, Schema, Struct

    ORDER = Schema.struct("Order", id=INT64, note=STRING.optional())
    order = Struct(ORDER, id=7)
    order["note"] = "two boxes"

Values are Python's: `int`, `float`, `bool`, `str`, `bytes`, `list`, `dict`, `Struct`. Under the
logical types DATE, TIME, TIMESTAMP and `Schema.decimal(scale)` they are `date`, `time`, `datetime`
(UTC) and `Decimal`. `validate` checks a value, and `project` converts one to another version of its
schema.
"""

from controlplane.connect.data.header_parser import parse_header
from controlplane.connect.data.predefined import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    OPTIONAL_BOOLEAN,
    OPTIONAL_BYTES,
    OPTIONAL_FLOAT32,
    OPTIONAL_FLOAT64,
    OPTIONAL_INT8,
    OPTIONAL_INT16,
    OPTIONAL_INT32,
    OPTIONAL_INT64,
    OPTIONAL_STRING,
    STRING,
    TIME,
    TIMESTAMP,
)
from controlplane.connect.data.projector import project
from controlplane.connect.data.schema import Field, Schema, SchemaAndValue, Struct, validate
from controlplane.connect.data.schema_type import SchemaType
from controlplane.connect.data.string_forms import header_text

__all__ = [
    "BOOLEAN",
    "BYTES",
    "DATE",
    "FLOAT32",
    "FLOAT64",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "OPTIONAL_BOOLEAN",
    "OPTIONAL_BYTES",
    "OPTIONAL_FLOAT32",
    "OPTIONAL_FLOAT64",
    "OPTIONAL_INT8",
    "OPTIONAL_INT16",
    "OPTIONAL_INT32",
    "OPTIONAL_INT64",
    "OPTIONAL_STRING",
    "STRING",
    "TIME",
    "TIMESTAMP",
    "Field",
    "Schema",
    "SchemaAndValue",
    "SchemaType",
    "Struct",
    "header_text",
    "parse_header",
    "project",
    "validate",
]
