"""What Kafka makes of the text under a config key, by the key's type (`ConfigDef.parseType`)."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from controlplane.core.configdef.keys import ConfigKey
from controlplane.core.java import parse_int, parse_long, trim
from controlplane.core.java_values import value_text

Defect = Literal["abstract", "no suitable constructor", "private constructor", "constructor throws"]
"""Why no object can be made of a class. The second one: every constructor has parameters."""


class JavaClass(NamedTuple):
    """A class that was found."""

    name: str
    kinds: frozenset[str] = frozenset()
    """The kinds of plugin that it is; none: nobody knows."""
    nested: tuple[str, ...] = ()
    """Plugins within it: it is abstract, and one of these is meant."""
    defect: Defect | None = None

    def __str__(self) -> str:
        return f"class {self.name}"


class Password(NamedTuple):
    """A text that nobody is shown."""

    secret: str

    def __str__(self) -> str:
        return "[hidden]"


Value = bool | int | float | str | list[str] | JavaClass | Password | None
"""A parsed value. None: null, or nothing that could be parsed."""

FindClass = Callable[[str, str], JavaClass | None]
"""From a key and what stands under it to the class that is meant, or None if there is none."""


class Invalid(Exception):
    """A value that is not taken; the message is Kafka's (`ConfigException`)."""

    @classmethod
    def value(cls, name: str, value: Value, why: str) -> "Invalid":
        """This value under this key, and why not."""
        return cls(f"Invalid value {text_of(value)} for configuration {name}: {why}")


def text_of(value: Value) -> str:
    """`String.valueOf`, as it stands in messages."""
    return str(value) if isinstance(value, JavaClass | Password) else value_text(value)


def shown(value: Value) -> str | None:
    """The value as people are shown it (`ConfigDef.convertToString`)."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, JavaClass):
        return value.name
    return ",".join(value) if isinstance(value, list) else text_of(value)


def parse(key: ConfigKey, text: str | None, find: FindClass) -> Value:
    """The value of a key's type.

    Raises:
        Invalid: the text is none.
    """
    if text is None:
        return None
    if key.type == "CLASS":
        found = find(key.name, text)
        if found is None:
            raise Invalid.value(key.name, text, f"Class {text} could not be found.")
        return found
    value: Value = _READ[key.type](trim(text))
    if value is None:
        raise Invalid.value(
            key.name, text, _EXPECTED.get(key.type, f"Not a number of type {key.type}")
        )
    return value


_AROUND_COMMAS = " \t\n\v\f\r"
_SHORTS = range(-(2**15), 2**15)
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
    return number if number is not None and number in _SHORTS else None


def _double(text: str) -> float | None:
    """`Double.parseDouble`: a number may say its type at its end, and may be hexadecimal."""
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


_READ: Mapping[str, Callable[[str], Any]] = {
    "BOOLEAN": _boolean,
    "STRING": str,
    "PASSWORD": Password,
    "INT": parse_int,
    "SHORT": _short,
    "LONG": parse_long,
    "DOUBLE": _double,
    "LIST": _list,
}
"""What a trimmed text means; None: nothing."""

_EXPECTED = {"BOOLEAN": "Expected value to be either true or false"}
