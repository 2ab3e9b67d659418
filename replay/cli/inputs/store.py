"""Store of a command's archive, with the command's settings."""

import click

from replay.archive.hadoop_settings import settings
from replay.archive.store import ArchiveStore, open_store


def store_named(where: str) -> ArchiveStore:
    """Open the store at a path or URL, with the command's `--conf`; outside of a command without.

    Raises:
        NoArchive: the URL cannot hold an archive.
        BadStoreSetting: a setting is unknown or invalid.
    """
    context = click.get_current_context(silent=True)
    return open_store(where, settings(dict(context.params["conf"] if context else ())))
