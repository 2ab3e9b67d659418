"""JsonConverter: values that it writes, reads and refuses."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from controlplane.connect.converters import JsonConverter
from controlplane.connect.data import (
    BYTES,
    DATE,
    FLOAT32,
    FLOAT64,
    INT8,
    INT32,
    INT64,
    OPTIONAL_STRING,
    STRING,
    TIMESTAMP,
    Schema,
    SchemaAndValue,
    Struct,
)
from controlplane.connect.errors import ConnectError, DataError

MAP_DOCUMENT = (
    b'{"schema":{"type":"map","keys":{"type":"string"},"values":{"type":"int8"}},"payload":[]}'
)
ORDER = Schema.struct("Order", id=INT64, note=STRING.optional("none")).replace(version=2)


def converter(**settings: Any) -> JsonConverter:
    """Converter with these settings; `_` stands for a dot."""
    made = JsonConverter()
    config = {name.replace("_", "."): value for name, value in settings.items()}
    made.configure(config, is_key=False)
    return made


def plain(value: Any, schema: Schema | None = None, **settings: Any) -> bytes | None:
    """JSON of a value, written without its schema."""
    datum = SchemaAndValue(value, schema)
    return converter(schemas_enable=False, **settings).from_connect("t", datum)


def read(schema: dict[str, Any], payload: str, **settings: Any) -> Any:
    """Value of a document with a schema."""
    document = f'{{"schema":{json.dumps(schema)},"payload":{payload}}}'.encode()
    return converter(**settings).to_connect("t", document).value


def test_a_schema_is_written_with_its_value() -> None:
    """The bytes are Kafka's; schema and value are read back."""
    written = converter().from_connect("t", SchemaAndValue(Struct(ORDER, id=7), ORDER))
    assert written == (
        b'{"schema":{"type":"struct","fields":[{"type":"int64","optional":false,"field":"id"},'
        b'{"type":"string","optional":true,"default":"none","field":"note"}],"optional":false,'
        b'"name":"Order","version":2},"payload":{"id":7,"note":"none"}}'
    )
    expected = Struct(ORDER, id=7, note="none")
    assert converter().to_connect("t", written) == SchemaAndValue(expected, ORDER)


def test_a_value_without_a_schema_has_none_in_its_envelope() -> None:
    """Integers are read back with 64 bits, other numbers as doubles."""
    written = converter().from_connect("t", SchemaAndValue({"a": 1}))
    assert written == b'{"schema":null,"payload":{"a":1}}'
    document = b'{"payload":[1.50,18446744073709551617],"schema":null}'
    assert converter().to_connect("t", document) == SchemaAndValue([1.5, 1])


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({"b": 1, "a": [None, True, "é\u0001"]}, '{"b":1,"a":[null,true,"é\\u0001"]}'),
        (1e10, "1.0E10"),
        (float("nan"), '"NaN"'),
        (b"\x01\x02\x03", '"AQID"'),
        ({1: "a", "b": 2}, '[[1,"a"],["b",2]]'),
        (("a", "\U0001f600"), '["a","\\uD83D\\uDE00"]'),
        ({}, "{}"),
    ],
)
def test_python_values_need_no_schema(value: Any, written: str) -> None:
    """Dicts keep their order; a dict with keys that are no strings becomes a list of pairs."""
    assert plain(value) == written.encode()


def test_null_is_no_bytes_without_a_schema_and_null_with_one() -> None:
    """Null without a schema is a tombstone, as in Kafka; with a schema it is the JSON `null`."""
    assert plain(None) is None
    assert plain(None, OPTIONAL_STRING) == b"null"
    assert converter().from_connect("t", SchemaAndValue(None)) is None
    assert converter().to_connect("t", None) == SchemaAndValue(None)


@pytest.mark.parametrize(
    ("schema", "value", "written"),
    [
        (FLOAT32, 0.1, b"0.1"),
        (FLOAT64, 1, b"1.0"),
        (DATE, date(1970, 1, 11), b"10"),
        (TIMESTAMP, datetime(1970, 1, 1, 0, 0, 1, 1999, tzinfo=UTC), b"1001"),
        (Schema.decimal(2), Decimal("-1.28"), b'"gA=="'),
        (Schema.map(INT8, STRING), {1: "a"}, b'[[1,"a"]]'),
        (Schema.map(STRING, INT8), {"a": 1}, b'{"a":1}'),
        (BYTES, bytearray(b"\xff"), b'"/w=="'),
    ],
)
def test_schemas_say_how_values_are_written(schema: Schema, value: Any, written: bytes) -> None:
    """Logical types are written as numbers, decimals as bytes."""
    assert plain(value, schema) == written


def test_decimals_can_be_numbers() -> None:
    """`decimal.format`, in upper or lower case, keeps all digits in both directions."""
    decimal = Decimal("1.50")
    assert plain(decimal, Schema.decimal(2), decimal_format="numeric") == b"1.50"
    described = {"type": "bytes", "name": Schema.decimal(2).name, "parameters": {"scale": "2"}}
    assert str(read(described, "1.50")) == "1.50"
    assert read(described, '"AJY="') == decimal


def test_nulls_become_defaults_or_stay() -> None:
    """`replace.null.with.default` applies to reads and to writes."""
    schema = STRING.optional("d")
    described = {"type": "string", "optional": True, "default": "d"}
    assert plain(None, schema) == b'"d"'
    assert plain(None, schema, replace_null_with_default="false") == b"null"
    assert read(described, "null") == "d"
    assert read(described, "null", replace_null_with_default="false") is None


@pytest.mark.parametrize(
    ("described", "payload", "value"),
    [
        ({"type": "int32"}, '"7"', 0),
        ({"type": "int8"}, "300", 44),
        ({"type": "int32"}, "-1.9", -1),
        ({"type": "boolean"}, "1", False),
        ({"type": "array", "items": {"type": "int8"}}, '{"a":1}', [1]),
        ({"type": "float"}, "0.1", 0.10000000149011612),
        ({"type": "bytes"}, '" AQID AQ== "', b"\x01\x02\x03\x01"),
    ],
)
def test_reading_is_as_lenient_as_kafkas(described: Any, payload: str, value: Any) -> None:
    """A payload of another JSON type is converted as by Jackson."""
    assert read(described, payload) == value


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (b"{", "Converting byte[] to Kafka Connect data failed due to serialization error: "),
        (
            b'{"schema":1,"payload":"\xc3"}',
            "Converting byte[] to Kafka Connect data failed due to serialization error: ",
        ),
        (b"1", 'JsonConverter with schemas.enable requires "schema" and "payload" fields'),
        (b"", 'JsonConverter with schemas.enable requires "schema" and "payload" fields'),
        (b'{"schema":{},"payload":1}', "Schema must contain 'type' field"),
        (b'{"schema":{"type":"x"},"payload":1}', "Unknown schema type: x"),
        (b'{"schema":{"type":"int8"},"payload":null}', "Invalid null value for required INT8"),
        (b'{"schema":{"type":"array"},"payload":[]}', "Array schema did not specify the element"),
        (
            MAP_DOCUMENT,
            "Maps with string fields should be encoded as JSON objects, but found ARRAY",
        ),
    ],
)
def test_bad_documents_are_refused(document: bytes, message: str) -> None:
    """A bad document raises Kafka's error."""
    with pytest.raises(DataError) as caught:
        converter().to_connect("t", document)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("value", "schema", "message"),
    [
        ("x", INT32, "Invalid type for INT32: class java.lang.String"),
        (300, INT8, "Invalid type for INT8: class java.lang.Long"),
        (None, INT8, "Conversion error: null value for field that is required"),
        ({1}, None, "Python class builtins.set does not have corresponding schema type."),
        (2**63, None, "Java class class java.math.BigInteger does not have corresponding"),
        (5, DATE, "Invalid type for Date, expected Date but was class java.lang.Long"),
        (Decimal("1.5"), Schema.decimal(2), "Decimal value has mismatching scale"),
        (Struct(ORDER, id=1), ORDER.optional(), "Mismatching schema."),
        (
            datetime(2024, 1, 1, 1, tzinfo=UTC),
            DATE,
            "Kafka Connect Date type should not have any time fields set to non-zero values.",
        ),
    ],
)
def test_bad_values_are_refused(value: Any, schema: Schema | None, message: str) -> None:
    """A bad value raises Kafka's error."""
    with pytest.raises(DataError) as caught:
        converter().from_connect("t", SchemaAndValue(value, schema))
    assert str(caught.value).startswith(message)


@dataclass(frozen=True)
class Residence:
    """Value that is neither a dict nor a `Struct`."""

    town: str


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (frozenset({1}), "Python class builtins.frozenset"),
        (UUID(int=1), "Python class uuid.UUID"),
        (Residence("Ulm"), f"Python class {__name__}.Residence"),
        (Decimal("1.5"), "Java class class java.math.BigDecimal"),
        (datetime(2024, 1, 1, tzinfo=UTC), "Java class class java.util.Date"),
    ],
)
@pytest.mark.parametrize(
    ("container", "place"),
    [
        (lambda value: value, ""),
        (lambda value: {value: 1}, ""),
        (lambda value: {"a": value}, " It is in the field a."),
        (lambda value: {"n": {}, "o": [None, {"a": 1, "b": value}]}, " It is in the field o[1].b."),
        (lambda value: [[value]], " It is in the field [0][0]."),
    ],
    ids=["alone", "key", "member", "nested", "list"],
)
def test_a_value_without_a_schema_type_is_named_with_its_field(
    container: Callable[[Any], Any], place: str, value: Any, name: str
) -> None:
    """Kafka's words name the class; then come the field and the advice to give a schema."""
    with pytest.raises(DataError) as caught:
        converter().from_connect("t", SchemaAndValue(container(value)))
    assert type(caught.value) is DataError
    assert str(caught.value) == (
        f"{name} does not have corresponding schema type.{place} Convert it to a text, number, "
        "list or dict, or give the record a schema (value_schema=, key_schema=)."
    )


def test_a_value_within_itself_is_refused() -> None:
    """A list that contains itself raises a `DataError`; the stack does not overflow."""
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(DataError, match="failed due to serialization error"):
        plain(endless)


def test_the_size_of_the_schema_cache_changes_no_answer() -> None:
    """`schemas.cache.size` changes no answer, 0 included."""
    schemas = [STRING.replace(version=version) for version in range(4)] * 2
    for size in ("0", "1", "3", "1000"):
        small = converter(schemas_cache_size=size)
        for schema in schemas:
            written = small.from_connect("t", SchemaAndValue("x", schema))
            assert small.to_connect("t", written) == SchemaAndValue("x", schema)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("schemas.enable", "yes", "Expected value to be either true or false"),
        ("schemas.cache.size", "many", "Not a number of type INT"),
        ("decimal.format", "HEX", "String must be one of (case insensitive): BASE64, NUMERIC"),
    ],
)
def test_bad_settings_are_refused(name: str, value: str, why: str) -> None:
    """A bad setting raises Kafka's error."""
    with pytest.raises(ConnectError) as caught:
        JsonConverter().configure({name: value}, is_key=True)
    assert str(caught.value) == f"Invalid value {value} for configuration {name}: {why}"
