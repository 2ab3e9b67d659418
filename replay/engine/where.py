"""Where Spark runs. Nothing here needs Spark to be installed."""

from collections.abc import Mapping
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
