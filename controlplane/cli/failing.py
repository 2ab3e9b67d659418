"""How a command fails: one clear sentence on standard error, exit code 2, nothing changed."""

from collections.abc import Iterator
from contextlib import contextmanager

import click

from controlplane.core.moments import UnknownMoment
from controlplane.core.plugins import CatalogueError
from controlplane.core.profiles import UnknownRelease
from controlplane.logs.log import LogError
from controlplane.properties import SettingsError

REFUSED = 2
"""Exit code: the command could not do what was asked; click uses it for wrong usage, too."""

FOUND = 1
"""Exit code: the command did it, and what it found needs a look (differences, lost lines)."""


class Refused(click.ClickException):
    """The command cannot do what was asked. The message says why and what to do."""

    exit_code = REFUSED


@contextmanager
def one_sentence() -> Iterator[None]:
    """Turn what is wrong with the input into `Refused`; a defect of ours stays a traceback."""
    try:
        yield
    except (LogError, SettingsError, UnknownRelease, UnknownMoment, CatalogueError) as error:
        raise Refused(str(error)) from None
