"""Type of options that name a file to write."""

from pathlib import Path
from typing import Any

import click


class OutputFile(click.Path):
    """Path of a file to write. An empty text, which `Path` turns into a dot, is refused."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path.

        Raises:
            BadParameter: the text is empty: usually an unset variable of a script.
        """
        if value == "":
            self.fail("it is empty: name a file", param, ctx)
        return super().convert(value, param, ctx)
