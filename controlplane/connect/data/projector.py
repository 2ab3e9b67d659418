"""Projection of a value onto another version of its schema (`SchemaProjector`)."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from controlplane.connect.data.schema import Schema, Struct, is_real
from controlplane.connect.data.schema_type import BITS, SchemaType
from controlplane.connect.errors import DataError
from controlplane.core.java.big_decimals import narrowed, round_to_float
from controlplane.core.java.java_library import wrap
from controlplane.core.java.json_values import is_integer

_PROMOTABLE: Final = (
    *(SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64),
    *(SchemaType.FLOAT32, SchemaType.FLOAT64),
)
"""Numeric types; each can be projected to a later one in this list."""


class _ProjectionError(DataError):
    """The schemas are not compatible (`SchemaProjectorException`)."""


def project(source: Schema, value: Any, target: Schema) -> Any:
    """Convert a value from one version of its schema to another.

    Fields are matched by name: new ones get their default, unknown ones are dropped, and numbers
    become larger types.

    Raises:
        DataError: the schemas are incompatible (the message is Kafka's), or the value does not fit.
    """
    _check_compatible(source, target)
    if source.is_optional and not target.is_optional:
        if target.default is None:
            raise _ProjectionError(
                "Writer schema is optional, however, target schema does not provide a default "
                "value."
            )
        return target.default if value is None else _project(source, value, target)
    return None if value is None else _project(source, value, target)


def _check_compatible(source: Schema, target: Schema) -> None:
    """Check types, names and parameters. Raises `_ProjectionError`."""
    if source.type is not target.type and not _is_promotable(source.type, target.type):
        raise _ProjectionError(
            f"Schema type mismatch. source type: {source.type} and target type: {target.type}"
        )
    if source.name != target.name:
        raise _ProjectionError(
            "Schema name mismatch. "
            f"source name: {_name_text(source.name)} and target name: {_name_text(target.name)}"
        )
    if source.parameters != target.parameters:
        source_text = _parameters_text(source.parameters)
        target_text = _parameters_text(target.parameters)
        raise _ProjectionError(
            f"Schema parameters not equal. source parameters: {source_text} "
            f"and target parameters: {target_text}"
        )


def _name_text(text: str | None) -> str:
    return "null" if text is None else text


def _parameters_text(parameters: Mapping[str, str] | None) -> str:
    if parameters is None:
        return "null"
    return "{" + ", ".join(f"{name}={value}" for name, value in parameters.items()) + "}"


def _is_promotable(source: SchemaType, target: SchemaType) -> bool:
    ranks = {kind: rank for rank, kind in enumerate(_PROMOTABLE)}
    return source in ranks and target in ranks and ranks[source] <= ranks[target]


def _project(source: Schema, value: Any, target: Schema) -> Any:
    kind = _CONTAINERS.get(target.type)
    if kind is None:
        return _primitive(value, target)
    classes, project_members = kind
    if not isinstance(value, classes):
        raise DataError(f"Invalid value for {target.type}: {type(value).__qualname__}")
    return project_members(source, value, target)


def _primitive(value: Any, target: Schema) -> Any:
    if target.type in BITS and is_integer(value):
        return wrap(value, BITS[target.type])
    if target.type is SchemaType.FLOAT32 and is_real(value):
        return narrowed(value) if isinstance(value, float) else round_to_float(value)
    if target.type is SchemaType.FLOAT64 and is_real(value):
        return float(value)
    return value


def _struct(source: Schema, value: Struct, target: Schema) -> Struct:
    """Project each field of the target; a field that only the target has gets its default."""
    projected = Struct(target)
    for target_field in target.fields:
        name, schema = target_field.name, target_field.schema
        field = source.field(name)
        if field is not None:
            try:
                projected[name] = project(field.schema, value[name], schema)
            except _ProjectionError as error:
                raise _ProjectionError(f"Error projecting {name}") from error
        elif not schema.is_optional:
            if schema.default is None:
                raise _ProjectionError(
                    f"Required field `{name}` is missing from source schema: {source}"
                )
            projected[name] = schema.default
    return projected


def _array(source: Schema, value: Any, target: Schema) -> Any:
    source_member, target_member = _members(source), _members(target)
    projected = (project(source_member, element, target_member) for element in value)
    return tuple(projected) if isinstance(value, tuple) else list(projected)


def _map(source: Schema, value: dict[Any, Any], target: Schema) -> dict[Any, Any]:
    source_key, target_key = _required_schema(source.key), _required_schema(target.key)
    source_member, target_member = _members(source), _members(target)
    return {
        project(source_key, key, target_key): project(source_member, member, target_member)
        for key, member in value.items()
    }


def _members(schema: Schema) -> Schema:
    return _required_schema(schema.value)


def _required_schema(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("A schema of the keys, values or elements is missing")
    return schema


_CONTAINERS: Final[Mapping[SchemaType, tuple[Any, Callable[..., Any]]]] = {
    SchemaType.STRUCT: (Struct, _struct),
    SchemaType.ARRAY: ((list, tuple), _array),
    SchemaType.MAP: (dict, _map),
}
