"""Where Spark runs. Nothing here needs Spark to be installed."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

LOCAL = "local[*]"
"""This machine, all of its cores."""


class Where(NamedTuple):
    """Where Spark runs, and its settings."""

    master: str = LOCAL
    conf: Mapping[str, str] = MappingProxyType({})

    @property
    def is_here(self) -> bool:
        """Whether its tasks run on this machine."""
        return self.master.startswith("local")


def anywhere(archive: str) -> str:
    """The name of an archive as workers find it, wherever they run."""
    return archive if "://" in archive else str(Path(archive).resolve())
