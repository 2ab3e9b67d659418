"""Ends of a command, with exit codes: refusal, failed output, defect, interruption, closed pipe.

A refusal is one sentence on standard error; nothing was changed.
"""

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click

from controlplane.core.moments import UnknownMoment
from controlplane.core.plugins import CatalogueError
from controlplane.core.releases.profiles import UnknownRelease
from controlplane.core.text.file_errors import inaccessible
from controlplane.core.text.safe_text import safe
from controlplane.logs.log import LogError
from controlplane.plugins import Unloadable
from controlplane.settings.errors import SettingsError
from controlplane.terminal.exit_codes import (
    CLOSED_PIPE,
    DEFECT,
    INTERRUPTED,
    NOT_PRINTED,
    REFUSED,
)
from controlplane.terminal.option_names import plausible

DEBUG = "CONTROLPLANE_DEBUG"
"""Environment variable: if set, a defect prints its traceback."""


class InputRefused(click.ClickException):
    """The command refuses its input. The message has the reason and the remedy."""

    exit_code = REFUSED


class NotPrinted(click.ClickException):
    """Standard output or a file cannot be written. Earlier changes of the command stay."""

    exit_code = NOT_PRINTED


_INPUT = (LogError, SettingsError, UnknownRelease, UnknownMoment, CatalogueError, Unloadable)
"""Exceptions that bad input raises; each message is a sentence for people."""


@contextmanager
def refusing_bad_input(*more: type[Exception]) -> Iterator[None]:
    """Turn exceptions about bad input, and those of the types `more`, into `InputRefused`."""
    bad_input: tuple[type[Exception], ...] = (*_INPUT, *more)
    try:
        yield
    except bad_input as error:
        raise InputRefused(safe(str(error))) from None
    except OSError as error:
        if error.filename is None:
            raise
        raise InputRefused(inaccessible(error)) from None


@contextmanager
def exit_codes_for_errors(program: str) -> Iterator[None]:
    """End a command with an exit code for its cause, and without a traceback.

    Messages are made safe for a terminal.
    """
    try:
        with _reporting_full_disks():
            yield
            flush()
    except BrokenPipeError:
        _discard_output()
        raise SystemExit(CLOSED_PIPE) from None
    except KeyboardInterrupt:
        _write_error("interrupted")
        raise SystemExit(INTERRUPTED) from None
    except click.ClickException as error:
        # A message may quote names from a log, and answers of a server.
        error.message = _safe_lines(error.message)  # type: ignore[misc]  # final in click
        if isinstance(error, click.NoSuchOption):
            close = plausible(error.option_name, error.possibilities or ())
            error.possibilities = close  # type: ignore[misc]  # final in click
        raise
    except (click.exceptions.Exit, click.Abort):
        raise
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # up to Python 3.11, in `__set_name__`
            _write_error("interrupted")
            raise SystemExit(INTERRUPTED) from None
        if os.environ.get(DEBUG):
            raise
        cause = safe(f"{type(error).__name__}: {error}")
        _write_error(
            f"Error: a defect of {program} ({cause}): please report it, "
            f"with the command and what it prints with {DEBUG}=1"
        )
        raise SystemExit(DEFECT) from None


def _safe_lines(message: str) -> str:
    return "\n".join(map(safe, message.split("\n")))


@contextmanager
def _reporting_full_disks() -> Iterator[None]:
    """Report a full disk as `NotPrinted` where the error names no file.

    Writes to open files raise such errors, and so do click's help texts. Standard output is
    flushed first: if that fails, the error names standard output.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        flush()
        raise _not_written("a file or the output", error) from None


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def write(text: str) -> None:
    """Write to standard output.

    Raises:
        NotPrinted: it cannot be written.
        BrokenPipeError: the reader has closed the pipe.
    """
    check_output()
    try:
        raw = getattr(sys.stdout, "buffer", None)
        if isinstance(raw, io.RawIOBase):  # PYTHONUNBUFFERED
            _write_all(raw, text.encode(sys.stdout.encoding, sys.stdout.errors or "strict"))
        else:
            sys.stdout.write(text)
    except OSError as error:
        raise _unwritable("standard output", error) from None


def _write_all(raw: io.RawIOBase, octets: bytes) -> None:
    """Write all octets. Python's unbuffered output ignores that the system may write only a part.

    The next attempt then tells why: the disk is full, or the reader has left.
    """
    rest = memoryview(octets)
    while rest:
        rest = rest[raw.write(rest) or 0 :]


def check_output() -> None:
    """Refuse a closed standard output, before a command changes something.

    Raises:
        InputRefused: it is closed.
    """
    if sys.stdout is None:
        raise InputRefused("standard output is closed: redirect it to a file")


def flush() -> None:
    """Flush standard output; raises as `write` does."""
    if sys.stdout is None or sys.stdout.closed:  # closed: by a connector that has run here
        return
    try:
        sys.stdout.flush()
    except OSError as error:
        raise _unwritable("standard output", error) from None


def _unwritable(output: str, error: OSError) -> Exception:
    if isinstance(error, BrokenPipeError):
        return error
    _discard_output()
    return _not_written(output, error)


def _not_written(place: str, error: OSError) -> NotPrinted:
    why = error.strerror or str(error)
    return NotPrinted(
        f"{place} cannot be written ({why}): make room, or write elsewhere. Changes that "
        "the command has made stay"
    )


def _discard_output() -> None:
    """Send the rest of the output to /dev/null: Python flushes at exit, and would fail again."""
    with suppress(OSError, ValueError):  # the output of a test is no file
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _write_error(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"{text}\n")
