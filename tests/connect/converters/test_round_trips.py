"""Laws of converters: written values are read back, and read values are valid."""

import datetime as dt
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controlplane.connect.converters import JsonConverter, converter_for
from controlplane.connect.data import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    TIME,
    TIMESTAMP,
    Schema,
    SchemaAndValue,
    SchemaType,
    Struct,
    project,
    validate,
)
from controlplane.connect.data.schema import frozen
from controlplane.connect.data.schema_type import BITS
from controlplane.connect.errors import DataError
from controlplane.core.java.big_decimals import decimal_of

_PRIMITIVE = st.sampled_from(
    [INT8, INT16, INT32, INT64, FLOAT32, FLOAT64, BOOLEAN, STRING, BYTES, DATE, TIME, TIMESTAMP]
)
_DECIMAL = st.integers(-3, 20).map(Schema.decimal)
_NAMES = st.text(min_size=1, max_size=4)


def _composite(members: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    return st.one_of(
        members.map(Schema.array),
        members.map(lambda member: Schema.map(STRING, member)),
        members.map(lambda member: Schema.map(INT32, member)),
        st.dictionaries(_NAMES, members, max_size=3).map(lambda fields: Schema.struct("S", fields)),
        members.map(lambda member: member.optional()),
    )


SCHEMAS = st.recursive(_PRIMITIVE | _DECIMAL, _composite, max_leaves=6)


def _values(schema: Schema) -> st.SearchStrategy[Any]:
    return st.none() | _present(schema) if schema.is_optional else _present(schema)


def _present(schema: Schema) -> st.SearchStrategy[Any]:
    if schema.name and "Decimal" in schema.name:
        scale = int((schema.parameters or {})["scale"])
        return st.integers(-(10**30), 10**30).map(lambda number: decimal_of(number, scale))
    if schema.name and schema.name.endswith(("Date", "Time", "Timestamp")):
        return _moments(schema)
    match schema.type:
        case SchemaType.STRUCT:
            fields = {field.name: _values(field.schema) for field in schema.fields}
            return st.fixed_dictionaries(fields).map(lambda values: Struct(schema, values))
        case SchemaType.ARRAY:
            return st.lists(_values(schema.value or INT8), max_size=3)
        case SchemaType.MAP:
            keys, members = schema.key or INT8, schema.value or INT8
            return st.dictionaries(_present(keys), _values(members), max_size=3)
        case kind if kind in BITS:
            return st.integers(-(1 << BITS[kind] - 1), (1 << BITS[kind] - 1) - 1)
        case kind:
            return _PLAIN[kind]


_PLAIN = {
    SchemaType.FLOAT32: st.floats(width=32, allow_nan=False, allow_infinity=False),
    SchemaType.FLOAT64: st.floats(allow_nan=False, allow_infinity=False),
    SchemaType.BOOLEAN: st.booleans(),
    SchemaType.STRING: st.text(),
    SchemaType.BYTES: st.binary(max_size=10),
}


def _moments(schema: Schema) -> st.SearchStrategy[Any]:
    whole = st.integers(0, 999).map(lambda count: count * 1000)
    if schema == DATE or schema.name == DATE.name:
        return st.dates()
    if schema.name == TIME.name:
        return st.builds(lambda time, part: time.replace(microsecond=part), st.times(), whole)
    moments = st.datetimes(timezones=st.just(dt.UTC))
    return st.builds(lambda moment, part: moment.replace(microsecond=part), moments, whole)


TYPED = SCHEMAS.flatmap(lambda schema: st.tuples(st.just(schema), _values(schema)))


def _without_negative_zeros(value: Any) -> Any:
    """Jackson reads -0.0 as 0.0, because it reads numbers as decimals."""
    if isinstance(value, float):
        return value + 0.0
    if isinstance(value, Struct):
        named = {name: _without_negative_zeros(value[name]) for name in value}
        return Struct(value.schema, named)
    if isinstance(value, list):
        return [_without_negative_zeros(element) for element in value]
    if isinstance(value, dict):
        return {key: _without_negative_zeros(member) for key, member in value.items()}
    return value


@given(TYPED, st.sampled_from(["BASE64", "NUMERIC"]))
def test_json_keeps_values_and_schemas(typed: tuple[Schema, Any], decimals: str) -> None:
    """A value with its schema is read back equal, and fits the schema."""
    schema, value = typed
    converter = JsonConverter()
    converter.configure({"decimal.format": decimals}, is_key=False)
    validate(schema, value)
    written = converter.from_connect("t", SchemaAndValue(value, schema))
    read = converter.to_connect("t", written)
    assert read.schema == schema
    assert frozen(read.value) == frozen(_without_negative_zeros(value))
    validate(schema, read.value)


@given(TYPED)
def test_a_value_projected_onto_its_schema_stays(typed: tuple[Schema, Any]) -> None:
    """Each schema is compatible with itself."""
    schema, value = typed
    assert frozen(project(schema, value, schema)) == frozen(value)


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False).map(lambda number: number + 0.0)
    | st.text(),
    lambda members: st.lists(members, max_size=3) | st.dictionaries(st.text(), members, max_size=3),
    max_leaves=10,
)


@given(_JSON)
def test_plain_json_comes_back(value: Any) -> None:
    """A value without a schema is read back equal, with its order of keys."""
    for enable in ("true", "false"):
        converter = JsonConverter()
        converter.configure({"schemas.enable": enable}, is_key=False)
        written = converter.from_connect("t", SchemaAndValue(value))
        assert converter.to_connect("t", written) == SchemaAndValue(value)
        assert repr(converter.to_connect("t", written).value) == repr(value)


@given(st.sampled_from(["Json", "String", "Boolean", "Short", "Double", "ByteArray"]), st.binary())
def test_any_bytes_give_valid_values_or_are_refused(name: str, raw: bytes) -> None:
    """A converter raises no error except DataError."""
    converter = converter_for(name)
    try:
        read = converter.to_connect("t", raw)
    except DataError:
        return
    if read.schema is not None:
        validate(read.schema, read.value)
