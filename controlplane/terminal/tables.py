"""Tables for people on standard output."""

from collections.abc import Iterable, Sequence

from controlplane.terminal.command_errors import write
from controlplane.terminal.output import rendered, say
from controlplane.terminal.table_layout import Styles, lay_out
from controlplane.terminal.table_text import columns


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    styles: Styles | None = None,
    *,
    spare: Sequence[str] = (),
) -> None:
    """Print a table; `styles` by row number. Cells are made safe; empty heads are left out.

    `spare` names columns that may be left out in a narrow terminal, the least important first. The
    JSON output must have their values.
    """
    layout = lay_out(heads, rows, columns(), styles=styles, spare=spare)
    for part in layout.parts:
        # Rich pads cells to the width of their column.
        write("".join(line.rstrip() + "\n" for line in rendered(part).splitlines()))
    if layout.left_out:
        say(f"no room here for {', '.join(layout.left_out)}: -o json has all")
