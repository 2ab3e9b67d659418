"""Converters of strings, numbers, booleans, bytes and headers, and their names."""

from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane.connect.converters import (
    Converter,
    SimpleHeaderConverter,
    StringConverter,
    converter_for,
    header_converter_for,
)
from controlplane.connect.data import (
    BYTES,
    FLOAT32,
    INT8,
    OPTIONAL_BOOLEAN,
    OPTIONAL_BYTES,
    OPTIONAL_FLOAT32,
    OPTIONAL_FLOAT64,
    OPTIONAL_INT16,
    OPTIONAL_INT32,
    OPTIONAL_INT64,
    OPTIONAL_STRING,
    STRING,
    Schema,
    SchemaAndValue,
    Struct,
)
from controlplane.connect.errors import ConnectError, DataError

PACKAGE = "org.apache.kafka.connect"
ITEM = Schema.struct("Item", a=INT8, b=FLOAT32.optional())


def configured(name: str, **settings: str) -> Converter:
    """Converter with settings; `_` stands for a dot."""
    converter = converter_for(name)
    config = {setting.replace("_", "."): text for setting, text in settings.items()}
    converter.configure(config, is_key=True)
    return converter


@pytest.mark.parametrize(
    ("name", "value", "raw", "schema"),
    [
        ("Short", -2, b"\xff\xfe", OPTIONAL_INT16),
        ("Integer", 1, b"\0\0\0\x01", OPTIONAL_INT32),
        ("Long", 2**40, b"\0\0\x01\0\0\0\0\0", OPTIONAL_INT64),
        ("Float", 0.5, b"\x3f\0\0\0", OPTIONAL_FLOAT32),
        ("Double", -2.0, b"\xc0\0\0\0\0\0\0\0", OPTIONAL_FLOAT64),
        ("Boolean", True, b"\x01", OPTIONAL_BOOLEAN),
        ("ByteArray", b"a", b"a", OPTIONAL_BYTES),
        ("String", "é", b"\xc3\xa9", OPTIONAL_STRING),
        ("Long", None, None, OPTIONAL_INT64),
        ("Boolean", None, None, OPTIONAL_BOOLEAN),
        ("ByteArray", None, None, OPTIONAL_BYTES),
        ("String", None, None, OPTIONAL_STRING),
    ],
)
def test_single_values_go_both_ways(
    name: str, value: Any, raw: bytes | None, schema: Schema
) -> None:
    """Each converter handles record values and header values."""
    converter = configured(name)
    assert converter.from_connect("t", SchemaAndValue(value)) == raw
    assert converter.to_connect("t", raw) == SchemaAndValue(value, schema)
    headers = header_converter_for(name)
    assert headers.from_header("t", "h", SchemaAndValue(value)) == raw
    assert headers.to_header("t", "h", raw) == SchemaAndValue(value, schema)


@pytest.mark.parametrize(
    ("name", "value", "schema", "message"),
    [
        ("Short", 2**15, None, "Failed to serialize to short (was class java.lang.Long): "),
        ("Long", "1", None, "Failed to serialize to long (was class java.lang.String): "),
        ("Double", True, None, "Failed to serialize to double (was class java.lang.Boolean): "),
        ("Boolean", 1, None, "BooleanConverter is not compatible with objects of type class"),
        ("Boolean", True, STRING, "Invalid schema type for BooleanConverter: STRING"),
        ("ByteArray", "a", None, "ByteArrayConverter is not compatible with objects of type"),
        ("ByteArray", b"a", STRING, "Invalid schema type for ByteArrayConverter: STRING"),
        ("String", [b"a"], None, "Bytes have no text"),
    ],
)
def test_other_values_are_refused(
    name: str, value: Any, schema: Schema | None, message: str
) -> None:
    """A value of another type raises Kafka's error; bytes as text raise our own."""
    with pytest.raises(DataError) as caught:
        configured(name).from_connect("t", SchemaAndValue(value, schema))
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("name", "raw"),
    [("Short", b"\0"), ("Long", b""), ("Float", b"12345"), ("Boolean", b"\x02"), ("Boolean", b"")],
)
def test_other_bytes_are_refused(name: str, raw: bytes) -> None:
    """Bytes of another length or value raise Kafka's error."""
    with pytest.raises(DataError) as caught:
        configured(name).to_connect("t", raw)
    assert str(caught.value) == f"Failed to deserialize {name.lower()}: "


@pytest.mark.parametrize(
    ("value", "schema", "text"),
    [
        (1e10, None, "1.0E10"),
        (0.1, FLOAT32, "0.1"),
        (5, FLOAT32, "5.0"),
        ({"a": [1, None, True]}, None, "{a=[1, null, true]}"),
        (Struct(ITEM, a=1), ITEM, "Struct{a=1}"),
        (Struct(ITEM, a=1, b=0.25), ITEM, "Struct{a=1,b=0.25}"),
        (datetime(2024, 2, 29, 1, 2, 3, tzinfo=UTC), None, "Thu Feb 29 01:02:03 UTC 2024"),
        (datetime(1500, 1, 1, tzinfo=UTC), None, "Mon Dec 23 00:00:00 UTC 1499"),
    ],
)
def test_other_values_have_javas_text(value: Any, schema: Schema | None, text: str) -> None:
    """Values have the text of Java's `toString`; days before 1582 are Julian."""
    assert StringConverter().from_connect("t", SchemaAndValue(value, schema)) == text.encode()


@pytest.mark.parametrize(
    ("encoding", "text", "raw", "read"),
    [
        ("ISO-8859-1", "é\u20ac", b"\xe9?", "é?"),
        ("US-ASCII", "é", b"?", "?"),
        ("UTF-16", "a", b"\xfe\xff\0a", "a"),
        ("UTF-16", "", b"", ""),
        ("UTF-16LE", "a", b"a\0", "a"),
        ("UTF-32", "a", b"\0\0\0a", "a"),
        ("UTF-32", "", b"", ""),
        ("UTF-8", "\ud800", b"?", "?"),
    ],
)
def test_text_has_a_character_set(encoding: str, text: str, raw: bytes, read: str) -> None:
    """`converter.encoding` sets the character set; missing characters become question marks."""
    converter = configured("String", converter_encoding=encoding)
    assert converter.from_connect("t", SchemaAndValue(text)) == raw
    assert converter.to_connect("t", raw).value == read


@pytest.mark.parametrize(
    ("encoding", "raw"),
    [
        ("UTF-16", b"\xfe\xff\0a"),
        ("UTF-16", b"\xff\xfea\0"),
        ("UTF-16", b"\0a"),
        ("UTF-32", b"\0\0\xfe\xff\0\0\0a"),
        ("UTF-32", b"\xff\xfe\0\0a\0\0\0"),
        ("UTF-32", b"\0\0\0a"),
    ],
)
def test_a_mark_decides_the_byte_order(encoding: str, raw: bytes) -> None:
    """Bytes without a byte-order mark are in big-endian order, as in Java."""
    converter = configured("String", converter_encoding=encoding)
    assert converter.to_connect("t", raw).value == "a"


@pytest.mark.parametrize("encoding", ["klingon", "hex", "rot13", "utf-7", "a\0b", "\ud800"])
def test_an_unknown_character_set_is_refused(encoding: str) -> None:
    """The converter refuses it before the first conversion, also if Python has such a codec."""
    with pytest.raises(ConnectError, match=f"Unsupported encoding {encoding}"):
        configured("String", converter_encoding=encoding)


def test_deep_values_have_a_text() -> None:
    """Jackson reads JSON that is nested 1,000 deep, and Java writes its text."""
    value: Any = 1
    for _ in range(500):
        value = [{"a": value}]
    text = StringConverter().encode(SchemaAndValue(value))
    assert text == b"[{a=" * 500 + b"1" + b"}]" * 500


def test_simple_headers_keep_bytes_that_they_cannot_read() -> None:
    """A text that overflows Kafka's stack stays bytes, with the schema BYTES, as in Kafka."""
    simple = SimpleHeaderConverter()
    deep = b"[" * 100_000
    assert simple.to_header("t", "h", deep) == SchemaAndValue(deep, BYTES)
    assert simple.to_header("t", "h", b"null") == SchemaAndValue(None)
    assert simple.to_header("t", "h", b"7") == SchemaAndValue(7, INT8)
    assert simple.from_header("t", "h", SchemaAndValue("\ud800")) == b"?"
    assert simple.from_header("t", "h", SchemaAndValue(None)) is None


@pytest.mark.parametrize(
    ("name", "class_name"),
    [
        (f"{PACKAGE}.json.JsonConverter", "JsonConverter"),
        ("JsonConverter", "JsonConverter"),
        ("Json", "JsonConverter"),
        (f"{PACKAGE}.storage.StringConverter", "StringConverter"),
        (f"{PACKAGE}.converters.ByteArrayConverter", "ByteArrayConverter"),
    ],
)
def test_converters_have_kafkas_names(name: str, class_name: str) -> None:
    """The class name or an alias selects a converter; each call makes a new one."""
    converter = converter_for(name)
    assert type(converter).__name__ == class_name
    assert converter is not converter_for(name)
    assert type(header_converter_for(name)).__name__ == class_name


def test_simple_headers_convert_no_values() -> None:
    """SimpleHeaderConverter is refused for values; an unknown class is named."""
    assert isinstance(header_converter_for("Simple"), SimpleHeaderConverter)
    with pytest.raises(ConnectError, match=r"^Class Simple could not be found\.$"):
        converter_for("Simple")
