"""Text of tables in both commands: how wide a table may be, and how long a cell.

A terminal sets the width, or `COLUMNS`. A pipe or a file sets none: a table is as wide as its
content there. `--wide` lifts both limits.
"""

import json
import re
import shutil
from collections.abc import Iterator

import click

from controlplane.core.text.safe_text import ELLIPSIS, safe, short
from controlplane.terminal.option_names import Decorated

UNBOUNDED_COLUMNS = 1 << 16
"""Width of a table in a pipe or a file: more than any row takes."""

JSON_CHARACTERS = 120
"""Longest JSON value in a cell; a longer one is cut, unless `--wide` is given."""

_JSON = re.compile(r'[{\[]\s*["{\[]')
_DECODER = json.JSONDecoder()
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
    """A safe cell of bounded length; JSON in it is cut sooner than free text."""
    line = safe(text)
    return line if is_wide() else short("".join(_with_json_cut(line)))


def _with_json_cut(line: str) -> Iterator[str]:
    """The pieces of a line; each JSON value is cut by itself, so that a sentence goes on behind."""
    end = 0
    while begin := _JSON.search(line, end):
        start = begin.start()
        yield line[end:start]
        end = _json_end(line, start)
        whole = end - start <= JSON_CHARACTERS
        yield line[start:end] if whole else line[start : start + JSON_CHARACTERS - 1] + ELLIPSIS
    yield line[end:]


def _json_end(line: str, start: int) -> int:
    """The end of the JSON value that begins at `start`; of the line, if it is no whole JSON."""
    try:
        return _DECODER.raw_decode(line, start)[1]
    except (ValueError, RecursionError):
        return len(line)
