"""What people and machines are shown, safe against what logs hold."""

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from controlplane.core.profiles import Profile, resolve
from controlplane.core.safe_text import safe, short
from controlplane.core.shown import plain

Command = TypeVar("Command", bound=Callable[..., Any])

WIDE_COLUMNS = 200
"""Width of tables in files and pipes, unless COLUMNS is set."""


def output_option(
    *more: str, about: str = "Tables for people, or JSON for machines."
) -> Callable[[Command], Command]:
    """Add `-o table|json`, and whatever else a command can give; it gets `output`."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json", *more]),
        default="table",
        help=about,
    )


def say(text: str = "", style: str = "") -> None:
    """Print a line, made safe."""
    _console().print(Text(safe(text), style=style), soft_wrap=True)


def print_json(value: Any) -> None:
    """Print a JSON document."""
    click.echo(json.dumps(plain(value), indent=2))


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print aligned columns."""
    shown = Table(*heads, box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for row in rows:
        shown.add_row(*(Text(short(cell)) for cell in row))
    _console().print(shown)


def _console() -> Console:
    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size((WIDE_COLUMNS, 0)).columns
    return Console(
        width=width, force_terminal=terminal, no_color=not terminal, highlight=False, emoji=False
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
