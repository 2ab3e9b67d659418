"""Migrations whose process dies at a named gap, and whose command is then run again."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from itertools import chain
from pathlib import Path

from controlplane.client.http.api import Api
from controlplane.client.http.cluster_address import ClusterAccess, ClusterAddress
from controlplane.client.http.connection import connected
from controlplane.client.migration.migration_check import check_migration
from controlplane.client.migration.migration_journal import MigrationJournal
from controlplane.client.migration.migration_plan import END, GAPS, UNDO_GAPS
from controlplane.client.migration.migration_run import MigrationRun
from tests.patience import PATIENCE_S

ConcurrentChange = Callable[[Api, Api], Awaitable[object]]
"""Concurrent change at a gap: receives the APIs of the `--from` and `--to` clusters."""


CRASH_POINTS = (*chain.from_iterable(GAPS.values()), END)
UNDO_CRASH_POINTS = (*chain.from_iterable(UNDO_GAPS.values()),)


class Killed(BaseException):
    """Death of the process: no later step is executed."""


class CutOffMigration:
    """Migration that is run again after each death of its process."""

    def __init__(
        self, name: str, source: str, target: str, folder: Path, *, deletes: bool = False
    ) -> None:
        self._name = name
        self._places = (source, target)
        self._deletes = deletes
        self.journal = MigrationJournal(folder / f"{name}.journal.json")
        self.gaps: list[str] = []
        """Gaps that all runs have passed."""

    async def run(
        self,
        killed_at: str | None = None,
        concurrent_changes: Mapping[str, ConcurrentChange] | None = None,
    ) -> None:
        """Run the migration from its beginning or from its journal.

        Raises:
            Killed: at this gap.
            ClickException: the migration failed.
        """
        async with AsyncExitStack() as stack:
            source, target = [
                await stack.enter_async_context(
                    connected(ClusterAddress(place), ClusterAccess.WRITE)
                )
                for place in self._places
            ]

            async def at(gap: str) -> None:
                self.gaps.append(gap)
                if gap in (concurrent_changes or {}):
                    await (concurrent_changes or {})[gap](source, target)
                if gap == killed_at:
                    raise Killed

            migration = self.journal.read()
            if migration is None:
                precheck = await check_migration(source, target, self._name, deletes=self._deletes)
                migration = precheck.migration
            run = MigrationRun(
                migration, self.journal, source, target, timeout_s=PATIENCE_S, at_gap=at
            )
            await run.run(lambda _: None)

    async def killed_at_each(
        self, gaps: Iterable[str], concurrent_changes: Mapping[str, ConcurrentChange] | None = None
    ) -> None:
        """Run the migration once per gap and die there; each run continues after the last one."""
        for gap in gaps:
            try:
                await self.run(gap, concurrent_changes)
            except Killed:
                continue
            raise AssertionError(f"there is no gap {gap!r}: {self.gaps}")
