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
    """Print aligned columns; `styles` by row number; heads that are all empty are left out.

    `spare` names columns that may be left out where there is no room, the least important first;
    they must be part of the same answer as JSON. Cells are made safe here.
    """
    layout = lay_out(heads, rows, columns(), styles=styles, spare=spare)
    for part in layout.parts:
        # Rich pads cells to the width of their column.
        write("".join(line.rstrip() + "\n" for line in rendered(part).splitlines()))
    if layout.left_out:
        say(f"no room here for {', '.join(layout.left_out)}: -o json has all")
