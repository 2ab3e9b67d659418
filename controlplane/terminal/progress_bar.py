"""Progress on standard error, only on a terminal; it disappears at the end."""

import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from controlplane.core.entry import Batch
from controlplane.core.order import Ends
from controlplane.logs.log import ReadableLog
from controlplane.logs.snapshots import SnapshotStore, snapshot_store_of

WORTH_A_BAR_RECORDS = 100_000
"""Least number of records for a bar: the reading of fewer records is short."""


class LogWithProgress:
    """Log that shows the progress of reading."""

    def __init__(self, log: ReadableLog, name: str) -> None:
        self._log = log
        self._name = name

    @property
    def snapshots(self) -> SnapshotStore | None:
        """Snapshots of the wrapped log; None if it has none."""
        return snapshot_store_of(self._log)

    async def topics(self) -> Mapping[str, int]:
        """Topics of the wrapped log, with their number of partitions."""
        return await self._log.topics()

    async def starts(self, topics: Iterable[str]) -> Ends:
        """First offsets of the wrapped log, by topic."""
        return await self._log.starts(topics)

    async def ends(self, topics: Iterable[str]) -> Ends:
        """End offsets of the wrapped log, by topic."""
        return await self._log.ends(topics)

    async def read(
        self, topics: Iterable[str], start: Ends | None = None, stop: Ends | None = None
    ) -> AsyncIterator[Batch]:
        """Read the log, with a bar if there are many records."""
        names = list(topics)
        expected = await self._expected(names, stop) if sys.stderr.isatty() else 0
        with _progress(visible=expected >= WORTH_A_BAR_RECORDS) as progress:
            bar = progress.add_task(f"reading {self._name}", total=expected)
            async for batch in self._log.read(names, start, stop):
                progress.update(bar, advance=len(batch))
                yield batch

    def tail(self, topics: Iterable[str], start: Ends) -> AsyncIterator[Batch]:
        """Follow the wrapped log, without a bar."""
        return self._log.tail(topics, start)

    async def close(self) -> None:
        """Close the wrapped log."""
        await self._log.close()

    async def _expected(self, topics: list[str], stop: Ends | None) -> int:
        """Maximum number of records to read; gaps are counted as well."""
        starts, ends = await self._log.starts(topics), stop or await self._log.ends(topics)
        return sum(
            max(0, end - begin)
            for topic in topics
            for begin, end in zip(starts[topic], ends.get(topic, ()), strict=False)
        )


def _progress(*, visible: bool, counted: bool = True) -> Progress:
    columns = [TextColumn("{task.description}", markup=False), BarColumn()]
    if counted:
        columns.append(MofNCompleteColumn())
    return Progress(
        *columns,
        console=Console(stderr=True),
        transient=True,
        disable=not visible,
    )


@contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """Show a description of work whose length is unknown.

    The yielded function replaces the description.
    """
    with _progress(visible=sys.stderr.isatty(), counted=False) as progress:
        task = progress.add_task(what, total=None)
        yield lambda words: progress.update(task, description=words)


@contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show how many steps of a task are done.

    The yielded function takes the number of steps that are done, and that of all steps.
    """
    with _progress(visible=sys.stderr.isatty()) as progress:
        task = progress.add_task(what, total=None)
        yield lambda finished, total: progress.update(task, completed=finished, total=total)
