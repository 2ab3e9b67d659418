"""Tables for people on standard output, laid out without breaking words.

Columns are narrowed to their longest word. If that is not enough, spare columns are left out. A
table that is still too wide becomes a block of lines per row.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from rich import box
from rich.table import Table
from rich.text import Text

from controlplane.terminal.command_errors import write
from controlplane.terminal.output import rendered, say
from controlplane.terminal.table_text import cell, cell_width, terminal_columns

GAP = 2
"""Spaces between two columns."""

LONGEST_WORD = 24
"""Longest word that is never broken; longer ones, such as a hash or compact JSON, may be."""

RICH_ROWS = 1_000
"""Number of rows up to which Rich arranges every table; Rich takes about 1 ms per row."""

INDENT = "  "
"""Indentation of the lines of a block."""

Styles = Mapping[int, str]
"""Rich styles by row number."""


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    styles: Styles | None = None,
    *,
    spare: Sequence[str] = (),
) -> None:
    """Print a table; `styles` by row number.

    Cells are made safe. If all heads are empty, they are left out.

    `spare` names columns that may be left out in a narrow terminal, the least important first. The
    JSON output must have their values.
    """
    layout = _lay_out(heads, rows, terminal_columns(), styles=styles, spare=spare)
    for part in layout.parts:
        text = part if isinstance(part, str) else rendered(part)
        # Cells are padded to the width of their column.
        write("".join(line.rstrip() + "\n" for line in text.splitlines()))
    if layout.left_out:
        say(f"no room here for {', '.join(layout.left_out)}: -o json has all")


class _TableLayout(NamedTuple):
    """Parts of a table, as text or for Rich, and the heads of the columns that were left out."""

    parts: Sequence[str | Text | Table]
    left_out: Sequence[str] = ()


@dataclass(frozen=True)
class _TableColumn:
    """A column of a table: its heading and its cells."""

    head: str
    cells: tuple[str, ...]

    @cached_property
    def cell_widths(self) -> list[int]:
        """Width of each cell, in terminal columns."""
        return [*map(cell_width, self.cells)]

    @cached_property
    def widest(self) -> int:
        """Width of its longest cell or its heading, in terminal columns; at least 1."""
        return max(1, cell_width(self.head), *self.cell_widths)

    @cached_property
    def narrowest(self) -> int:
        """Characters of its longest word, at most `LONGEST_WORD`."""
        words = (cell_width(word) for text in (self.head, *self.cells) for word in text.split())
        return min(LONGEST_WORD, max(words, default=1))


def _lay_out(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    width: int,
    *,
    styles: Styles | None = None,
    spare: Sequence[str] = (),
) -> _TableLayout:
    """Arrange a table in a width. Cells are made safe; if all heads are empty, they are left out.

    `spare` names columns that may be left out, the least important first.
    """
    cells = [tuple(map(cell, row)) for row in rows]
    columns = [
        _TableColumn(head, tuple(row[place] for row in cells)) for place, head in enumerate(heads)
    ]
    shown = _fitting(columns, spare, width)
    if not shown:
        return _TableLayout(_blocks(columns, len(cells), styles or {}))
    left_out = [column.head for column in columns if column not in shown]
    is_narrow = _with_gaps(column.widest for column in shown) <= width
    if len(cells) > RICH_ROWS and is_narrow and not styles:
        return _TableLayout([_padded(shown)], left_out)
    return _TableLayout([_aligned(shown, width, styles or {})], left_out)


def _fitting(
    columns: Sequence[_TableColumn], spare: Sequence[str], width: int
) -> Sequence[_TableColumn]:
    """The columns that fit, with as few left out as possible; empty: blocks are needed."""
    if _with_gaps(column.widest for column in columns) <= width:
        return columns
    for count in range(len(spare) + 1):
        shown = [column for column in columns if column.head not in spare[:count]]
        if _with_gaps(column.narrowest for column in shown) <= width:
            return shown
    return ()


def _with_gaps(widths: Iterable[int]) -> int:
    return sum(width + GAP for width in widths) - GAP


def _aligned(shown: Sequence[_TableColumn], width: int, styles: Styles) -> Table:
    grid = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        show_header=any(column.head for column in shown),
        pad_edge=False,
        padding=(0, 1, 0, 0),
        header_style="bold",
    )
    for column, room in zip(shown, _widths(shown, width), strict=True):
        grid.add_column(Text(column.head), width=room, overflow="fold")
    for number, row in enumerate(zip(*(column.cells for column in shown), strict=True)):
        grid.add_row(*map(Text, row), style=styles.get(number, ""))
    return grid


def _padded(shown: Sequence[_TableColumn]) -> str:
    """Arrange a table without styles, whose rows each fit in a line; the layout is that of Rich."""
    padded = (
        [
            text + " " * (column.widest - width)
            for text, width in zip(column.cells, column.cell_widths, strict=True)
        ]
        for column in shown
    )
    rows = map((" " * GAP).join, zip(*padded, strict=True))
    heads = [column.head + " " * (column.widest - cell_width(column.head)) for column in shown]
    if not any(column.head for column in shown):
        return "\n".join(rows)
    rule = "─" * _with_gaps(column.widest for column in shown)
    return "\n".join([(" " * GAP).join(heads), rule, *rows])


def _widths(shown: Sequence[_TableColumn], width: int) -> list[int]:
    """Width of each column: narrow columns get their full width, the others share the rest."""
    widths = [column.narrowest for column in shown]
    room = width - _with_gaps(widths)
    lacking = {place: column.widest - column.narrowest for place, column in enumerate(shown)}
    for served, place in enumerate(sorted(lacking, key=lambda place: lacking[place])):
        gain = min(lacking[place], room // (len(shown) - served))
        widths[place] += gain
        room -= gain
    return widths


# --- where there is no room for a table -----------------------------------------------------


def _blocks(columns: Sequence[_TableColumn], rows: int, styles: Styles) -> list[Text | Table]:
    """Lines of each row: its title, then a line per cell that is not empty."""
    heads = [column.head for column in columns]
    first = next((place for place, head in enumerate(heads) if head), 0)
    shown: list[Text | Table] = [Text(heads[first], style="bold")] if heads[first] else []
    for number in range(rows):
        row, style = [column.cells[number] for column in columns], styles.get(number, "")
        title = " ".join(filter(None, row[: first + 1]))
        if title:
            shown.append(Text(title, style=style, overflow="fold"))
        shown.append(_block(heads[first + 1 :], row[first + 1 :], style))
    return shown


def _block(heads: Sequence[str], cells: Sequence[str], style: str) -> Table:
    grid = Table.grid(padding=(0, GAP, 0, 0))
    labels = [f"{INDENT}{head}" if head else "" for head in heads]
    # All blocks of a table align their cells: the first column fits the table's longest label.
    grid.add_column(width=max([len(INDENT) - GAP, *map(cell_width, labels)]))
    grid.add_column(overflow="fold")
    for label, text in zip(labels, cells, strict=True):
        if text:
            grid.add_row(Text(label), Text(text), style=style)
    return grid
