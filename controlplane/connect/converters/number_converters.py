"""Kafka's converters of single numbers, booleans and bytes."""

import struct
from typing import ClassVar

from controlplane.connect.converters.plain_converter import PlainConverter
from controlplane.connect.data import (
    OPTIONAL_BOOLEAN,
    OPTIONAL_BYTES,
    OPTIONAL_FLOAT32,
    OPTIONAL_FLOAT64,
    OPTIONAL_INT16,
    OPTIONAL_INT32,
    OPTIONAL_INT64,
    Schema,
    SchemaAndValue,
    SchemaType,
)
from controlplane.connect.data.schema import has_class
from controlplane.connect.data.schema_type import java_class
from controlplane.connect.errors import DataError
from controlplane.core.java.big_decimals import narrowed


class _NumberConverter(PlainConverter):
    """A number in big-endian bytes (`NumberConverter`). The schema of a value is ignored.

    Messages end with `: `, as Kafka's do.
    """

    _schema: ClassVar[Schema]
    _kind: ClassVar[str]
    _layout: ClassVar[struct.Struct]

    def encode(self, datum: SchemaAndValue) -> bytes | None:
        """The big-endian bytes of a number; None for null.

        Raises:
            DataError: the value is not a number of this type.
        """
        value = datum.value
        if value is None:
            return None
        if not has_class(self._schema, value):
            raise DataError(f"Failed to serialize to {self._kind} (was {java_class(value)}): ")
        if self._schema.type is SchemaType.FLOAT32:
            value = narrowed(float(value))
        return self._layout.pack(value)

    def decode(self, value: bytes | None) -> SchemaAndValue:
        """Decode big-endian bytes to a number, with an optional schema. None decodes to null.

        Raises:
            DataError: the type has another size than the bytes.
        """
        if value is None:
            return SchemaAndValue(None, self._schema)
        if len(value) != self._layout.size:
            raise DataError(f"Failed to deserialize {self._kind}: ")
        return SchemaAndValue(self._layout.unpack(value)[0], self._schema)


class ShortConverter(_NumberConverter):
    """Integers of two bytes, big-endian (INT16)."""

    _schema, _kind, _layout = OPTIONAL_INT16, "short", struct.Struct(">h")


class IntegerConverter(_NumberConverter):
    """Integers of four bytes, big-endian (INT32)."""

    _schema, _kind, _layout = OPTIONAL_INT32, "integer", struct.Struct(">i")


class LongConverter(_NumberConverter):
    """Integers of eight bytes, big-endian (INT64)."""

    _schema, _kind, _layout = OPTIONAL_INT64, "long", struct.Struct(">q")


class FloatConverter(_NumberConverter):
    """Floats of four bytes, big-endian (FLOAT32)."""

    _schema, _kind, _layout = OPTIONAL_FLOAT32, "float", struct.Struct(">f")


class DoubleConverter(_NumberConverter):
    """Floats of eight bytes, big-endian (FLOAT64)."""

    _schema, _kind, _layout = OPTIONAL_FLOAT64, "double", struct.Struct(">d")


class BooleanConverter(PlainConverter):
    """Booleans of one byte, 0 or 1 (BOOLEAN)."""

    def encode(self, datum: SchemaAndValue) -> bytes | None:
        """The byte of a boolean, 0 or 1; None for null.

        Raises:
            DataError: the value is not a boolean, or the schema is not BOOLEAN.
        """
        value, schema = datum
        if schema is not None and schema.type is not SchemaType.BOOLEAN:
            raise DataError(f"Invalid schema type for BooleanConverter: {schema.type}")
        if value is None:
            return None
        if not isinstance(value, bool):
            raise DataError(
                f"BooleanConverter is not compatible with objects of type {java_class(value)}"
            )
        return b"\x01" if value else b"\x00"

    def decode(self, value: bytes | None) -> SchemaAndValue:
        """The boolean of a byte, with the schema OPTIONAL_BOOLEAN. None decodes to null.

        Raises:
            DataError: the bytes are not the one byte 0 or 1.
        """
        if value not in {None, b"\x00", b"\x01"}:
            raise DataError("Failed to deserialize boolean: ")
        return SchemaAndValue(None if value is None else value == b"\x01", OPTIONAL_BOOLEAN)


class ByteArrayConverter(PlainConverter):
    """Bytes, unchanged in both directions (BYTES)."""

    def encode(self, datum: SchemaAndValue) -> bytes | None:
        """The value as `bytes`; None for null.

        Raises:
            DataError: the value is not bytes, or the schema is not BYTES.
        """
        value, schema = datum
        if schema is not None and schema.type is not SchemaType.BYTES:
            raise DataError(f"Invalid schema type for ByteArrayConverter: {schema.type}")
        if value is not None and not isinstance(value, bytes | bytearray | memoryview):
            raise DataError(
                f"ByteArrayConverter is not compatible with objects of type {java_class(value)}"
            )
        return None if value is None else bytes(value)

    def decode(self, value: bytes | None) -> SchemaAndValue:
        """The bytes, with the schema OPTIONAL_BYTES."""
        return SchemaAndValue(value, OPTIONAL_BYTES)
