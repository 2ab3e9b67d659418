"""Writer of Connect's values and schemas as JSON.

Kafka: `JsonConverter.convertToJson`, `asJsonSchema`.
"""

from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final

from controlplane.connect.data import Schema, SchemaType, Struct
from controlplane.connect.data.logical_types import from_logical
from controlplane.connect.data.schema import has_class
from controlplane.connect.data.schema_type import (
    BITS,
    DATE_NAME,
    DECIMAL_NAME,
    TIME_NAME,
    TIMESTAMP_NAME,
    java_class,
)
from controlplane.connect.errors import DataError
from controlplane.core.java.big_decimals import float_text, narrowed, without_negative_zero
from controlplane.core.java.java_library import fits
from controlplane.core.java.json_codec import JsonNumber
from controlplane.core.java.json_values import value_text

_TYPE_NAMES: Final[Mapping[SchemaType, str]] = {kind: kind.value.lower() for kind in SchemaType} | {
    SchemaType.FLOAT32: "float",
    SchemaType.FLOAT64: "double",
}
TYPES_BY_NAME: Final = {name: kind for kind, name in _TYPE_NAMES.items()}
"""Types by their names in JSON schemas."""

_LOGICAL_TYPES: Final = {
    DECIMAL_NAME: ("Decimal", "BigDecimal"),
    DATE_NAME: ("Date", "Date"),
    TIME_NAME: ("Time", "Date"),
    TIMESTAMP_NAME: ("Timestamp", "Date"),
}
"""Type, and Java's class of its values, by the name of a logical type."""

_NOT_FINITE: Final = ("NaN", "Infinity", "-Infinity")


class UntypedValue(DataError):
    """A value without a schema is of a class for which Connect has no type."""

    def __init__(self, value: Any) -> None:
        kind, name = type(value), java_class(value)
        is_python = name == f"class {kind.__module__}.{kind.__qualname__}"
        language = "Python" if is_python else "Java class"
        super().__init__(f"{language} {name} does not have corresponding schema type.")
        self._value = value

    def advice(self, record: Any) -> str:
        """Return the end of the message: the field that has the value, and the remedies.

        `record`: the key or value of a record, in which the field lies.
        """
        path = _path(record, self._value, "")
        place = f" It is in the field {path:.200}." if path else ""
        return (
            f"{place} Convert it to a text, number, list or dict, or give the record a schema "
            "(value_schema=, key_schema=)."
        )


def _path(container: Any, value: Any, path: str) -> str | None:
    """Return the path of a value in dicts and lists; None: not found.

    For a value in a key of a dict, return the path of the dict.

    The search visits members in the same order as `JsonWriter.value`, which has failed at this
    value. So the search ends at this value, too, and never recurses deeper than the writer did.
    """
    if container is value:
        return path
    if isinstance(container, dict):
        for key, member in container.items():
            if _path(key, value, "") is not None:
                return path
            name = f"{path}.{key}" if path else str(key)
            if (found_path := _path(member, value, name)) is not None:
                return found_path
    elif isinstance(container, list | tuple):
        for number, member in enumerate(container):
            if (found_path := _path(member, value, f"{path}[{number}]")) is not None:
                return found_path
    return None


class JsonWriter:
    """Values and schemas as JSON values that `json_codec.encode` encodes as Jackson does."""

    def __init__(self, *, plain_decimals: bool, replace_nulls: bool) -> None:
        """Make a writer.

        Args:
            plain_decimals: write decimals as numbers; otherwise as Base64 of their bytes.
            replace_nulls: write a null as the default of its schema, if there is one.
        """
        self._plain_decimals = plain_decimals
        self._replace_nulls = replace_nulls

    def value(self, schema: Schema | None, value: Any) -> Any:
        """A value as JSON data for `json_codec.encode`.

        Raises:
            DataError: the value does not fit its schema.
            UntypedValue: the value, or a part of it, has neither a schema nor a type in Connect.
        """
        if value is None:
            return self._null(schema)
        if schema is None:
            kind = _schemaless_type(value)
            return _WRITERS[kind](self, None, value)
        if schema.name in _LOGICAL_TYPES:
            return self._logical_value(schema, value)
        return _WRITERS[schema.type](self, schema, value)

    def schema(self, schema: Schema) -> dict[str, Any]:
        """A schema as the JSON object of Kafka's envelope (`asJsonSchema`)."""
        written: dict[str, Any] = {"type": _TYPE_NAMES[schema.type]}
        if schema.type is SchemaType.ARRAY:
            written["items"] = self._member(schema.value)
        elif schema.type is SchemaType.MAP:
            written["keys"] = self._member(schema.key)
            written["values"] = self._member(schema.value)
        elif schema.type is SchemaType.STRUCT:
            written["fields"] = [
                self.schema(field.schema) | {"field": field.name} for field in schema.fields
            ]
        written["optional"] = schema.is_optional
        attributes = ("name", "version", "doc", "parameters")
        present = ((name, getattr(schema, name)) for name in attributes)
        written |= {name: value for name, value in present if value is not None}
        if schema.default is not None:
            written["default"] = self.value(schema, schema.default)
        return written

    def _member(self, schema: Schema | None) -> dict[str, Any] | None:
        return None if schema is None else self.schema(schema)

    def _null(self, schema: Schema | None) -> Any:
        if schema is not None:
            if schema.default is not None and self._replace_nulls:
                return self.value(schema, schema.default)
            if not schema.is_optional:
                raise DataError(
                    "Conversion error: null value for field that is required and has no default "
                    "value"
                )
        return None

    def _logical_value(self, schema: Schema, value: Any) -> Any:
        kind, expected = _LOGICAL_TYPES[schema.name or ""]
        if not has_class(schema, value):
            raise DataError(
                f"Invalid type for {kind}, expected {expected} but was {java_class(value)}"
            )
        if kind == "Decimal" and self._plain_decimals:
            return JsonNumber(without_negative_zero(value))
        raw = from_logical(schema, value)
        return b64encode(raw).decode() if isinstance(raw, bytes) else raw

    def _array(self, schema: Schema | None, value: Any) -> list[Any]:
        if not isinstance(value, list | tuple):
            raise _wrong_class(schema, value)
        members = None if schema is None else schema.value
        return [self.value(members, element) for element in value]

    def _map(self, schema: Schema | None, value: Any) -> Any:
        """An object if all keys are strings, else a list of pairs.

        With a schema, the type of its keys decides instead of the keys themselves.
        """
        if not isinstance(value, dict):
            raise _wrong_class(schema, value)
        keys, values = (None, None) if schema is None else (schema.key, schema.value)
        is_object = (
            all(isinstance(key, str) for key in value)
            if keys is None
            else keys.type is SchemaType.STRING
        )
        pairs = (
            (self.value(keys, key), self.value(values, member)) for key, member in value.items()
        )
        if is_object:
            return {_key_text(key): member for key, member in pairs}
        return [[key, member] for key, member in pairs]

    def _struct(self, schema: Schema | None, value: Any) -> dict[str, Any]:
        if not isinstance(value, Struct):
            raise _wrong_class(schema, value)
        if schema is None or value.schema != schema:
            raise DataError("Mismatching schema.")
        return {
            field.name: self.value(field.schema, value.without_default(field.name))
            for field in schema.fields
        }


def _key_text(key: Any) -> str:
    """Text of a map's key in a JSON object (`JsonNode.asText`)."""
    if isinstance(key, str):
        return str(key)
    return "" if isinstance(key, list | dict) else value_text(key)


def _wrong_class(schema: Schema | None, value: Any) -> DataError:
    kind = "unknown schema" if schema is None else schema.type
    return DataError(f"Invalid type for {kind}: {java_class(value)}")


def _schemaless_type(value: Any) -> SchemaType:
    for classes, kind in _TYPES_BY_CLASS:
        if isinstance(value, classes):
            return kind
    if isinstance(value, int) and fits(value, BITS[SchemaType.INT64]):
        return SchemaType.INT64
    raise UntypedValue(value)


_TYPES_BY_CLASS: Final[tuple[tuple[type | tuple[type, ...], SchemaType], ...]] = (
    (str, SchemaType.STRING),
    (bool, SchemaType.BOOLEAN),
    (float, SchemaType.FLOAT64),
    (dict, SchemaType.MAP),
    ((list, tuple), SchemaType.ARRAY),
    ((bytes, bytearray, memoryview), SchemaType.BYTES),
    (Struct, SchemaType.STRUCT),
)


def _text_or_boolean(_writer: JsonWriter, schema: Schema | None, value: Any) -> Any:
    if schema is not None and not has_class(schema, value):
        raise _wrong_class(schema, value)
    # A subclass of `str`, such as a member of a StrEnum, is encoded as its text.
    return str.__str__(value) if isinstance(value, str) else value


def _integer(_writer: JsonWriter, schema: Schema | None, value: Any) -> int:
    if schema is not None and not has_class(schema, value):
        raise _wrong_class(schema, value)
    return int(value)


def _double(_writer: JsonWriter, schema: Schema | None, value: Any) -> float:
    if schema is not None and not has_class(schema, value):
        raise _wrong_class(schema, value)
    return float(value)


def _float(_writer: JsonWriter, schema: Schema | None, value: Any) -> Any:
    text = float_text(narrowed(_double(_writer, schema, value)))
    return text if text in _NOT_FINITE else JsonNumber(text)


def _bytes(_writer: JsonWriter, schema: Schema | None, value: Any) -> str:
    if schema is not None and not has_class(schema, value):
        raise DataError(f"Invalid type for bytes type: {java_class(value)}")
    return b64encode(value).decode()


_WRITERS: Final[Mapping[SchemaType, Callable[[JsonWriter, Schema | None, Any], Any]]] = {
    **dict.fromkeys(BITS, _integer),
    SchemaType.FLOAT32: _float,
    SchemaType.FLOAT64: _double,
    SchemaType.BOOLEAN: _text_or_boolean,
    SchemaType.STRING: _text_or_boolean,
    SchemaType.BYTES: _bytes,
    SchemaType.ARRAY: JsonWriter._array,  # noqa: SLF001
    SchemaType.MAP: JsonWriter._map,  # noqa: SLF001
    SchemaType.STRUCT: JsonWriter._struct,  # noqa: SLF001
}
