"""Text of tables in both commands: how wide a table may be, and how long a cell.

A terminal sets the width, or `COLUMNS`. A pipe or a file sets none: a table is as wide as its
content there. `--wide` lifts both limits.
"""

import re
import shutil
from collections.abc import Callable
from typing import Any, TypeVar

import click

from controlplane.core.safe_text import ELLIPSIS, safe, short

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

UNBOUNDED_COLUMNS = 1 << 16
"""Width of a table in a pipe or a file: more than any row takes."""

JSON_CHARACTERS = 120
"""Longest cell with JSON; a longer one is cut, unless `--wide` is given."""

_JSON = re.compile(r'[{\[]\s*["{\[]')
_WIDE = "controlplane.wide"


def wide_option(command: Decorated) -> Decorated:
    """Add `--wide`, which tables look up by themselves."""
    return click.option(
        "--wide",
        is_flag=True,
        expose_value=False,
        callback=_remember,
        help="Cut nothing, and let tables be wider than the terminal.",
    )(command)


def _remember(context: click.Context, _: click.Parameter, given: bool) -> None:
    context.meta[_WIDE] = given


def is_wide() -> bool:
    """True if the command that runs was called with `--wide`."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_WIDE))


def columns() -> int:
    """Characters that fit into a line."""
    if is_wide():
        return UNBOUNDED_COLUMNS
    return shutil.get_terminal_size((UNBOUNDED_COLUMNS, 0)).columns


def cell(text: str) -> str:
    """A safe cell of bounded length; JSON is cut sooner than free text."""
    if is_wide():
        return safe(text)
    if len(text) > JSON_CHARACTERS and _JSON.search(text[:JSON_CHARACTERS]):
        return safe(text)[: JSON_CHARACTERS - 1] + ELLIPSIS
    return short(text)
