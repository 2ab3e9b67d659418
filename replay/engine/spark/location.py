"""Location and settings of Spark. This module works without pyspark."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

LOCAL = "local[*]"
"""This machine with all cores."""


class SparkLocation(NamedTuple):
    """Master URL and settings of Spark."""

    master: str = LOCAL
    conf: Mapping[str, str] = MappingProxyType({})

    @property
    def is_here(self) -> bool:
        """True if tasks run on this machine."""
        return self.master.startswith("local")


def anywhere(archive: str) -> str:
    """Absolute path or URL of an archive, valid on every worker."""
    return archive if "://" in archive else str(Path(archive).resolve())
