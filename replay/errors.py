"""Errors about archives and queries on them; each message is one sentence with a remedy."""

from pathlib import Path


class ReplayError(Exception):
    """Base of all errors of `replay`. The operation damaged nothing; the message names a remedy."""


class NoArchive(ReplayError):
    """The archive or the cluster does not exist, or its format is unknown."""


def no_archive(where: str) -> NoArchive:
    """Create the error for a place that holds no archive, or for a path that does not exist."""
    if "://" not in where and not Path(where).exists():
        return NoArchive(f"{where} does not exist: check the path")
    return NoArchive(f"{where} is no archive: create one with `replay capture`")


class ArchiveCorrupt(ReplayError):
    """Files of an archive are missing, damaged, altered, or contradict each other."""


class ArchiveConflict(ReplayError):
    """New records contradict archived ones, for instance another record at the same offset."""


class ArchiveBusy(ReplayError):
    """Another process has appended to the archive, or merged it, meanwhile; a retry helps."""


class NotWritable(ReplayError):
    """A file or folder, in an archive or elsewhere, cannot be written."""


class BadStoreSetting(ReplayError):
    """A setting of an object store is unknown or has an invalid value."""


class NotCapturable(ReplayError):
    """The source exists, but no archive can be made of it."""
