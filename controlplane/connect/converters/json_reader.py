"""Reader of Connect's values and schemas from JSON.

Kafka: `JsonConverter.convertToConnect`, `asConnectSchema`.

Jackson is lenient, and so is Kafka's converter: a text under the schema INT32 is 0.
"""

import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from controlplane.connect.converters.json_writer import TYPES_BY_NAME
from controlplane.connect.data import Field, Schema, SchemaType, Struct
from controlplane.connect.data.header_parser import hashable
from controlplane.connect.data.logical_types import to_logical
from controlplane.connect.data.schema_type import (
    BITS,
    DATE_NAME,
    DECIMAL_NAME,
    TIME_NAME,
    TIMESTAMP_NAME,
)
from controlplane.connect.errors import DataError
from controlplane.core.java.big_decimals import long_value, round_to_float
from controlplane.core.java.java_library import fits, narrow_int, trim, wrap, wrap_long
from controlplane.core.java.json_values import is_integer

_QUADRUPLE: Final = r"[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}="
_BASE64: Final = re.compile(rf"(?:[\x00-\x20]*(?:{_QUADRUPLE}))*+[\x00-\x20]*")
_QUADRUPLES: Final = re.compile(_QUADRUPLE)


class JsonReader:
    """Values and schemas from the trees of `json_codec.decode_tree`."""

    def __init__(self, *, replace_nulls: bool) -> None:
        """`replace_nulls`: a null is read as the default of its schema, if there is one."""
        self._replace_nulls = replace_nulls

    def schema(self, node: Any) -> Schema | None:
        """The schema that a JSON schema describes; None for null.

        Raises:
            DataError: the node describes no schema.
        """
        return None if node is None else self._schema(node)

    def _schema(self, node: Any) -> Schema:
        """Read a schema with all of its attributes; its default is converted like any value."""
        name = node.get("type") if isinstance(node, dict) else None
        if not isinstance(name, str):
            raise DataError("Schema must contain 'type' field")
        kind = TYPES_BY_NAME.get(name)
        if kind is None:
            raise DataError(f"Unknown schema type: {name}")
        schema = self._structure(kind, node)
        texts = {name: node[name] for name in ("name", "doc") if isinstance(node.get(name), str)}
        schema = schema.replace(
            is_optional=node.get("optional") is True,
            version=narrow_int(version) if is_integer(version := node.get("version")) else None,
            parameters=_parameters(node.get("parameters")),
            **texts,
        )
        if "default" in node:
            default = self.value(schema, node["default"])
            if default is None and not schema.is_optional:
                raise DataError("Invalid default value")
            schema = schema.replace(default=default)
        return schema

    def _structure(self, kind: SchemaType, node: dict[str, Any]) -> Schema:
        """A schema of this type with its members: elements, keys and values, or fields."""
        if kind is SchemaType.ARRAY:
            if node.get("items") is None:
                raise DataError("Array schema did not specify the element type")
            return Schema.array(self._schema(node["items"]))
        if kind is SchemaType.MAP:
            # Kafka requires both attributes before it reads either.
            members = []
            for name, attribute in (("key", "keys"), ("value", "values")):
                if attribute not in node:
                    raise DataError(f"Map schema did not specify the {name} type")
                members.append((name, node[attribute]))
            schemas = [(name, self.schema(member)) for name, member in members]
            for name, schema in schemas:
                if schema is None:
                    raise DataError(f"{name}Schema cannot be null.")
            return Schema(SchemaType.MAP, key=schemas[0][1], value=schemas[1][1])
        return Schema(kind, fields=self._fields(node) if kind is SchemaType.STRUCT else ())

    def _fields(self, node: dict[str, Any]) -> tuple[Field, ...]:
        written = node.get("fields")
        if not isinstance(written, list):
            raise DataError('Struct schema\'s "fields" argument is not an array.')
        fields = []
        for index, field in enumerate(written):
            name = field.get("field") if isinstance(field, dict) else None
            if not isinstance(name, str):
                raise DataError("Struct schema's field name not specified properly")
            fields.append(Field(name, index, self._schema(field)))
        return tuple(fields)

    def value(self, schema: Schema, node: Any) -> Any:
        """The value of a node under a schema.

        Raises:
            DataError: the node does not fit the schema.
        """
        if node is None:
            if schema.default is not None and self._replace_nulls:
                return schema.default
            if schema.is_optional:
                return None
            raise DataError(f"Invalid null value for required {schema.type} field")
        logical = _LOGICAL.get(schema.name or "")
        if logical is not None:
            return logical(schema, node)
        return _READERS[schema.type](self, schema, node)

    def _array(self, schema: Schema, node: Any) -> list[Any]:
        members = schema.value
        assert members is not None
        elements = node.values() if isinstance(node, dict) else node
        is_container = isinstance(node, list | dict)
        return [self.value(members, element) for element in elements] if is_container else []

    def _map(self, schema: Schema, node: Any) -> dict[Any, Any]:
        """Read an object if the keys are strings, and otherwise a list of pairs."""
        keys, values = schema.key, schema.value
        assert keys is not None
        assert values is not None
        if keys.type is SchemaType.STRING:
            if not isinstance(node, dict):
                raise DataError(
                    "Maps with string fields should be encoded as JSON objects, but found "
                    f"{_node_type(node)}"
                )
            return {name: self.value(values, member) for name, member in node.items()}
        if not isinstance(node, list):
            raise DataError(
                "Maps with non-string fields should be encoded as JSON array of tuples, but found "
                f"{_node_type(node)}"
            )
        entries: dict[Any, Any] = {}
        for pair in node:
            if not isinstance(pair, list):
                raise DataError(
                    f"Found invalid map entry instead of array tuple: {_node_type(pair)}"
                )
            if len(pair) != 2:
                raise DataError(
                    f"Found invalid map entry, expected length 2 but found :{len(pair)}"
                )
            key = hashable(self.value(keys, pair[0]))
            entries[key] = self.value(values, pair[1])
        return entries

    def _struct(self, schema: Schema, node: Any) -> Struct:
        if not isinstance(node, dict):
            raise DataError(
                f"Structs should be encoded as JSON objects, but found {_node_type(node)}"
            )
        record = Struct(schema)
        for field in schema.fields:
            record[field.name] = self.value(field.schema, node.get(field.name))
        return record


def schemaless(node: Any) -> Any:
    """The value of a node without a schema: integers have 64 bits, other numbers are doubles."""
    if isinstance(node, dict):
        return {name: schemaless(member) for name, member in node.items()}
    if isinstance(node, list):
        return [schemaless(element) for element in node]
    if is_integer(node):
        return wrap_long(node)
    return float(node) if isinstance(node, Decimal) else node


def _is_number(node: Any) -> bool:
    return isinstance(node, Decimal) or is_integer(node)


def _node_type(node: Any) -> str:
    """Node type in Kafka's messages (`JsonNode.getNodeType`)."""
    kinds = (
        (type(None), "NULL"),
        (bool, "BOOLEAN"),
        (int | Decimal, "NUMBER"),
        (str, "STRING"),
        (list, "ARRAY"),
    )
    return next((name for classes, name in kinds if isinstance(node, classes)), "OBJECT")


def _parameters(node: Any) -> dict[str, str] | None:
    if not isinstance(node, dict):
        return None
    if not all(isinstance(value, str) for value in node.values()):
        raise DataError("Schema parameters must have string values.")
    return node


def _integer(_reader: JsonReader, schema: Schema, node: Any) -> int:
    bits = BITS[schema.type]
    number = long_value(node) if isinstance(node, Decimal) else node
    return wrap(number, bits) if is_integer(number) else 0


def _float(_reader: JsonReader, _schema: Schema, node: Any) -> float:
    return round_to_float(node) if _is_number(node) else 0.0


def _double(_reader: JsonReader, _schema: Schema, node: Any) -> float:
    if not _is_number(node):
        return 0.0
    try:
        return float(node)
    except OverflowError:  # An integer beyond the range of doubles.
        return float("inf") if node > 0 else float("-inf")


def _boolean(_reader: JsonReader, _schema: Schema, node: Any) -> bool:
    return node is True


def _string(_reader: JsonReader, _schema: Schema, node: Any) -> str | None:
    return node if isinstance(node, str) else None


def _bytes_value(_reader: JsonReader, _schema: Schema, node: Any) -> bytes | None:
    if not isinstance(node, str):
        return None
    content = _from_base64(node)
    if content is None:
        raise DataError("Invalid bytes field")
    return content


def _from_base64(text: str) -> bytes | None:
    """Bytes of a Base64 text; None: it is not Base64.

    A Base64 text has groups of four characters, such as `QUJD`. As in Jackson, white space may
    separate groups (`QUJD QUJD`), but not the characters of one. Each group may end with padding,
    not only the last one (`QQ==QUJD`).
    """
    stripped = trim(text)
    if not _BASE64.fullmatch(stripped):
        return None
    return b"".join(map(b64decode, _QUADRUPLES.findall(stripped)))


_READERS: Final[Mapping[SchemaType, Callable[[JsonReader, Schema, Any], Any]]] = {
    **dict.fromkeys(BITS, _integer),
    SchemaType.FLOAT32: _float,
    SchemaType.FLOAT64: _double,
    SchemaType.BOOLEAN: _boolean,
    SchemaType.STRING: _string,
    SchemaType.BYTES: _bytes_value,
    SchemaType.ARRAY: JsonReader._array,  # noqa: SLF001
    SchemaType.MAP: JsonReader._map,  # noqa: SLF001
    SchemaType.STRUCT: JsonReader._struct,  # noqa: SLF001
}


def _decimal_value(schema: Schema, node: Any) -> Decimal:
    if _is_number(node):
        return node if isinstance(node, Decimal) else Decimal(node)
    if not isinstance(node, str):
        raise DataError(
            "Invalid type for Decimal, underlying representation should be numeric or bytes but "
            f"was {_node_type(node)}"
        )
    content = _from_base64(node)
    if not content:
        raise DataError("Invalid bytes for Decimal field")
    try:
        number: Decimal = to_logical(schema, content)
    except DataError as error:
        raise DataError("Invalid bytes for Decimal field") from error
    return number


def _date_or_time(schema: Schema, node: Any) -> Any:
    if not is_integer(node) or not fits(node, BITS[SchemaType.INT32]):
        kind = "Date" if schema.name == DATE_NAME else "Time"
        raise DataError(
            f"Invalid type for {kind}, underlying representation should be integer but was "
            f"{_node_type(node)}"
        )
    return to_logical(schema, node)


def _timestamp(schema: Schema, node: Any) -> Any:
    if not is_integer(node):
        raise DataError(
            "Invalid type for Timestamp, underlying representation should be integral but was "
            f"{_node_type(node)}"
        )
    return to_logical(schema, wrap_long(node))


_LOGICAL: Final[Mapping[str, Callable[[Schema, Any], Any]]] = {
    DECIMAL_NAME: _decimal_value,
    DATE_NAME: _date_or_time,
    TIME_NAME: _date_or_time,
    TIMESTAMP_NAME: _timestamp,
}
