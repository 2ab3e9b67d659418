"""Parser for the text under a config key, by the key's type (`ConfigDef.parseType`)."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from controlplane.core.configdef.key_definition import ConfigKey
from controlplane.core.java.java_library import fits, parse_int, parse_long, trim
from controlplane.core.java.json_values import value_text

Defect = Literal["abstract", "no suitable constructor", "private constructor", "constructor throws"]
"""Reason why a class cannot be instantiated. `no suitable constructor`: all have parameters."""


class JavaClass(NamedTuple):
    """A class on the class path."""

    name: str
    kinds: frozenset[str] = frozenset()
    """Kinds of plugins that the class implements; empty: unknown."""
    nested: tuple[str, ...] = ()
    """Plugins nested in this abstract class; the config must name one of them."""
    defect: Defect | None = None

    def __str__(self) -> str:
        return f"class {self.name}"


class Password(NamedTuple):
    """A text that is never shown."""

    secret: str

    def __str__(self) -> str:
        return "[hidden]"


ConfigValue = bool | int | float | str | list[str] | JavaClass | Password | None
"""A parsed value. None: null, or a text that could not be parsed."""

FindClass = Callable[[str, str], JavaClass | None]
"""Takes a key and the text under it. Returns the class that the text names; None: no such class."""


class InvalidValue(Exception):
    """An invalid value; the message is Kafka's (`ConfigException`)."""

    @classmethod
    def value(cls, name: str, value: ConfigValue, why: str) -> "InvalidValue":
        """The error for a value under a key; `why` ends the message."""
        return cls(f"Invalid value {text_of(value)} for configuration {name}: {why}")


def text_of(value: ConfigValue) -> str:
    """`String.valueOf`, as Kafka's messages use it."""
    return str(value) if isinstance(value, JavaClass | Password) else value_text(value)


def answer_text(value: ConfigValue) -> str | None:
    """The value as answers show it (`ConfigDef.convertToString`)."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, JavaClass):
        return value.name
    return ",".join(value) if isinstance(value, list) else text_of(value)


def parse(key: ConfigKey, text: str | None, find: FindClass) -> ConfigValue:
    """Parse a text to the key's type.

    Raises:
        InvalidValue: the text is not of that type.
    """
    if text is None:
        return None
    if key.type == "CLASS":
        java_class = find(key.name, text)
        if java_class is None:
            raise InvalidValue.value(key.name, text, f"Class {text} could not be found.")
        return java_class
    value: ConfigValue = _PARSERS[key.type](trim(text))
    if value is None:
        raise InvalidValue.value(
            key.name, text, _TYPE_ERRORS.get(key.type, f"Not a number of type {key.type}")
        )
    return value


_AROUND_COMMAS = " \t\n\v\f\r"
r"""White space that Java's `\s` matches; Kafka splits lists at `\s*,\s*`."""
_SHORT_BITS = 16
_DOUBLE = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:\d++\.?\d*+|\.\d++)(?:[eE][+-]?\d++)?[fFdD]?)", re.ASCII
)

_HEXADECIMAL = re.compile(
    r"[+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?\d+[fFdD]?", re.ASCII
)


def _boolean(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())


def _short(text: str) -> int | None:
    number = parse_int(text)
    return number if number is not None and fits(number, _SHORT_BITS) else None


def _double(text: str) -> float | None:
    """`Double.parseDouble`; None: no number. Takes hexadecimal digits and a final type letter."""
    number = text.rstrip("fFdD")
    if _DOUBLE.fullmatch(text):
        return float(number)
    if not _HEXADECIMAL.fullmatch(text):
        return None
    try:
        return float.fromhex(number)
    except OverflowError:
        return -math.inf if text.startswith("-") else math.inf


def _list(text: str) -> list[str]:
    return [part.strip(_AROUND_COMMAS) for part in text.split(",")] if text else []


_PARSERS: Mapping[str, Callable[[str], Any]] = {
    "BOOLEAN": _boolean,
    "STRING": str,
    "PASSWORD": Password,
    "INT": parse_int,
    "SHORT": _short,
    "LONG": parse_long,
    "DOUBLE": _double,
    "LIST": _list,
}
"""Parsers of trimmed texts by type; they return None for an invalid text."""

_TYPE_ERRORS = {"BOOLEAN": "Expected value to be either true or false"}
