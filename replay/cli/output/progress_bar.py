"""Progress bar on standard error; only on a terminal, and removed afterwards."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from controlplane.core.text.safe_text import safe


class ProgressBar:
    """Progress of the present step; no bar is visible before `begin`."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None, visible=False)

    def begin(self, what: str, total: int) -> None:
        """Start a step with a total amount of work."""
        self._progress.reset(self._task, description=safe(what), total=total, visible=True)

    def advance(self, amount: int) -> None:
        """Add to the amount of work done."""
        self._progress.advance(self._task, amount)


@contextmanager
def bar() -> Iterator[ProgressBar]:
    """Yield a progress bar for the duration of the block."""
    progress = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),  # a step may be one whole cluster and take long
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    with progress:
        yield ProgressBar(progress)
