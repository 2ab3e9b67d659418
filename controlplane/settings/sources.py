"""Sources of settings: flags, environment variables, files."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from controlplane.settings.errors import SettingsError
from controlplane.settings.properties import Property, located, properties_in, read_properties

OURS = "CONTROLPLANE_"
"""Prefix of variables that only this project reads."""


class ValueSource(msgspec.Struct, frozen=True, omit_defaults=True):
    """Flag, variable, file line or default that gives a setting its value."""

    kind: Literal["flag", "environment", "file", "default"]
    name: str = ""
    """Flag, variable, or path of the file."""
    line: int = 0
    """Line number in a file, or in a variable that holds a file; counted from 1, 0 if none."""

    @property
    def is_ours(self) -> bool:
        """True if only this project reads the source; Java workers read a worker's file too."""
        return self.kind == "flag" or (self.kind == "environment" and self.name.startswith(OURS))

    def __str__(self) -> str:
        name = self.name or self.kind
        return f"{name}:{self.line}" if self.line else name


DEFAULT = ValueSource("default")


class SourcedValue(NamedTuple):
    """A value as it was written, with its source."""

    text: str
    source: ValueSource


SourceValues = Mapping[str, SourcedValue]
"""Values of one source: text by key."""


def file_values(path: Path) -> SourceValues:
    """Read the values of a `.properties` file of a worker or client.

    Raises:
        SettingsError: the file cannot be read, or is malformed.
    """
    return _values(read_properties(path), ValueSource("file", str(path)))


def variable_values(name: str, text: str) -> SourceValues:
    """Read the values of a `.properties` file in an environment variable.

    Raises:
        SettingsError: the text is malformed.
    """
    try:
        properties = list(properties_in(text))
    except SettingsError as failure:
        raise located(name, failure) from None
    return _values(properties, ValueSource("environment", name))


def _values(properties: Iterable[Property], source: ValueSource) -> SourceValues:
    """Return the values by key, each with its line; the last value of a key wins, as in Java."""
    return {
        entry.key: SourcedValue(entry.value, msgspec.structs.replace(source, line=entry.line))
        for entry in properties
    }


def flag_values(flags: Iterable[tuple[str, str, str]]) -> SourceValues:
    """Return the values of flags, each given as (flag, key, value)."""
    return {key: SourcedValue(value, ValueSource("flag", flag)) for flag, key, value in flags}
