"""Config keys of a connector, defined by its author and validated in Kafka's words."""

from typing import Any, Final, get_args

from controlplane.core.configdef.key_definition import ConfigKey, Importance, Type

REQUIRED: Final = object()
"""Marks a key without a default: every config must set the key."""


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
    """
    if type not in get_args(Type):
        raise TypeError(
            f"key {name!r} has the type {type!r}, not one of {', '.join(get_args(Type))}. "
            "A default is the third argument, or has its name: default=…"
        )
    if importance not in get_args(Importance):
        raise TypeError(
            f"key {name!r} has the importance {importance!r}, not one of "
            f"{', '.join(get_args(Importance))}"
        )
    return ConfigKey(
        name=name,
        type=type,
        required=default is REQUIRED,
        default=None if default is REQUIRED or default is None else _text(default),
        valid=(valid,) if isinstance(valid, str) else valid,
        importance=importance,
        documentation=doc,
        display_name=name if display_name is None else display_name,
    )


def _text(default: Any) -> str:
    """Return a default as the text in a config: `true`, `a,b`, `5`."""
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, list | tuple):
        return ",".join(map(str, default))
    return str(default)
