"""Limits of tables in `controlplane` and `replay`: width of a table, and length of a cell.

The width is that of the terminal, or `COLUMNS`. In a pipe or a file it is unlimited. `--wide` lifts
both limits.
"""

import json
import re
import shutil
from collections.abc import Iterator

import click
from rich.cells import cell_len

from controlplane.core.text.safe_text import ELLIPSIS, safe, short
from controlplane.terminal.option_names import Decorated

UNBOUNDED_COLUMNS = 1 << 16
"""Width of a table in a pipe or a file: wider than any row."""

JSON_CHARACTERS = 120
"""Longest JSON value in a cell, without `--wide`."""

_JSON = re.compile(r'[{\[]\s*["{\[]')
_DECODER = json.JSONDecoder()
_WIDE = "controlplane.wide"
_NARROW = frozenset("→∅…").union(map(chr, range(ord(" "), ord("~") + 1)))
"""Characters of one terminal column: printable ASCII, and the symbols of our own texts."""


def wide_option(command: Decorated) -> Decorated:
    """Add `--wide`, which `is_wide` looks up; the command gets no argument."""
    return click.option(
        "--wide",
        is_flag=True,
        expose_value=False,
        callback=_remember,
        help="Show long values in full; a table may be wider than the terminal.",
    )(command)


def _remember(context: click.Context, _: click.Parameter, wide: bool) -> None:
    context.meta[_WIDE] = wide


def is_wide() -> bool:
    """True if the command that runs was called with `--wide`."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_WIDE))


def terminal_columns() -> int:
    """Number of characters in a line."""
    if is_wide():
        return UNBOUNDED_COLUMNS
    return shutil.get_terminal_size((UNBOUNDED_COLUMNS, 0)).columns


def cell_width(text: str) -> int:
    """Width of a text in terminal columns; fast for ordinary text."""
    return len(text) if _NARROW.issuperset(text) else cell_len(text)


def cell(text: str) -> str:
    """Safe text of bounded length for a cell; JSON is cut sooner than other text."""
    line = safe(text)
    if len(line) <= JSON_CHARACTERS or is_wide():
        return line
    return short("".join(_with_json_cut(line)))


def _with_json_cut(line: str) -> Iterator[str]:
    """Yield the pieces of a line; each JSON value is cut by itself, the text after it is kept."""
    end = 0
    while begin := _JSON.search(line, end):
        start = begin.start()
        yield line[end:start]
        end = _json_end(line, start)
        whole = end - start <= JSON_CHARACTERS
        yield line[start:end] if whole else line[start : start + JSON_CHARACTERS - 1] + ELLIPSIS
    yield line[end:]


def _json_end(line: str, start: int) -> int:
    """End of the JSON value that begins at `start`; end of the line if the JSON is incomplete."""
    try:
        return _DECODER.raw_decode(line, start)[1]
    except (ValueError, RecursionError):
        return len(line)
