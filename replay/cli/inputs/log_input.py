"""Inputs of commands: a log or an archived cluster, by name."""

from typing import NamedTuple

from controlplane.core.state import Topics
from replay.archive.stores.hadoop_settings import NONE, HadoopSettings


class ReadOptions(NamedTuple):
    """Topics, visible records and moment with which a log is read."""

    topics: Topics
    """Topics of a log; an archive knows its own."""
    exactly_once: bool
    moment: str | None


class LogInput(NamedTuple):
    """A log, or one cluster of an archive; not opened yet."""

    where: str
    cluster: str
    """Name of the cluster."""
    reading: ReadOptions
    archived: bool = False
    settings: HadoopSettings = NONE
    """Settings of the archive's object store."""
