"""Store of a command's archive, with the command's settings."""

import click

from replay.archive.stores.hadoop_settings import HadoopSettings, settings
from replay.archive.stores.store import ArchiveStore, open_store


def store_named(where: str) -> ArchiveStore:
    """Open the store at a path or URL, with the command's settings.

    Raises:
        NoArchive: the URL cannot hold an archive.
        BadStoreSetting: a setting is unknown or invalid.
    """
    return open_store(where, command_settings())


def command_settings() -> HadoopSettings:
    """Settings of object stores; within a command, with its `--conf`.

    Raises:
        BadStoreSetting: `core-site.xml` cannot be read.
    """
    context = click.get_current_context(silent=True)
    return settings(dict(context.params["conf"] if context else ()))
