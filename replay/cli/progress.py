"""How far something long has come: a bar on standard error, on a terminal only, gone afterwards."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from controlplane.core.safe_text import safe


class Bar:
    """What is done, of how much."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None, visible=False)

    def begin(self, what: str, total: int) -> None:
        """Say what is done now, and how much of it there is."""
        self._progress.reset(self._task, description=safe(what), total=total, visible=True)

    def advance(self, amount: int) -> None:
        """Say that so much more of it is done."""
        self._progress.advance(self._task, amount)


@contextmanager
def bar() -> Iterator[Bar]:
    """A bar, for as long as it takes."""
    progress = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),  # of a fleet each cluster counts one, and may take long
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    with progress:
        yield Bar(progress)
