"""The archive that a command names, by the settings that the same command was given."""

import click

from replay.archive.hadoop import settings
from replay.archive.store import Store, open_store


def store_named(where: str) -> Store:
    """The store at a path or URL, by the command's --conf; whoever is no command has none.

    Raises:
        NoArchive: no archive can be at such a URL.
        BadSetting: a setting is unknown, or means nothing.
    """
    context = click.get_current_context(silent=True)
    return open_store(where, settings(dict(context.params["conf"] if context else ())))
