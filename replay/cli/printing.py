"""What people and machines are shown, safe against what logs hold."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.text import Text

from controlplane.core.profiles import Profile, resolve
from controlplane.core.safe_text import safe
from controlplane.core.shown import plain
from controlplane.table_layout import lay_out
from controlplane.table_text import columns, wide_option
from replay.errors import ReplayError

Command = TypeVar("Command", bound=Callable[..., Any])


def output_option(
    *more: str, about: str = "Tables for people, or JSON for machines."
) -> Callable[[Command], Command]:
    """Add `-o table|json`, what else a command can give, and `--wide`; it gets `output`."""

    def with_options(command: Command) -> Command:
        return output(wide_option(command))

    output = click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json", *more]),
        default="table",
        help=f"{about} [default: table]",
    )
    return with_options


class NotPrintable(ReplayError):
    """Standard output takes nothing."""


def say(text: str = "", style: str = "") -> None:
    """Print a line, made safe; on a terminal it wraps between words."""
    with _printing():
        _console().print(Text(safe(text), style=style), soft_wrap=not sys.stdout.isatty())


def print_json(value: Any) -> None:
    """Print a JSON document."""
    with _printing():
        click.echo(json.dumps(plain(value), indent=2))


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print aligned columns in the width there is; cells are made safe."""
    with _printing():
        console = _console()
        with console.capture() as printed:
            for part in lay_out(heads, rows, console.width).parts:
                console.print(part)
        for line in printed.get().splitlines():
            click.echo(line.rstrip())


@contextmanager
def _printing() -> Iterator[None]:
    """Raise `NotPrintable` if nothing can be printed; who reads no more is no matter of ours."""
    if sys.stdout is None:
        raise NotPrintable("standard output is closed: there is nowhere to print to")
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        print_nothing_more()
        why = error.strerror or error
        raise NotPrintable(
            f"standard output cannot be written ({why}): make room, or print elsewhere"
        ) from None


def print_nothing_more() -> None:
    """Python would try once more when it ends, and complain."""
    with suppress(OSError, ValueError):  # a test's output is no file
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to the command how it ends."""
        raise BrokenPipeError


def _console() -> Console:
    terminal = sys.stdout.isatty()
    return _Console(
        width=columns(),
        force_terminal=terminal,
        no_color=not terminal,
        highlight=False,
        emoji=False,
    )


def read_profile(name: str) -> Profile:
    """The profile of a release by its name; a release too new to be known is warned of.

    Raises:
        UnknownRelease: the name means nothing.
    """
    found = resolve(name)
    if found.warning:
        click.echo(f"Warning: {found.warning}", err=True)
    return found.profile
