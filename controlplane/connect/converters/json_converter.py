"""Kafka's JsonConverter, with and without schemas."""

from collections.abc import Mapping
from typing import Any, Final, Generic, TypeVar

from controlplane.connect.converters.json_reader import JsonReader, schemaless
from controlplane.connect.converters.json_writer import JsonWriter, UntypedValue
from controlplane.connect.converters.plain_converter import PlainConverter, setting
from controlplane.connect.data import Schema, SchemaAndValue
from controlplane.connect.errors import DataError
from controlplane.core.configdef.key_definition import ConfigKey
from controlplane.core.java import json_codec
from controlplane.core.java.json_codec import (
    StackOverflow,
    Undecodable,
    decode_envelope,
    decode_tree,
)
from controlplane.core.releases.profiles import Profile

_SCHEMAS_ENABLE: Final = ConfigKey(name="schemas.enable", type="BOOLEAN", default="true")
_CACHE_SIZE: Final = ConfigKey(name="schemas.cache.size", type="INT", default="1000")
_DECIMALS: Final = ConfigKey(
    name="decimal.format",
    type="STRING",
    default="BASE64",
    valid=("(case insensitive) [BASE64, NUMERIC]",),
)
_REPLACE_NULLS: Final = ConfigKey(name="replace.null.with.default", type="BOOLEAN", default="true")

_RELEASE: Final = Profile.of("3.9.1")
"""Kafka release whose JSON rules apply when the converter reads, with any `--release`.

Each release of Kafka has a version of the parser Jackson, and the versions differ in details.
"""

_NO_ENVELOPE: Final = (
    'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain '
    "additional fields. If you are trying to deserialize plain JSON data, set schemas.enable=false "
    "in your converter configuration."
)


_NOT_READ: Final = "Converting byte[] to Kafka Connect data failed due to serialization error: "
_NOT_WRITTEN: Final = "Converting Kafka Connect data to byte[] failed due to serialization error: "


class JsonConverter(PlainConverter):
    """JSON, byte for byte as Kafka's JsonConverter writes it.

        converter = JsonConverter()
        converter.configure({"schemas.enable": "false"}, is_key=False)
        converter.from_connect("orders", SchemaAndValue({"id": 7}))  # b'{"id":7}'

    The entries of a dict keep their order. A Java worker reads them into a HashMap, and writes
    them in the HashMap's order. Without a schema an `int` is an INT64 and a `float` a FLOAT64.
    """

    def __init__(self) -> None:
        self.configure({}, is_key=False)

    def configure(self, config: Mapping[str, Any], *, is_key: bool) -> None:  # noqa: ARG002
        """Take the settings `schemas.*`, `decimal.format` and `replace.null.with.default`.

        Raises:
            ConnectError: a setting is invalid.
        """
        replace_nulls = setting(config, _REPLACE_NULLS) is True
        decimals = str(setting(config, _DECIMALS)).upper()
        size = setting(config, _CACHE_SIZE)
        assert isinstance(size, int)
        self._has_schemas = setting(config, _SCHEMAS_ENABLE) is True
        self._reader = JsonReader(replace_nulls=replace_nulls)
        self._writer = JsonWriter(plain_decimals=decimals == "NUMERIC", replace_nulls=replace_nulls)
        self._written_schemas = _SchemaCache[Schema, bytes](size)
        self._read_schemas = _SchemaCache[bytes, Schema](size)

    def encode(self, datum: SchemaAndValue) -> bytes | None:
        """The JSON of a value; None for null without a schema.

        Raises:
            DataError: the value does not fit its schema, Connect has no type for it, or it is
                nested too deeply.
        """
        if datum.value is None and datum.schema is None:
            return None
        try:
            schema = self._schema_json(datum.schema) if self._has_schemas else b""
            payload = json_codec.encode(self._writer.value(datum.schema, datum.value))
        except RecursionError as error:
            raise DataError(_NOT_WRITTEN) from error
        except UntypedValue as untyped:
            raise DataError(f"{untyped}{untyped.advice(datum.value)}") from None
        return b'{"schema":%b,"payload":%b}' % (schema, payload) if schema else payload

    def _schema_json(self, schema: Schema | None) -> bytes:
        if schema is None:
            return b"null"
        written = self._written_schemas.get(schema)
        if written is None:
            written = json_codec.encode(self._writer.schema(schema))
            self._written_schemas.put(schema, written)
        return written

    def decode(self, value: bytes | None) -> SchemaAndValue:
        """The value of a document, with the schema in it.

        Raises:
            DataError: the bytes are not JSON, lack expected fields, or are nested too deeply.
        """
        if value is None:
            return SchemaAndValue(None)
        try:
            return self._with_schema(value) if self._has_schemas else _without_schema(value)
        except (Undecodable, StackOverflow, RecursionError) as error:
            raise DataError(_NOT_READ) from error

    def _with_schema(self, value: bytes) -> SchemaAndValue:
        """The value of a document with `schema` and `payload`; equal schemas are read once."""
        parts = decode_envelope(value)
        if parts is None:
            tree = decode_tree(value, _RELEASE)
            if not isinstance(tree, dict) or tree.keys() != {"schema", "payload"}:
                raise DataError(_NO_ENVELOPE)
            return self._typed(self._reader.schema(tree["schema"]), tree["payload"])
        written, payload = parts
        tree = decode_tree(payload, _RELEASE)  # Kafka parses all before it reads the schema
        schema = self._read_schemas.get(written)
        if schema is None:
            schema = self._reader.schema(decode_tree(written, _RELEASE))
            if schema is not None:
                self._read_schemas.put(written, schema)
        return self._typed(schema, tree)

    def _typed(self, schema: Schema | None, tree: Any) -> SchemaAndValue:
        if schema is None:
            return SchemaAndValue(schemaless(tree))
        return SchemaAndValue(self._reader.value(schema, tree), schema)


def _without_schema(value: bytes) -> SchemaAndValue:
    return SchemaAndValue(json_codec.decode(value, _RELEASE))


_Key = TypeVar("_Key")
_Item = TypeVar("_Item")


class _SchemaCache(Generic[_Key, _Item]):
    """Cache of conversions of schemas, with at most `size` of them.

    A full cache evicts the least recently used one. Uses before the cache was full do not count.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._items: dict[_Key, _Item] = {}

    def get(self, key: _Key) -> _Item | None:
        """The conversion of a schema; None: not in the cache."""
        item = self._items.get(key)
        # Only a full cache evicts: until then, the order of use is not kept.
        if item is not None and len(self._items) == self._size:
            self._items[key] = self._items.pop(key)
        return item

    def put(self, key: _Key, item: _Item) -> None:
        """Keep the conversion of a schema; a full cache evicts another one."""
        self._items[key] = item
        if len(self._items) > self._size:
            del self._items[next(iter(self._items))]
