"""Errors about archives and queries on them; each message names the problem and a remedy."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from controlplane.core.text.safe_text import names_text, safe


class ReplayError(Exception):
    """Base of all errors of `replay`. The operation damaged nothing; the message names a remedy."""

    cluster: str | None = None
    """Cluster with the problem, if the error is about the records of one cluster."""


class NoArchive(ReplayError):
    """An archive or cluster does not exist, cannot be read, or has an unknown format.

    The error also stands for an invalid URL, or an invalid name of a cluster.
    """


def no_name() -> NoArchive:
    """Create the error for an empty path, such as that of an unset variable."""
    return NoArchive("the name of the folder is empty: name a folder, or s3a://bucket/folder")


def no_archive(where: str) -> NoArchive:
    """Create the error for a place that holds no archive, or for a path that does not exist."""
    if "://" not in where and not Path(where).exists():
        return NoArchive(f"{where} does not exist: check the path")
    if "://" not in where and Path(where).is_file():
        return NoArchive(f"{where} is a file, no archive. {log_advice(shlex.quote(where))}")
    return NoArchive(f"{where} is no archive: create one with `replay capture`")


def no_clusters(where: str, names: Sequence[str], existing: Sequence[str]) -> NoArchive:
    """Create the error for clusters that an archive lacks; it has the `existing` ones."""
    shown = [*map(safe, names)]
    absent = f"a cluster {shown[0]}" if len(shown) == 1 else f"the clusters {names_text(shown)}"
    return NoArchive(f"{where} has no archive of {absent} (found: {', '.join(existing)})")


def unknown_connectors(names: Sequence[str]) -> str:
    """Sentence about connectors that do not occur in an answer."""
    if len(names) == 1:
        return f"the answer has no connector {names[0]!r}: check the name"
    return f"the answer has none of the connectors {listed(names)}: check the names"


def listed(names: Sequence[str]) -> str:
    """Quoted names as a phrase, the first few of many."""
    return names_text([*map(repr, names)])


def log_advice(log: str) -> str:
    """Sentences for users who have named a log; `log` is a word of a shell."""
    return (
        f"If it is a log, archive it with `replay capture lab={log} fleet --once`, and name the "
        "folder `fleet`. `audit`, `compat`, `lint` and `report` also read logs"
    )


class ArchiveCorrupt(ReplayError):
    """Files of an archive, or of a change feed, are missing, damaged, altered or contradictory."""


class ArchiveConflict(ReplayError):
    """A capture contradicts the archive in records, topics, offsets, or the policy for secrets."""


class ArchiveBusy(ReplayError):
    """Another process has appended to the archive, merged it, or written the feed meanwhile.

    A shared file system that shows an earlier archive for a while raises it, too. A retry helps.
    """


class NotWritable(ReplayError):
    """A file or folder, in an archive or elsewhere, cannot be written."""


class WriteUncertain(NotWritable):
    """A store has not answered a write, which may still take effect."""


class BadStoreSetting(ReplayError):
    """A setting of an object store is unknown, invalid, or cannot be read."""


class NotCapturable(ReplayError):
    """A capture is impossible, because of the log's records or name, a setting, a key, or Spark."""
