"""Failure of a command: one sentence on standard error, exit code 2, nothing changed.

And how else it can end: its reader left, somebody interrupted it, or it has a defect.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from controlplane.core.moments import UnknownMoment
from controlplane.core.plugins import CatalogueError
from controlplane.core.releases.profiles import UnknownRelease
from controlplane.core.text.file_errors import inaccessible
from controlplane.logs.log import LogError
from controlplane.plugins import Unloadable
from controlplane.settings.properties import SettingsError

REFUSED = 2
"""Exit code: the command could not do what was asked; click uses it for wrong usage, too."""

FOUND = 1
"""Exit code: the command did it, and what it found needs a look (differences, lost lines)."""

DEFECT = 70
"""Exit code: a defect of ours (`EX_SOFTWARE` of sysexits.h); never mistaken for a finding."""

INTERRUPTED = 130
"""Exit code: Ctrl-C, as shells count it (128 and the signal's number)."""

DEBUG = "CONTROLPLANE_DEBUG"
"""Environment variable: set, a defect comes with its traceback."""


class InputRefused(click.ClickException):
    """The command cannot do what was asked. The message says why and what to do."""

    exit_code = REFUSED


_INPUT = (LogError, SettingsError, UnknownRelease, UnknownMoment, CatalogueError, Unloadable)
"""Exceptions that bad input raises; each message is a sentence for people."""


@contextmanager
def one_sentence() -> Iterator[None]:
    """Turn bad input into `InputRefused`; a defect of this program stays a traceback."""
    try:
        yield
    except _INPUT as error:
        raise InputRefused(str(error)) from None
    except OSError as error:
        if error.filename is None:
            raise
        raise InputRefused(inaccessible(error)) from None


@contextmanager
def well_ended() -> Iterator[None]:
    """End a command without a traceback, with an exit code for each cause."""
    try:
        yield
        flush()
    except BrokenPipeError:  # `| head`: whoever read has what they wanted
        _discard_output()
        raise SystemExit(0) from None
    except KeyboardInterrupt:
        _tell("interrupted")
        raise SystemExit(INTERRUPTED) from None
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except Exception as error:  # the one place where a defect becomes a sentence
        if os.environ.get(DEBUG):
            raise
        _tell(
            f"Error: a defect of controlplane ({type(error).__name__}: {error}): please report it, "
            f"with the command and what it prints with {DEBUG}=1"
        )
        raise SystemExit(DEFECT) from None


def write(text: str) -> None:
    """Write to standard output.

    Raises:
        InputRefused: it cannot be written.
        BrokenPipeError: nobody reads it any more.
    """
    if sys.stdout is None:
        raise InputRefused(
            "standard output is closed: there is nowhere to print to, give it a file"
        )
    try:
        sys.stdout.write(text)
    except OSError as error:
        raise _unwritable(error) from None


def flush() -> None:
    """Write out what is still held back; raises as `write` does."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError as error:
        raise _unwritable(error) from None


def _unwritable(error: OSError) -> Exception:
    if isinstance(error, BrokenPipeError):
        return error
    _discard_output()
    why = error.strerror or str(error)
    return InputRefused(f"standard output cannot be written ({why}): make room, or print elsewhere")


def _discard_output() -> None:
    """Let nothing be written any more: Python tries once more when it ends, and would complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _tell(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"{text}\n")
