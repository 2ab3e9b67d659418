"""Config keys of a connector, defined by its author; Kafka's rules and messages apply."""

import re
from typing import Any, Final, get_args

from controlplane.core.configdef.key_definition import ConfigKey, Importance, Type
from controlplane.core.configdef.validators import UnknownWords, check_valid
from controlplane.core.configdef.value_parser import InvalidValue, parse

REQUIRED: Final = object()
"""Marks a key without a default: every config must set the key."""

_NUMBER = r"(-?\d+(?:\.\d+)?(?:E-?\d+)?)"
_RANGE = re.compile(rf"\[{_NUMBER},\.\.\.(?:,{_NUMBER})?")
_ANY_CASE = "(case insensitive) "
_TEXTS = re.compile(rf"(?:{re.escape(_ANY_CASE)}|distinct values of )?\[(.*?)\]")
_NUMBERS = ("INT", "SHORT", "LONG", "DOUBLE")
_LISTED = ("STRING", "LIST")
"""Types whose valid values can be a list of texts."""

_ONLY_TYPES = {
    "(case insensitive)": "STRING",
    "distinct values": "LIST",
    "non-empty list": "LIST",
    "valid regex": "STRING",
}
"""The only type that a `valid` text fits, by the first words of that text."""


def key(  # noqa: PLR0913 - the parts of a definition, by name only
    name: str,
    type: Type = "STRING",  # noqa: A002 - the word of ConfigDef
    default: Any = REQUIRED,
    doc: str = "",
    *,
    valid: str | tuple[str, ...] = (),
    importance: Importance = "HIGH",
    display_name: str | None = None,
) -> ConfigKey:
    """Define a config key. Without a default it is required.

    `valid` lists valid values in the words of Kafka's documentation: `[1,...]`, `[none, all]`,
    `non-empty string`.

    Raises:
        TypeError: there is no such type, or no such importance.
        ValueError: `valid` does not fit the type; the default is not valid.
    """
    if type not in get_args(Type):
        raise TypeError(
            f"key {name!r} has the type {type!r}, not one of {', '.join(get_args(Type))}. "
            "Pass a default as the third argument, or by name: default=…"
        )
    if importance not in get_args(Importance):
        raise TypeError(
            f"key {name!r} has the importance {importance!r}, not one of "
            f"{', '.join(get_args(Importance))}"
        )
    definition = ConfigKey(
        name=name,
        type=type,
        required=default is REQUIRED,
        default=None if default is REQUIRED or default is None else _text(default),
        valid=(valid,) if isinstance(valid, str) else valid,
        importance=importance,
        documentation=doc,
        display_name=name if display_name is None else display_name,
    )
    for words in definition.valid:
        _check_words(definition, words)
    _check_default(definition)
    return definition


def _check_words(definition: ConfigKey, words: str) -> None:
    """Check that words for valid values fit the type of the key.

    Raises:
        ValueError: the words do not fit the type, or their range is empty. Or a comma between texts
            lacks its space. Or a case-insensitive text has lower case: values are converted to
            upper case before they are compared.
    """
    is_number, texts, fault = definition.type in _NUMBERS, _TEXTS.match(words), None
    only_type = _only_type(words)
    if limits := _RANGE.match(words):
        if not is_number:
            fault = "is a range of numbers"
        elif limits[2] is not None and float(limits[1]) > float(limits[2]):
            fault = "is an empty range: write the lower number first"
    elif texts is not None and is_number:
        fault = "lists texts: write a range, for example '[1,...]' or '[1,...,9]'"
    elif texts is not None and definition.type not in _LISTED:
        fault = "lists texts, which only a STRING or a LIST can have"
    elif only_type is not None and definition.type != only_type:
        fault = f"fits a {only_type} only"
    elif texts is not None and "," in texts[1].replace(", ", ""):
        fault = "lacks a space after a comma: write for example '[none, all]'"
    elif texts is not None and words.startswith(_ANY_CASE) and texts[1] != texts[1].upper():
        fault = "has lower case, but values are compared in upper case: write upper case"
    if fault is not None:
        raise ValueError(
            f"key {definition.name!r} has the type {definition.type}, but valid={words!r} {fault}"
        )


def _only_type(words: str) -> str | None:
    """Return the type that a key with these valid values must have; None: several types fit."""
    types = (type_ for start, type_ in _ONLY_TYPES.items() if words.startswith(start))
    return next(types, None)


def _check_default(definition: ConfigKey) -> None:
    """Check a default as Kafka's `ConfigDef` does when a key is defined.

    Raises:
        ValueError: the default is not valid.
    """
    if definition.required or definition.type == "CLASS":
        return
    try:
        value = parse(definition, definition.default, lambda _key, _text: None)
        check_valid(definition.name, definition.valid, value)
    except InvalidValue as invalid:
        raise ValueError(f"The default of key {definition.name!r}: {invalid}") from None
    except UnknownWords:  # reported later: a worker refuses the class (`checked_keys`)
        return


def _text(default: Any) -> str:
    """Return a default as the text in a config: `true`, `a,b`, `5`."""
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, list | tuple):
        return ",".join(map(str, default))
    return str(default)
