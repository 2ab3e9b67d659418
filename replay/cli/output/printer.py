"""Printing of tables, lines and JSON; content of logs is made safe."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from controlplane.core.releases.profiles import Profile, resolve
from controlplane.core.text.safe_text import safe
from controlplane.core.text.value_text import plain
from controlplane.terminal.option_names import Decorated
from controlplane.terminal.table_layout import lay_out
from controlplane.terminal.table_text import columns, wide_option
from replay.errors import ReplayError


def output_option(
    *more: str, about: str = "Print tables or JSON."
) -> Callable[[Decorated], Decorated]:
    """Add `-o table|json`, further formats, and `--wide`; the command gets `output`."""

    def with_options(command: Decorated) -> Decorated:
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
    """Standard output accepts nothing."""


def say(text: str = "", style: str = "") -> None:
    """Print a safe line; on a terminal it wraps between words."""
    with _printing():
        _console().print(Text(safe(text), style=style), soft_wrap=not sys.stdout.isatty())


def print_json(value: Any) -> None:
    """Print a JSON document."""
    with _printing():
        click.echo(json.dumps(plain(value), indent=2))


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print aligned columns in the available width; cells are made safe."""
    with _printing():
        console = _console()
        with console.capture() as printed:
            for part in lay_out(heads, rows, console.width).parts:
                console.print(part)
        for line in printed.get().splitlines():
            click.echo(line.rstrip())


@contextmanager
def _printing() -> Iterator[None]:
    """Raise `NotPrintable` if printing fails; a closed pipe is left to the caller."""
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
    """Redirect standard output, because Python would retry at its end and complain."""
    with suppress(OSError, ValueError):  # the output of a test is no file
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


class _QuietConsole(Console):
    def on_broken_pipe(self) -> None:
        """Let the command handle a closed pipe."""
        raise BrokenPipeError


def _console() -> Console:
    terminal = sys.stdout.isatty()
    return _QuietConsole(
        width=columns(),
        force_terminal=terminal,
        no_color=not terminal,
        highlight=False,
        emoji=False,
    )


def read_profile(name: str) -> Profile:
    """Profile of a release by name; an unknown newer release prints a warning.

    Raises:
        UnknownRelease: the name is unknown.
    """
    resolved = resolve(name)
    if resolved.warning:
        click.echo(f"Warning: {resolved.warning}", err=True)
    return resolved.profile
