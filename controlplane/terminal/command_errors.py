"""Ends of a command, with exit codes: refusal, finding, defect, interruption, closed pipe.

A refusal is one sentence on standard error; nothing was changed.
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
from controlplane.settings.errors import SettingsError

REFUSED = 2
"""Exit code: the command refuses its input; click uses it for wrong usage."""

FOUND = 1
"""Exit code: done, but the result needs attention (differences, lost lines)."""

DEFECT = 70
"""Exit code: a defect of this program (`EX_SOFTWARE` of sysexits.h)."""

INTERRUPTED = 130
"""Exit code: Ctrl-C, as shells count it (128 and the signal's number)."""

DEBUG = "CONTROLPLANE_DEBUG"
"""Environment variable: if set, a defect prints its traceback."""


class InputRefused(click.ClickException):
    """The command refuses its input. The message has the reason and the remedy."""

    exit_code = REFUSED


_INPUT = (LogError, SettingsError, UnknownRelease, UnknownMoment, CatalogueError, Unloadable)
"""Exceptions that bad input raises; each message is a sentence for people."""


@contextmanager
def one_sentence() -> Iterator[None]:
    """Turn exceptions about bad input into `InputRefused`; others pass through."""
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
    """End a command with an exit code for its cause, and without a traceback."""
    try:
        yield
        flush()
    except BrokenPipeError:  # `| head`: the reader has enough
        _discard_output()
        raise SystemExit(0) from None
    except KeyboardInterrupt:
        _tell("interrupted")
        raise SystemExit(INTERRUPTED) from None
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except Exception as error:  # a defect
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
        BrokenPipeError: the reader has closed the pipe.
    """
    if sys.stdout is None:
        raise InputRefused("standard output is closed: redirect it to a file")
    try:
        sys.stdout.write(text)
    except OSError as error:
        raise _unwritable(error) from None


def flush() -> None:
    """Flush standard output; raises as `write` does."""
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
    """Send the rest of the output to /dev/null: Python flushes at exit, and would fail again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _tell(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"{text}\n")
