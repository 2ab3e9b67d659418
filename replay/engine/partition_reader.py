"""Reader of one partition of a plan: reads many rows, and keeps the few that count.

Spark tasks and threads of the local engine run it.
"""

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa

from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Topics
from replay.archive.segments.segment_files import opened, row_groups
from replay.archive.segments.winners import reducible
from replay.archive.stores.concurrent_requests import concurrently
from replay.archive.stores.store import ArchiveStore
from replay.engine.plans.read_plan import PartitionPlan
from replay.kernels.last_value import last_times, last_values, last_values_of_parts
from replay.kernels.row_runs import HeldRows, RowRun
from replay.kernels.status_rows import counting_rows, with_earlier_time

SMALL_ROWS = 10_000
"""Limit of rows of a partition that is reduced together with others.

A joint reduction reads the values of all rows. A larger partition is faster alone. Values are then
read only from row groups with the last row of a key.
"""

GROUP_ROWS = 65_536
"""Limit of rows that are reduced together; it bounds the memory."""

_FOLDED = ("offset", "timestamp", "key", "value", "aborted")
"""Columns that the fold uses."""


class PartitionReader:
    """Reads partitions for given releases, with or without aborted records."""

    def __init__(
        self,
        store: ArchiveStore,
        topics: Topics,
        profiles: Sequence[Profile],
        *,
        exactly_once: bool = False,
    ) -> None:
        self._store = store
        self._topics = topics
        self._profiles = profiles
        self._exactly_once = exactly_once

    def reduced(self, part: PartitionPlan, before_ms: int | None = None) -> pa.Table:
        """Rows of a partition that count, ascending; for a slice, rows that may count.

        `before_ms` is the greatest timestamp of the partition before a slice.

        Raises:
            ArchiveCorrupt: a file is missing or damaged.
        """
        runs = self.runs(part)
        if not reducible(part.topic, self._topics):
            return pa.concat_tables([rows.read(*_FOLDED) for rows in runs])
        aborted = self._sees_aborted(part)
        if part.topic == self._topics.status:
            return with_earlier_time(
                counting_rows(runs, self._profiles, aborted=aborted), before_ms
            )
        return last_values(runs, aborted=aborted)

    def groups(self, parts: Sequence[PartitionPlan]) -> Iterator[list[PartitionPlan]]:
        """Group parts: small partitions of offsets are reduced together, others alone."""
        group: list[PartitionPlan] = []
        rows = 0
        for part in parts:
            small = self._is_small(part)
            if group and not (small and rows + part.rows <= GROUP_ROWS):
                yield group
                group, rows = [], 0
            group.append(part)
            rows += part.rows if small else GROUP_ROWS
        if group:
            yield group

    def _is_small(self, part: PartitionPlan) -> bool:
        """True for few rows of an offsets topic, if the reader also sees aborted ones."""
        is_offsets = reducible(part.topic, self._topics) and part.topic != self._topics.status
        return is_offsets and part.rows <= SMALL_ROWS and self._sees_aborted(part)

    def reduced_group(self, group: Sequence[PartitionPlan]) -> list[pa.Table]:
        """Rows that count, for each part of a group that `groups` has formed.

        Raises:
            ArchiveCorrupt: a file is missing or damaged.
        """
        if len(group) == 1:
            return [self.reduced(group[0])]
        return last_values_of_parts(self._runs_of(group))

    def merged(self, topic: str, slices: pa.Table) -> pa.Table:
        """Reduce the remaining rows of all slices of one partition, ascending."""
        runs = [HeldRows(slices)]
        if topic == self._topics.status:
            return counting_rows(runs, self._profiles, aborted=True)
        return last_values(runs, aborted=True)

    def ranked(self, part: PartitionPlan, before_ms: int | None = None) -> pa.Table:
        """Last row of each key of an offsets partition or slice, with its running maximum time."""
        return with_earlier_time(
            last_times(self.runs(part), aborted=self._sees_aborted(part)), before_ms
        )

    def runs(self, part: PartitionPlan) -> list[RowRun]:
        """Rows of a partition: one run for each row group of its files."""
        return self._runs_of([part])[0]

    def _runs_of(self, parts: Sequence[PartitionPlan]) -> list[list[RowRun]]:
        stored = [piece.stored for part in parts for piece in part.pieces]
        files = concurrently(partial(opened, self._store), stored, self._store.requests_at_once)
        return [
            [
                rows
                for piece in part.pieces
                for rows in row_groups(next(files), piece.begin, piece.end)
            ]
            for part in parts
        ]

    def _sees_aborted(self, part: PartitionPlan) -> bool:
        """True if the reader sees all rows of a partition (`Topics.sees_aborted`)."""
        sees_aborted = self._topics.sees_aborted(part.topic, exactly_once=self._exactly_once)
        return sees_aborted or not part.aborted
