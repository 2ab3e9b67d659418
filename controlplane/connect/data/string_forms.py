"""Strings of values: Java's `toString`, and the strings of headers (`Values.convertToString`)."""

import datetime as dt
from base64 import b64encode
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

from controlplane.connect.data.logical_types import DAY_MS, epoch_ms
from controlplane.connect.data.schema import Schema, Struct
from controlplane.connect.data.schema_type import SchemaType, java_class
from controlplane.connect.errors import DataError
from controlplane.core.java.big_decimals import float_text, narrowed, without_negative_zero
from controlplane.core.java.java_library import double_text
from controlplane.core.java.json_values import is_integer
from controlplane.core.java.simple_date_format import (
    DATE_PATTERN,
    TIME_PATTERN,
    TIMESTAMP_PATTERN,
    date_text,
    format_date,
)

_Temporal = dt.date | dt.time


def string_form(schema: Schema | None, value: Any) -> str:
    """`value.toString()`: `{a=1, b=[x, null]}`, `Struct{id=7}`, `1.0E10`.

    Dates are written in UTC. If Connect has no type for the class of a value, such as `UUID`, the
    text is Python's `str(value)`.

    Raises:
        DataError: the value contains bytes. In Java, their text does not show their content.
    """
    pieces: list[str] = []
    # Not recursive: JSON may be nested 1,000 deep.
    containers: list[Iterator[_TextPart]] = [iter([(schema, value)])]
    while containers:
        member = next(containers[-1], None)
        match member:
            case None:
                containers.pop()
            case str():
                pieces.append(member)
            case (_, str() as text):
                pieces.append(text)
            case (members, Struct() | dict() | list() | tuple() as container):
                containers.append(_parts(members, container))
            case (own_schema, scalar):
                pieces.append(_simple(own_schema, scalar))
    return "".join(pieces)


_TextPart = str | tuple[Schema | None, Any]
"""Text between the members of a value, or a member with its schema."""


def _parts(schema: Schema | None, container: Any) -> Iterator[_TextPart]:
    """Yield the members of a struct, map or array, and the text around them."""
    if isinstance(container, Struct):
        start = "Struct{"
        for field in container.schema.fields:
            if (part := container.without_default(field.name)) is not None:
                yield f"{start}{field.name}="
                yield field.schema, part
                start = ","
        yield "}" if start == "," else "Struct{}"
    elif isinstance(container, dict):
        keys, values = (schema.key, schema.value) if schema else (None, None)
        yield "{"
        for index, (key, member) in enumerate(container.items()):
            yield ", " if index else ""
            yield keys, key
            yield "="
            yield values, member
        yield "}"
    else:
        yield "["
        for index, element in enumerate(container):
            yield ", " if index else ""
            yield schema.value if schema else None, element
        yield "]"


def _simple(schema: Schema | None, value: Any) -> str:
    """Text of a value without members."""
    match value:
        case dt.date() | dt.time():
            return date_text(epoch_ms(value))
        case bytes() | bytearray() | memoryview():
            raise DataError("Bytes have no text: use ByteArrayConverter or JsonConverter")
    return _scalar(schema, value)


def _scalar(schema: Schema | None, value: Any) -> str:
    """Text of a value without members. The schema decides between a float's and a double's form."""
    kind = schema.type if schema else None
    if isinstance(value, float) or (
        is_integer(value) and kind in {SchemaType.FLOAT32, SchemaType.FLOAT64}
    ):
        return real_text(value, is_float=kind is SchemaType.FLOAT32)
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case Decimal():
            return str(without_negative_zero(value))
        case _:
            return str(value)


def real_text(value: float, *, is_float: bool) -> str:
    """Text of a number as by Java's `Float.toString` (`is_float`) or `Double.toString`."""
    return float_text(narrowed(value)) if is_float else double_text(float(value))


def header_text(schema: Schema | None, value: Any) -> str:
    """The string of a header's value, which `parse_header` reads.

    Raises:
        DataError: Connect has no type for the class of a value.
    """
    pieces: list[str] = []
    _append(pieces, schema, value, embedded=False)
    return "".join(pieces)


def _append(pieces: list[str], schema: Schema | None, value: Any, *, embedded: bool) -> None:
    """Append the string of a value. `embedded`: within an array, map or struct."""
    match value:
        case str():
            pieces.append(_quoted(value) if embedded else value)
        case bytes() | bytearray() | memoryview():
            encoded = b64encode(value).decode()
            pieces.append(f'"{encoded}"' if embedded else encoded)
        case list() | tuple():
            members = schema.value if schema else None
            pieces.append("[")
            for index, element in enumerate(value):
                pieces.append("," if index else "")
                _append(pieces, members, element, embedded=True)
            pieces.append("]")
        case dict():
            keys, values = (schema.key, schema.value) if schema else (None, None)
            _append_pairs(pieces, ((keys, key, values, member) for key, member in value.items()))
        case Struct():
            fields = value.schema.fields
            pairs = ((None, field.name, field.schema, value[field.name]) for field in fields)
            _append_pairs(pieces, pairs)
        case dt.date() | dt.time():
            pieces.append(_temporal_text(value))
        case None | bool() | int() | float() | Decimal():
            pieces.append(_scalar(schema, value))
        case _:
            name = java_class(value).removeprefix("class ")
            raise DataError(f"Failed to serialize unexpected value type {name}: {value}")


def _append_pairs(pieces: list[str], pairs: Iterable[tuple[Any, Any, Any, Any]]) -> None:
    """Append a map; each pair is the key's schema, the key, the value's schema, the value."""
    pieces.append("{")
    for index, (keys, key, values, member) in enumerate(pairs):
        pieces.append("," if index else "")
        _append(pieces, keys, key, embedded=True)
        pieces.append(":")
        _append(pieces, values, member, embedded=True)
    pieces.append("}")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _temporal_text(value: _Temporal) -> str:
    """Format a date by its value alone, as Kafka does.

    A value before 1970-01-02 is a time of day. A later one at midnight is a date.
    """
    milliseconds = epoch_ms(value)
    if milliseconds < DAY_MS:
        return format_date(milliseconds, TIME_PATTERN)
    if milliseconds % DAY_MS == 0:
        return format_date(milliseconds, DATE_PATTERN)
    return format_date(milliseconds, TIMESTAMP_PATTERN)
