"""Option for the format of the output."""

from collections.abc import Callable

import click

from controlplane.terminal.option_names import Decorated
from controlplane.terminal.table_text import wide_option


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
