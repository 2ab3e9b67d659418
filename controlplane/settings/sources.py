"""Sources of settings: flags, environment variables, lines of a file."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from controlplane.settings.properties import SettingsError, located, properties_in, read_properties

OURS = "CONTROLPLANE_"
"""Prefix of variables that only this project reads."""


class ValueSource(msgspec.Struct, frozen=True, omit_defaults=True):
    """Origin of a value."""

    kind: Literal["flag", "environment", "file", "default"]
    name: str = ""
    """Flag, variable, or path of the file."""
    line: int = 0
    """Line in a file or in a variable that holds one; from 1, 0: none."""

    @property
    def is_ours(self) -> bool:
        """True if only this project reads it; a worker's file configures the worker, too."""
        return self.kind == "flag" or (self.kind == "environment" and self.name.startswith(OURS))

    def __str__(self) -> str:
        name = self.name or self.kind
        return f"{name}:{self.line}" if self.line else name


DEFAULT = ValueSource("default")


class SourcedValue(NamedTuple):
    """A value as it was written, with its source."""

    text: str
    source: ValueSource


Telling = Mapping[str, SourcedValue]
"""Values of one source: text by key."""


def told_by_file(path: Path) -> Telling:
    """Read the values of a `.properties` file of a worker or client.

    Raises:
        SettingsError: it cannot be read, or is malformed.
    """
    found = read_properties(path)
    return {
        one.key: SourcedValue(one.value, ValueSource("file", str(path), one.line)) for one in found
    }  # the last of a key wins, as in Java


def told_by_variable(name: str, text: str) -> Telling:
    """Read the values of a `.properties` file in an environment variable.

    Raises:
        SettingsError: the text is malformed.
    """
    try:
        found = list(properties_in(text))
    except SettingsError as failure:
        raise located(name, failure) from None
    return {
        one.key: SourcedValue(one.value, ValueSource("environment", name, one.line))
        for one in found
    }


def told_by_flags(flags: Iterable[tuple[str, str, str]]) -> Telling:
    """Return the values of flags, each given as (flag, key, value)."""
    return {key: SourcedValue(value, ValueSource("flag", flag)) for flag, key, value in flags}
