"""Parsing of values by the type of their setting, with descriptions of the permitted values.

Texts are trimmed and parsed as in Kafka's `ConfigDef.parseType`: `TRUE` is true. A choice may be
written in upper or lower case (`CaseInsensitiveValidString`). Settings that a program has created
are checked by the same rules.
"""

import re
from collections.abc import Callable
from functools import cache
from itertools import chain
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta, inspect

from controlplane.core.java.java_library import trim
from controlplane.core.text.redaction import redacted_value
from controlplane.settings.errors import BadValue
from controlplane.settings.security import Secret

Codec = Literal["none", "gzip", "snappy", "lz4", "zstd"]
"""Compression of record batches; `none`: no compression."""

SHOWN_CHARACTERS = 60
"""Maximum characters of a bad value in an error: a file may hold a certificate where a number
belongs."""

LEAST = 1
"""Default minimum of a number: most numbers are limits, and a limit of 0 would admit nothing."""


class _Unfit(Exception):
    """A text is not a valid value of this kind."""


class ValueKind(NamedTuple):
    """Parser of one kind of value, with its permitted values."""

    read: Callable[[Any, str], Any]
    allowed: Callable[[Any], str]


@cache
def fields_of(table: type[msgspec.Struct]) -> tuple[inspect.Field, ...]:
    """Return the fields of a table; cached, because inspection takes milliseconds."""
    struct = inspect.type_info(table)
    assert isinstance(struct, inspect.StructType)
    return struct.fields


def parse_value(key: str, text: str, kind: inspect.Type) -> Any:
    """Parse the value of a key.

    Raises:
        BadValue: the text is invalid.
    """
    kinds = _alternatives(kind)
    for alternative in kinds:
        try:
            return _KINDS[type(alternative)].read(alternative, text)
        except _Unfit:
            continue
    raise BadValue(key, f"is {_shortened(redacted_value(key, text))!r}: use {_allowed(kinds)}")


def check_settings(settings: msgspec.Struct, name: str = "") -> None:
    """Check every value of a table that a program has created, and of nested tables.

    `name`: prefix of their names in errors.

    Raises:
        BadValue: a value has the wrong type, or is out of bounds. The message names it.
    """
    for field in fields_of(type(settings)):
        inner, value = name + field.name, getattr(settings, field.name)
        if not isinstance(field.type, inspect.StructType):
            _check(inner, value, field.type)
        elif isinstance(value, field.type.cls):
            check_settings(value, f"{inner}.")
        else:
            raise BadValue(inner, f"is no {field.type.cls.__name__}: {value!r}")


def _check(name: str, value: Any, kind: inspect.Type) -> None:
    kinds = _alternatives(kind)
    may_be_none = len(kinds) < len(getattr(kind, "types", kinds))
    if not (value is None and may_be_none) and not any(
        _fits(alternative, value) for alternative in kinds
    ):
        shown_value = _shortened(repr(redacted_value(name, value)))
        raise BadValue(name, f"is {shown_value}: use {_allowed(kinds)}")


def _fits(kind: inspect.Type, value: Any) -> bool:
    match kind:
        case inspect.BoolType():
            return isinstance(value, bool)
        case inspect.IntType():
            least, most = _bounds(kind)
            return type(value) is int and least <= value <= most
        case inspect.LiteralType():
            return value in kind.values
        case inspect.VarTupleType():
            return isinstance(value, tuple) and all(isinstance(part, str) for part in value)
    return isinstance(value, str)


def _allowed(kinds: tuple[inspect.Type, ...]) -> str:
    return " or ".join(_KINDS[type(kind)].allowed(kind) for kind in kinds)


def _shortened(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"


def extra(kind: inspect.Type, name: str) -> Any:
    """Return an entry of a setting's annotation `Meta(extra=…)`; None: it has none."""
    return (kind.extra or {}).get(name) if isinstance(kind, inspect.Metadata) else None


REFUSED: Final = Meta(extra={"empty": "refused"})
"""Annotation of a text that must not be empty: Kafka refuses it, or a worker would not start."""


PATH: Final = Meta(extra={"path": True})
"""Annotation of a path: it is relative to the directory in which the settings were read."""


def required_values(kind: inspect.Type) -> str:
    """Return the permitted values of a setting that must not be empty; '' if it may be empty.

    `ConfigDef` refuses an empty number, boolean, choice or class.
    """
    kinds = _alternatives(kind)
    rule = extra(kind, "empty")
    typed = any(isinstance(alternative, _TYPED) for alternative in kinds)
    return _allowed(kinds) if rule == "refused" or (typed and rule is not True) else ""


_TYPED = (inspect.BoolType, inspect.IntType, inspect.LiteralType)


def empty_is_unset(kind: inspect.Type, default: Any) -> bool:
    """Return True if an empty value counts as unset and so selects a non-empty default.

    Lists are left out: their default is empty.
    """
    lists = any(isinstance(part, inspect.VarTupleType) for part in _alternatives(kind))
    return (
        not lists and default != "" and extra(kind, "empty") is None and not required_values(kind)
    )


def _alternatives(kind: inspect.Type) -> tuple[inspect.Type, ...]:
    """Return the alternatives of a type, without annotations and without None."""
    match kind:
        case inspect.Metadata():
            return _alternatives(kind.type)
        case inspect.UnionType():
            return tuple(chain.from_iterable(map(_alternatives, kind.types)))
        case inspect.NoneType():
            return ()
    return (kind,)


def _boolean(_: inspect.BoolType, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise _Unfit
    return text.lower() == "true"


_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")


def _integer(kind: inspect.IntType, text: str) -> int:
    least, most = _bounds(kind)
    if not _INTEGER.fullmatch(text) or not least <= int(text) <= most:
        raise _Unfit
    return int(text)


def _bounds(kind: inspect.IntType) -> tuple[int, int]:
    return (
        LEAST if kind.ge is None else kind.ge,
        2**63 - 1 if kind.le is None else kind.le,
    )


def _allowed_numbers(kind: inspect.IntType) -> str:
    least, most = _bounds(kind)
    return f"a whole number from {least}" + (f" to {most}" if kind.le is not None else "")


def _choice(kind: inspect.LiteralType, text: str) -> Any:
    for value in kind.values:
        if str(value).lower() == text.lower():
            return value
    raise _Unfit


def split_list(text: str) -> tuple[str, ...]:
    """Split a list at its commas; trim each part."""
    return tuple(trim(part) for part in text.split(",")) if text else ()


_KINDS: dict[type[inspect.Type], ValueKind] = {
    inspect.StrType: ValueKind(lambda _, text: text, lambda _: "a text"),
    inspect.BoolType: ValueKind(_boolean, lambda _: "true or false"),
    inspect.IntType: ValueKind(_integer, _allowed_numbers),
    inspect.LiteralType: ValueKind(_choice, lambda kind: ", ".join(map(str, kind.values))),
    inspect.VarTupleType: ValueKind(
        lambda _, text: split_list(text), lambda _: "a list with commas"
    ),
    inspect.CustomType: ValueKind(lambda _, text: Secret(text), lambda _: "a text"),
}
