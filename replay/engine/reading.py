"""Carrying out the part of a plan that is about one partition: rows in, the few that count out.

This is what a task of Spark's does, and a thread of the local engine.
"""

from collections.abc import Sequence

import pyarrow as pa

from controlplane.core.profiles import Profile
from controlplane.core.state import Topics
from replay.archive.segments import opened, row_groups
from replay.archive.store import Store
from replay.archive.winners import reducible
from replay.engine.plan import PartPlan
from replay.kernels.last_value import last_times, last_values
from replay.kernels.rows import Held, Rows
from replay.kernels.statuses import counting_rows, since

_FOLDED = ("offset", "timestamp", "key", "value", "aborted")
"""The columns of which a fold takes any notice."""


class Reader:
    """What is asked of every partition: whose topics, which releases, seeing aborted records?"""

    def __init__(
        self,
        store: Store,
        topics: Topics,
        profiles: Sequence[Profile],
        *,
        exactly_once: bool = False,
    ) -> None:
        self._store = store
        self._topics = topics
        self._profiles = profiles
        self._exactly_once = exactly_once

    def reduced(self, part: PartPlan, before_ms: int | None = None) -> pa.Table:
        """The rows of a partition that count, ascending; of a slice, that may count.

        `before_ms` is the greatest timestamp of the partition before a slice.

        Raises:
            ArchiveCorrupt: a file is missing or damaged.
        """
        runs = self.runs(part)
        if not reducible(part.topic, self._topics):
            return pa.concat_tables([rows.read(*_FOLDED) for rows in runs])
        aborted = self._sees_aborted(part)
        if part.topic == self._topics.status:
            return since(counting_rows(runs, self._profiles, aborted=aborted), before_ms)
        return last_values(runs, aborted=aborted)

    def merged(self, topic: str, slices: pa.Table) -> pa.Table:
        """The same of what was left of the slices of one partition, ascending."""
        runs = [Held(slices)]
        if topic == self._topics.status:
            return counting_rows(runs, self._profiles, aborted=True)
        return last_values(runs, aborted=True)

    def ranked(self, part: PartPlan) -> pa.Table:
        """The last row of each key of an offsets topic's partition, each with its rank's time."""
        return last_times(self.runs(part), aborted=self._sees_aborted(part))

    def runs(self, part: PartPlan) -> list[Rows]:
        """The rows of a partition, as they lie in files."""
        return [
            group
            for piece in part.pieces
            for group in row_groups(opened(self._store, piece.stored), piece.begin, piece.end)
        ]

    def _sees_aborted(self, part: PartPlan) -> bool:
        """Readers of a connector's own offsets topic never do (`Fold.sees_aborted`)."""
        known = part.topic in (self._topics.offsets, self._topics.status)
        return (known and not self._exactly_once) or not part.aborted
