"""Settings that a program has made itself, held to what a text could have told."""

import msgspec
from msgspec import inspect

from controlplane.settings.kinds import BadValue, check


def check_settings(settings: msgspec.Struct, name: str = "") -> None:
    """Look at every value of a table, and of the tables in it; `name` is how their names begin.

    Raises:
        BadValue: one is of another type, or out of its bounds. The message names it.
    """
    described = inspect.type_info(type(settings))
    assert isinstance(described, inspect.StructType)
    for field in described.fields:
        inner, value = name + field.name, getattr(settings, field.name)
        if not isinstance(field.type, inspect.StructType):
            check(inner, value, field.type)
        elif isinstance(value, field.type.cls):
            check_settings(value, f"{inner}.")
        else:
            raise BadValue(inner, f"is no {field.type.cls.__name__}: {value!r}")
