"""Validation of settings that a program has created, by the same rules as text."""

import msgspec
from msgspec import inspect

from controlplane.settings.kinds import BadValue, check


def check_settings(settings: msgspec.Struct, name: str = "") -> None:
    """Check every value of a table, and of nested tables; `name` is the prefix of their names.

    Raises:
        BadValue: a value has the wrong type, or is out of bounds. The message names it.
    """
    struct = inspect.type_info(type(settings))
    assert isinstance(struct, inspect.StructType)
    for field in struct.fields:
        inner, value = name + field.name, getattr(settings, field.name)
        if not isinstance(field.type, inspect.StructType):
            check(inner, value, field.type)
        elif isinstance(value, field.type.cls):
            check_settings(value, f"{inner}.")
        else:
            raise BadValue(inner, f"is no {field.type.cls.__name__}: {value!r}")
