"""Output of lines and JSON, safe against control characters and markup in logs."""

import json
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from io import StringIO
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from controlplane.core.java import json_codec
from controlplane.core.text.safe_text import safe
from controlplane.core.text.value_text import plain
from controlplane.terminal.command_errors import flush, write
from controlplane.terminal.table_text import terminal_columns

DEPTH_INDENTED = 100
"""Deepest JSON that is indented: deeper JSON would be mostly spaces, and is put on one line."""


def say(text: str = "", style: str = "") -> None:
    """Print a line, made safe; on a terminal it wraps between words."""
    write(rendered(Text(safe(text), style=style), soft_wrap=not _is_terminal()))


def note(text: str) -> None:
    """Write a note: a line to standard error, unless `set_note_writer` has set another output."""
    _note_writer.get()(text)


def set_note_writer(write_note: Callable[[str], object]) -> None:
    """Set the function that gets the notes of this command, instead of standard error."""
    _note_writer.set(write_note)


def _write_line(text: str) -> None:
    flush()  # keeps the order of lines if both outputs go to one terminal or pipe
    if sys.stderr is not None:
        sys.stderr.write(safe(text) + "\n")


_note_writer: ContextVar[Callable[[str], object]] = ContextVar("note_writer", default=_write_line)


def print_json(value: Any) -> None:
    """Print a JSON document, indented unless it is nested too deeply."""
    document = plain(value)
    if _is_deep(document):
        text = json_codec.encode(document).decode()
    else:
        ascii_only = not (getattr(sys.stdout, "encoding", None) or "").lower().startswith("utf")
        text = _indented(document, ascii_only=ascii_only)
    # A lone surrogate is no UTF-8, but as an escape it is JSON.
    write(_SURROGATE.sub(lambda match: f"\\u{ord(match.group()):04x}", text) + "\n")


_SURROGATE = re.compile("[\ud800-\udfff]")


def _indented(document: Any, *, ascii_only: bool) -> str:
    """JSON text with a line per member. `json` indents in Python, seven times as slowly."""
    with suppress(ValueError):  # msgspec refuses lone surrogates, which a log may hold
        return msgspec.json.format(json.dumps(document, ensure_ascii=ascii_only), indent=2)
    return json.dumps(document, indent=2, ensure_ascii=ascii_only)


def _is_deep(value: Any) -> bool:
    """True if a value is nested more deeply than JSON is indented."""
    level = [value]
    for _ in range(DEPTH_INDENTED):
        level = [
            member
            for item in level
            if isinstance(item, dict | list)
            for member in (item.values() if isinstance(item, dict) else item)
        ]
    return any(isinstance(item, dict | list) for item in level)


def _is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def rendered(what: Any, *, soft_wrap: bool = False) -> str:
    """Render a Rich object for standard output, with colours only on a terminal."""
    terminal = _is_terminal()
    console = Console(
        file=StringIO(),
        force_terminal=terminal,
        width=terminal_columns(),
        no_color=not terminal,
        highlight=False,
        markup=False,
        emoji=False,
    )
    with console.capture() as printed:
        console.print(what, soft_wrap=soft_wrap)
    return printed.get()
