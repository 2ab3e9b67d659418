"""Who tells a setting: flags, environment variables, lines of a file; and what they tell."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from controlplane.properties import SettingsError, located, properties_in, read_properties

OURS = "CONTROLPLANE_"
"""How variables begin that speak to us and nobody else."""


class Source(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a value comes from."""

    kind: Literal["flag", "environment", "file", "default"]
    name: str = ""
    """The flag, the variable, the path of the file."""
    line: int = 0
    """The line in a file or in a variable that holds one; from 1, 0: none."""

    @property
    def is_ours(self) -> bool:
        """Whether it speaks to us and nobody else. A worker's file speaks to the worker, too."""
        return self.kind == "flag" or (self.kind == "environment" and self.name.startswith(OURS))

    def __str__(self) -> str:
        name = self.name or self.kind
        return f"{name}:{self.line}" if self.line else name


DEFAULT = Source("default")


class Told(NamedTuple):
    """A value as it was written, and who wrote it."""

    text: str
    source: Source


Telling = Mapping[str, Told]
"""What one source tells: text by key."""


def told_by_file(path: Path) -> Telling:
    """What a worker's, or any client's, `.properties` file tells.

    Raises:
        SettingsError: it cannot be read, or is no such file.
    """
    found = read_properties(path)
    return {
        one.key: Told(one.value, Source("file", str(path), one.line)) for one in found
    }  # the last of a key wins, as in Java


def told_by_variable(name: str, text: str) -> Telling:
    """What the lines of a `.properties` file tell that lies in an environment variable.

    Raises:
        SettingsError: it is none.
    """
    try:
        found = list(properties_in(text))
    except SettingsError as failure:
        raise located(name, failure) from None
    return {one.key: Told(one.value, Source("environment", name, one.line)) for one in found}


def told_by_flags(flags: Iterable[tuple[str, str, str]]) -> Telling:
    """What flags tell, each as (flag, key, value)."""
    return {key: Told(value, Source("flag", flag)) for flag, key, value in flags}
