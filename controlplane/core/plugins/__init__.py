"""Which connector classes exist, as a catalogue: from the class follows the connector's type.

A Python control plane cannot load Java classes, so what a worker would learn from its class path
comes from a file: a JSON list of `{"class", "type", "version", ...}` as the histories have it, or
as `GET /connector-plugins` of a real worker answers it.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

UNKNOWN_TYPE = "unknown"
_KINDS = ("source", "sink")


class Plugins:
    """The connector classes of a worker. Empty: every type is `unknown`."""

    def __init__(self, types: Mapping[str, str] | None = None) -> None:
        self._types = dict(types or {})
        self._aliases = {alias: name for name in self._types for alias in _aliases(name)}

    def type_of(self, connector_class: Any) -> str:
        """`source`, `sink` or `unknown`, by full class name or alias (`FileStreamSource`)."""
        if not isinstance(connector_class, str):
            return UNKNOWN_TYPE
        name = self._aliases.get(connector_class, connector_class)
        return self._types.get(name, UNKNOWN_TYPE)


def _aliases(name: str) -> tuple[str, ...]:
    """A class's simple name, with and without `Connector` (Kafka: `PluginUtils`)."""
    simple = name.rpartition(".")[2]
    return simple, simple.removesuffix("Connector")


class CatalogueError(ValueError):
    """Not a catalogue of connector classes. The message says what is wrong."""


class _Entry(msgspec.Struct, rename={"name": "class"}):
    name: str
    type: str


def parse_catalogue(text: bytes) -> Plugins:
    """A catalogue from JSON: a list of objects with `class` and `type`; other fields are ignored.

    Raises:
        CatalogueError: not such a list.
    """
    try:
        entries = msgspec.json.decode(text, type=list[_Entry])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CatalogueError(f"not a list of objects with class and type: {error}") from None
    return Plugins({entry.name: entry.type for entry in entries if entry.type in _KINDS})
