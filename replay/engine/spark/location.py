"""Location and settings of Spark. This module works without pyspark."""

import os
from collections.abc import Mapping
from os import PathLike
from types import MappingProxyType
from typing import NamedTuple

from replay.errors import no_name

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


def anywhere(archive: str | PathLike[str]) -> str:
    """Absolute path or URL of an archive, valid on every worker.

    Raises:
        NoArchive: the path is empty.
    """
    archive = os.fspath(archive)
    if not archive:
        raise no_name()
    # Up to Python 3.12, `Path.resolve` fails for a circle of links.
    return archive if "://" in archive else os.path.realpath(archive)
