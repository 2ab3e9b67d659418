"""Schemas and structs of Connect's data model (`ConnectSchema`, `Struct`)."""

import datetime as dt
import math
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from typing import Any, ClassVar, Final, NamedTuple

from controlplane.connect.data.schema_type import (
    BITS,
    DATE_NAME,
    DECIMAL_NAME,
    TIME_NAME,
    TIMESTAMP_NAME,
    SchemaType,
    java_class,
)
from controlplane.connect.errors import DataError
from controlplane.core.java.java_library import fits
from controlplane.core.java.json_values import is_integer


@dataclass(frozen=True)
class Field:
    """A field of a struct; `index` is its place, from 0."""

    name: str
    index: int
    schema: "Schema"


@dataclass(frozen=True, eq=False, repr=False)
class Schema:
    """The description of a value. Schemas are immutable and compare by their content.

    Usually a schema is made from the predefined ones:

        from controlplane.connect.data import INT64, STRING, TIMESTAMP, Schema

        ORDER = Schema.struct(
            "Order",
            id=INT64,
            note=STRING.optional(),
            state=STRING.optional("new"),
            tags=Schema.array(STRING),
            at=TIMESTAMP,
        )

    Raises:
        DataError: the default value is invalid, or a field's name is empty or not unique.
    """

    type: SchemaType
    is_optional: bool = False
    default: Any = None
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: Mapping[str, str] | None = None
    fields: tuple[Field, ...] = ()
    """The fields of a struct, in their order."""
    key: "Schema | None" = None
    """The schema of a map's keys."""
    value: "Schema | None" = None
    """The schema of an array's elements or of a map's values."""

    def __post_init__(self) -> None:
        # The copy keeps the cached hash valid if the caller changes its mapping later.
        object.__setattr__(self, "parameters", dict(self.parameters or {}) or None)
        for field in self.fields:
            if not field.name:
                raise DataError("fieldName cannot be null.")
            if self._by_name[field.name] is not field:
                raise DataError(
                    f"Cannot create field because of field name duplication {field.name}"
                )
        if self.default is not None:
            try:
                validate(self, self.default)
            except DataError as error:
                raise DataError("Invalid default value") from error

    @classmethod
    def struct(
        cls,
        name: str | None = None,
        fields: Mapping[str, "Schema"] | None = None,
        /,
        **named: "Schema",
    ) -> "Schema":
        """A struct with these fields, in this order.

        Fields whose names are no Python names come in a mapping:

            Schema.struct("Order", {"order-id": INT64}, note=STRING)
        """
        schemas = {**(fields or {}), **named}
        numbered = enumerate(schemas.items())
        struct_fields = tuple(Field(field, index, schema) for index, (field, schema) in numbered)
        return cls(SchemaType.STRUCT, name=name, fields=struct_fields)

    @classmethod
    def array(cls, value: "Schema") -> "Schema":
        """An array whose elements have this schema."""
        return cls(SchemaType.ARRAY, value=value)

    @classmethod
    def map(cls, key: "Schema", value: "Schema") -> "Schema":
        """A map whose keys and values have these schemas."""
        return cls(SchemaType.MAP, key=key, value=value)

    @classmethod
    def decimal(cls, scale: int) -> "Schema":
        """A decimal number with `scale` digits after the point: `Decimal` in Python."""
        parameters = {"scale": str(scale)}
        return cls(SchemaType.BYTES, name=DECIMAL_NAME, version=1, parameters=parameters)

    def optional(self, default: Any = None) -> "Schema":
        """This schema for values that may be None, perhaps with a default."""
        return replace(self, is_optional=True, default=default)

    def replace(self, **changes: Any) -> "Schema":
        """This schema with other attributes: `STRING.replace(name="Id", version=2, doc="…")`."""
        return replace(self, **changes)

    def field(self, name: str) -> Field | None:
        """The field with this name; None if the struct has no such field.

        Raises:
            DataError: this is not the schema of a struct.
        """
        if self.type is not SchemaType.STRUCT:
            raise DataError("Cannot look up fields on non-struct type")
        return self._by_name.get(name)

    @cached_property
    def _by_name(self) -> Mapping[str, Field]:
        return {field.name: field for field in self.fields}

    @cached_property
    def _identity(self) -> tuple[Any, ...]:
        parameters = None if self.parameters is None else frozenset(self.parameters.items())
        default = frozen(self.default)
        attributes = (self.name, self.version, self.doc, parameters)
        return (
            self.type,
            self.is_optional,
            default,
            *attributes,
            self.fields,
            self.key,
            self.value,
        )

    @cached_property
    def _hash(self) -> int:
        return hash(self._identity)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Schema):
            return NotImplemented
        return self._hash == other._hash and self._identity == other._identity

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return f"Schema{{{self.name}:{self.type}}}" if self.name else f"Schema{{{self.type}}}"

    __repr__ = __str__


class Struct:
    """A record with a schema: each value is validated as it is set.

        order = Struct(ORDER, id=7, tags=["a"], at=datetime.now(UTC))
        order["note"] = "two boxes"
        order["state"]  # "new", the default

    Fields whose names are no Python names come in a mapping: `Struct(ORDER, {"order-id": 7})`.
    A field that has not been set is None, or its default. `validate` checks the required fields;
    `JsonConverter` does so as well.

    Raises:
        DataError: the schema has no such field, or the field cannot have such a value.
    """

    java_name: ClassVar = "org.apache.kafka.connect.data.Struct"

    __slots__ = ("_values", "schema")

    def __init__(
        self, schema: Schema, values: Mapping[str, Any] | None = None, /, **named: Any
    ) -> None:
        if schema.type is not SchemaType.STRUCT:
            raise DataError(f"Not a struct schema: {schema}")
        self.schema = schema
        self._values: list[Any] = [None] * len(schema.fields)
        for name, value in {**(values or {}), **named}.items():
            self[name] = value

    def __getitem__(self, name: str) -> Any:
        field = self._field(name)
        value = self._values[field.index]
        return field.schema.default if value is None else value

    def __setitem__(self, name: str, value: Any) -> None:
        field = self._field(name)
        validate(field.schema, value, name)
        self._values[field.index] = value

    def without_default(self, name: str) -> Any:
        """The value of a field as it was set: None instead of the default."""
        return self._values[self._field(name).index]

    def validate(self) -> None:
        """Check that the required fields are set, and that each value fits its schema.

        Raises:
            DataError: the value of a field does not fit its schema.
        """
        for field, value in zip(self.schema.fields, self._values, strict=True):
            schema = field.schema
            if value is not None or not (schema.is_optional or schema.default is not None):
                validate(schema, value, field.name)

    def to_dict(self) -> dict[str, Any]:
        """The fields as a dict, defaults included; nested structs become dicts as well."""
        return {field.name: _plain(self[field.name]) for field in self.schema.fields}

    def _field(self, name: str) -> Field:
        field = self.schema.field(name)
        if field is None:
            raise DataError(f"{name} is not a valid field name")
        return field

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Struct):
            return NotImplemented
        return self.schema == other.schema and frozen(self._values) == frozen(other._values)

    def __hash__(self) -> int:
        return hash((self.schema, frozen(self._values)))

    def __iter__(self) -> Iterator[str]:
        return (field.name for field in self.schema.fields)

    def __repr__(self) -> str:
        names = (field.name for field in self.schema.fields)
        pairs = zip(names, self._values, strict=True)
        shown = ",".join(f"{name}={value!r}" for name, value in pairs if value is not None)
        return f"Struct{{{shown}}}"


def _plain(value: Any) -> Any:
    if isinstance(value, Struct):
        return value.to_dict()
    if isinstance(value, list | tuple):
        return [_plain(element) for element in value]
    if isinstance(value, dict):
        return {key: _plain(member) for key, member in value.items()}
    return value


def frozen(value: Any) -> Any:
    """A hashable key for a value. Two keys are equal if the values are equal in Java."""
    match value:
        case list() | tuple():
            return ("list", tuple(map(frozen, value)))
        case dict():
            return ("map", frozenset((frozen(key), frozen(part)) for key, part in value.items()))
        case bool():
            return ("boolean", value)
        case float():
            # As in `Double.equals`, NaN equals itself, and 0.0 differs from -0.0.
            return ("double", "NaN" if math.isnan(value) else struct.pack(">d", value))
        case Decimal():
            return value.as_tuple()  # as in `BigDecimal.equals`, 1.0 differs from 1.00
        case bytearray() | memoryview():
            return bytes(value)
        case _:
            return value


# --- validation -------------------------------------------------------------------------------


def validate(schema: Schema, value: Any, field: str | None = None) -> None:
    """Check that a value fits a schema (`ConnectSchema.validateValue`).

    Args:
        schema: the schema.
        value: the value, None included.
        field: the field that has the value, for the message.

    Raises:
        DataError: the value does not fit (the message is Kafka's), or a datetime has no time zone.
    """
    _validate(schema, value, "value" if field is None else f'field: "{field}"')


def _validate(schema: Schema, value: Any, location: str) -> None:
    """Check a value and its members; `location` names the value in messages."""
    if value is None:
        if not schema.is_optional:
            raise DataError(
                f"Invalid value: null used for required {location}, schema type: {schema.type}"
            )
        return
    if not has_class(schema, value):
        name = "" if schema.name is None else f' "{schema.name}"'
        raise DataError(
            f"Invalid Java object for schema{name} with type {schema.type}: "
            f"{java_class(value)} for {location}"
        )
    match schema.type:
        case SchemaType.STRUCT if isinstance(value, Struct):
            if value.schema != schema:
                raise DataError("Struct schemas do not match.")
            value.validate()
        case SchemaType.ARRAY if isinstance(value, list | tuple):
            elements = _member_schema(
                schema.value, element_location := f"element of array {location}"
            )
            for member in value:
                _validate(elements, member, element_location)
        case SchemaType.MAP if isinstance(value, dict):
            keys = _member_schema(schema.key, key_location := f"key of map {location}")
            values = _member_schema(schema.value, value_location := f"value of map {location}")
            for name, member in value.items():
                _validate(keys, name, key_location)
                _validate(values, member, value_location)


def has_class(schema: Schema, value: Any) -> bool:
    """True if a value has the class and size that a schema requires; members are not checked.

    Raises:
        DataError: the schema is a Timestamp, and the datetime has no time zone.
    """
    return _LOGICAL_CHECKS.get(schema.name or "", _TYPE_CHECKS[schema.type])(value)


def _member_schema(schema: Schema | None, location: str) -> Schema:
    if schema is None:
        raise DataError(f"No schema defined for {location}")
    return schema


def is_real(value: Any) -> bool:
    """True for a `float`, and for an `int` in the range of floats."""
    if is_integer(value):
        try:
            float(value)
        except OverflowError:
            return False
        return True
    return isinstance(value, float)


def _integer_of_bits(bits: int) -> Callable[[Any], bool]:
    return lambda value: is_integer(value) and fits(value, bits)


def _instance_of(*classes: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, classes)


def _is_decimal(value: Any) -> bool:
    return isinstance(value, Decimal) and value.is_finite()  # BigDecimal has no NaN or infinity


def _is_moment(value: Any) -> bool:
    if isinstance(value, dt.datetime) and value.utcoffset() is None:
        raise DataError(f"The time zone of {value!r} is missing: datetime.now(UTC) has one")
    return isinstance(value, dt.datetime)


_TYPE_CHECKS: Final[Mapping[SchemaType, Callable[[Any], bool]]] = {
    **{kind: _integer_of_bits(bits) for kind, bits in BITS.items()},
    SchemaType.FLOAT32: is_real,
    SchemaType.FLOAT64: is_real,
    SchemaType.BOOLEAN: _instance_of(bool),
    SchemaType.STRING: _instance_of(str),
    SchemaType.BYTES: _instance_of(bytes, bytearray, memoryview),
    SchemaType.ARRAY: _instance_of(list, tuple),
    SchemaType.MAP: _instance_of(dict),
    SchemaType.STRUCT: _instance_of(Struct),
}

_LOGICAL_CHECKS: Final[Mapping[str, Callable[[Any], bool]]] = {
    DECIMAL_NAME: _is_decimal,
    DATE_NAME: _instance_of(dt.date),
    TIME_NAME: _instance_of(dt.time),
    TIMESTAMP_NAME: _is_moment,
}
"""Checks of values by the name of a logical type, whatever the schema's type."""


class SchemaAndValue(NamedTuple):
    """A value with its schema. Value None: null. Schema None: no schema."""

    value: Any
    schema: Schema | None = None
