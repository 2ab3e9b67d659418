"""What can be wrong with an archive or a question about it: one sentence each, with what to do."""


class ReplayError(Exception):
    """The archive stays as it was. The message says whose fault it is, and what to do."""


class NoArchive(ReplayError):
    """There is no archive, or none of this cluster; or it is of a format that is not known here."""


def no_archive(where: str) -> NoArchive:
    """The error about a place that holds no archive."""
    return NoArchive(f"{where} is no archive: make one with `replay capture`")


class ArchiveCorrupt(ReplayError):
    """Files of an archive are missing, damaged, altered, or contradict each other."""


class ArchiveConflict(ReplayError):
    """What is to be archived contradicts what is archived already."""


class ArchiveBusy(ReplayError):
    """Somebody else has appended meanwhile. Doing it again helps."""


class NotWritable(ReplayError):
    """Nothing can be written where the archive lies."""


class BadSetting(ReplayError):
    """A setting of an object store is unknown, or means nothing."""


class NotCapturable(ReplayError):
    """A source is there, and is not what an archive can be made of."""
