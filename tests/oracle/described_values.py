"""Conversion between Python values and the JSON descriptions that the harness uses."""

import datetime as dt
import math
import struct
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from controlplane.connect.data import Field, Schema, SchemaType, Struct
from controlplane.connect.data.logical_types import epoch_ms, moment_of
from controlplane.core.java.big_decimals import decimal_of, scale_of, unscaled

ValueDescription = list[Any]
"""A value: its kind and its content."""

SchemaDescription = dict[str, Any]
"""A schema: its attributes, without those that are null."""

_EPOCH = dt.date(1970, 1, 1)


def real(number: float) -> str:
    """The bits of a double in hex; every NaN is the same."""
    return struct.pack(">d", math.nan if math.isnan(number) else number).hex()


def schema_of(described: SchemaDescription | None) -> Schema | None:
    """The schema of a description."""
    return None if described is None else _schema_of(described)


def _schema_of(described: SchemaDescription) -> Schema:
    default = described.get("default")
    return Schema(
        SchemaType[described["type"]],
        is_optional=described["optional"],
        default=None if default is None else value_of(default),
        name=described.get("name"),
        version=described.get("version"),
        doc=described.get("doc"),
        parameters=described.get("parameters"),
        fields=tuple(
            Field(name, index, _schema_of(field))
            for index, (name, field) in enumerate(described.get("fields", ()))
        ),
        key=schema_of(described.get("key")),
        value=schema_of(described.get("value")),
    )


def value_of(described: ValueDescription) -> Any:
    """The Python value of a description. A date names its class: `["date", "0", "time"]`."""
    kind, *content = described
    match kind:
        case "null":
            return None
        case "i8" | "i16" | "i32" | "i64" | "big":
            return int(content[0])
        case "f32" | "f64":
            return struct.unpack(">d", bytes.fromhex(content[0]))[0]
        case "bytes":
            return bytes.fromhex(content[0])
        case "decimal":
            return decimal_of(int(content[0]), content[1])
        case "date":
            return _temporal(int(content[0]), content[1])
        case "list":
            return list(map(value_of, content[0]))
        case "map":
            return {value_of(key): value_of(member) for key, member in content[0]}
        case "struct":
            return _struct(content[0], content[1])
        case _:
            return content[0]


def _temporal(milliseconds: int, kind: str) -> dt.date | dt.time:
    moment = moment_of(milliseconds)
    if kind == "datetime":
        return moment
    return moment.date() if kind == "date" else moment.time()


def _struct(described: SchemaDescription, values: list[ValueDescription]) -> Struct:
    record = Struct(_schema_of(described))
    for field, value in zip(record.schema.fields, values, strict=True):
        if value != ["null"]:
            record[field.name] = value_of(value)
    return record


def described_schema(schema: Schema | None) -> SchemaDescription | None:
    """Return the description of a schema; None for None."""
    if schema is None:
        return None
    described: SchemaDescription = {"type": str(schema.type), "optional": schema.is_optional}
    for name in ("name", "version", "doc", "parameters"):
        if getattr(schema, name) is not None:
            described[name] = getattr(schema, name)
    if schema.default is not None:
        described["default"] = described_value(schema.default)
    if schema.type is SchemaType.STRUCT:
        fields = schema.fields
        described["fields"] = [[field.name, described_schema(field.schema)] for field in fields]
    if schema.type is SchemaType.MAP:
        described["key"] = described_schema(schema.key)
    if schema.type in {SchemaType.MAP, SchemaType.ARRAY}:
        described["value"] = described_schema(schema.value)
    return described


def described_value(value: Any) -> ValueDescription:
    """The description of a value in an answer: integers and floats lose their size."""
    match value:
        case None:
            return ["null"]
        case bool():
            return ["boolean", value]
        case int():
            return ["integer", str(value)]
        case float():
            return ["real", real(value)]
        case str():
            return ["string", value]
        case bytes():
            return ["bytes", value.hex()]
        case Decimal():
            return ["decimal", str(unscaled(value)), scale_of(value)]
        case dt.date() | dt.time():
            return ["date", str(epoch_ms(value))]
        case list() | tuple():
            return ["list", [described_value(element) for element in value]]
        case Mapping():
            pairs = value.items()
            return [
                "map",
                [[described_value(key), described_value(member)] for key, member in pairs],
            ]
        case Struct():
            values = [described_value(value.without_default(name)) for name in value]
            return ["struct", described_schema(value.schema), values]
        case _:
            raise AssertionError(value)
