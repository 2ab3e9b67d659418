"""Plan of a retention: the records that no state at or after a cut in time needs.

The law: for every moment from the cut on, every release gives the same states, timelines and
histories as before. The page docs/archives.md has it in full. The law holds topic by topic:

- Offsets and statuses: the rows that may still count at the cut stay (`archive.segments.winners`).
  Snapshots are made of the same rows.
- Configs: records stay unless a later one overwrites all that they did (`superseded_configs`). In a
  topic with several partitions, all of them stay.
- Commands: every record stays.
- The last record before the cut of each partition stays, because a capture continues from it.
- Ranks stay as they are. The rank of a record begins with the greatest timestamp of the partition
  up to the record. So if a record stays, the record that has this timestamp stays as well.

A record without a time stays until a later record of its partition has a time before the cut.
"""

from time import time
from typing import TypeAlias

import numpy as np

from controlplane.core.order import time_limit
from replay.archive.archived_cluster import ArchivedCluster, PartitionId
from replay.archive.merges.retention import PlanMaker, SupersededRecords, segments_before
from replay.archive.segments.removed_offsets import OffsetColumn
from replay.archive.segments.segment_files import RowGroup, opened, row_groups
from replay.archive.segments.winners import reducible, winners
from replay.engine.plans.moment_cut import ends_within
from replay.engine.plans.row_lookup import row_of_offset
from replay.engine.plans.superseded_configs import superseded_offsets
from replay.kernels.row_runs import numbers, running_times

_RowMask: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.bool_]]"

_NONE = np.zeros(0, np.int64)


class AgeRetention:
    """`RetentionPlan` that removes the records which were superseded `age_ms` ago or earlier."""

    def __init__(self, cluster: ArchivedCluster, age_ms: int, now_ms: int) -> None:
        self.age_ms = age_ms
        self.cut_ms = now_ms - age_ms
        self._cluster = cluster
        self._ends: dict[str, list[int]] = {}

    def end_of(self, place: PartitionId) -> int:
        """Offset at which the cut divides a partition; 0 if the retention removes nothing from it.

        Raises:
            ArchiveCorrupt: the segment with the cut in it is missing or damaged.
        """
        topic, partition = place
        if self.cut_ms < 0 or not self._may_go(place):
            return 0
        if topic not in self._ends:
            limit = time_limit(self.cut_ms)
            self._ends |= ends_within(self._cluster, [topic], limit)
        return self._ends[topic][partition]

    def superseded(self, place: PartitionId) -> SupersededRecords:
        """Records of a partition that the retention removes.

        Raises:
            ArchiveCorrupt: a segment is missing or damaged.
        """
        end = self.end_of(place)
        runs = self._runs(place, end) if end else []
        if not runs:
            return SupersededRecords(end, _NONE)
        times = np.concatenate(list(running_times(runs)))
        if times[-1] < 0:
            return SupersededRecords(end, _NONE)
        offsets = np.concatenate([numbers(rows, "offset") for rows in runs])
        stays = self._staying(place, offsets, runs)
        stays[-1] = True
        stays[_setters(runs, times, stays)] = True
        return SupersededRecords(end, offsets[~stays])

    def _may_go(self, place: PartitionId) -> bool:
        """True if some records of a topic may be superseded."""
        topics = self._cluster.topics
        alone = len(self._cluster.ends[topics.config]) == 1
        return reducible(place[0], topics) or (place[0] == topics.config and alone)

    def _staying(self, place: PartitionId, offsets: OffsetColumn, runs: list[RowGroup]) -> _RowMask:
        """Rows whose record may still count at the cut."""
        topics = self._cluster.topics
        if place[0] == topics.config:
            stays = np.ones(len(offsets), np.bool_)
            stays[np.searchsorted(offsets, superseded_offsets(runs))] = False
            return stays
        stays = np.zeros(len(offsets), np.bool_)
        counting = winners(runs, place[0], topics, None).column("offset").to_numpy()
        stays[np.searchsorted(offsets, counting)] = True
        return stays

    def _runs(self, place: PartitionId, end: int) -> list[RowGroup]:
        """Rows of a partition before an offset."""
        runs: list[RowGroup] = []
        for segment in segments_before(self._cluster, place, end):
            file = opened(self._cluster.store, segment.stored)
            rows = segment.stored.records if segment.end <= end else row_of_offset(file, end)
            runs += row_groups(file, 0, rows)
        return runs


def _setters(runs: list[RowGroup], times: OffsetColumn, stays: _RowMask) -> OffsetColumn:
    """Rows that set the running maximum at a surviving row, or at the last row."""
    own = np.concatenate([numbers(rows, "timestamp") for rows in runs])
    # Running maxima never fall, so the first row with a value is the row that set it.
    late = np.flatnonzero(stays & (own < times))
    setters: OffsetColumn = np.searchsorted(times, np.append(times[late], times[-1]))
    return setters


def older_than(age_ms: int, now_ms: int | None = None) -> PlanMaker:
    """Plan to remove records that were superseded `age_ms` before `now_ms` (by default now)."""
    moment_ms = int(time() * 1_000) if now_ms is None else now_ms
    return lambda cluster: AgeRetention(cluster, age_ms, moment_ms)
