"""Numbers of archived records between offsets; files are read only where offsets are missing."""

from bisect import bisect_left, bisect_right
from itertools import accumulate
from threading import local

import numpy as np

from replay.archive.archived_cluster import ArchivedCluster, PartitionId
from replay.archive.manifest import Segment
from replay.archive.segments.removed_offsets import RemovedOffsets, read_offsets
from replay.archive.segments.segment_files import opened, row_groups
from replay.engine.coverage.hole_index import Int64s
from replay.kernels.row_runs import numbers


class _SegmentOffsets(local):
    """File name and offsets of the last segment that this thread has read."""

    name = ""
    offsets: Int64s = np.zeros(0, np.int64)


class OffsetCounts:
    """Counts the archived and the missing offsets of a cluster's partitions.

    A segment without missing offsets is never opened: its range gives the numbers. Offsets that
    retention has removed count as archived: their records were there.
    """

    def __init__(self, cluster: ArchivedCluster) -> None:
        self.cluster = cluster
        self._last = _SegmentOffsets()
        self._removed: dict[PartitionId, RemovedOffsets] = {}
        self._records: dict[PartitionId, list[int]] = {}

    def archived(self, place: PartitionId, start: int, end: int) -> int:
        """Number of records from `start` to before `end` that were archived.

        Raises:
            ArchiveCorrupt: a file is missing or damaged.
        """
        if end <= start:
            return 0
        segments = self.cluster.parts[place].segments
        low = bisect_right(segments, start, key=lambda segment: segment.end)
        high = bisect_left(segments, end, key=lambda segment: segment.start)
        # Only the first and the last segment can be cut: the step skips all segments between.
        outer = (segments[at] for at in range(low, high, max(high - low - 1, 1)))
        present = sum(self._within(segment, start, end) for segment in outer)
        if high - low > 2:  # the inner segments count whole
            totals = self._totals(place)
            present += totals[high - 1] - totals[low + 1]
        return present + self.removed(place).within(start, end)

    def _totals(self, place: PartitionId) -> list[int]:
        """Number of records before each segment, and in all."""
        if place not in self._records:
            records = (each.stored.records for each in self.cluster.parts[place].segments)
            self._records[place] = [*accumulate(records, initial=0)]
        return self._records[place]

    def removed(self, place: PartitionId) -> RemovedOffsets:
        """Offsets of a partition that retention has removed.

        Raises:
            ArchiveCorrupt: the file with them is missing or damaged.
        """
        if place not in self._removed:
            records = self.cluster.parts[place].removed
            self._removed[place] = read_offsets(self.cluster.store, records)
        return self._removed[place]

    def missing(self, place: PartitionId, start: int, end: int) -> int:
        """Number of offsets from `start` to before `end` that never had an archived record."""
        return max(0, end - start) - self.archived(place, start, end)

    def end_before(self, place: PartitionId, end: int) -> int:
        """Offset after the last record before `end` that was archived; 0 if there is none.

        Raises:
            ArchiveCorrupt: a file is missing or damaged.
        """
        segments = self.cluster.parts[place].segments
        behind = bisect_left(segments, end, key=lambda segment: segment.start)
        removed = self.removed(place).end_before(end)
        return max(removed, self._end_within(segments[behind - 1], end) if behind else 0)

    def begin_from(self, place: PartitionId, start: int) -> int:
        """Offset of the first archived record from `start` on; the partition's end without any.

        Raises:
            ArchiveCorrupt: a file is missing or damaged.
        """
        part = self.cluster.parts[place]
        at = bisect_left(part.segments, start + 1, key=lambda segment: segment.end)
        if at == len(part.segments):
            return part.end
        segment = part.segments[at]
        if start <= segment.start or segment.is_dense:
            return max(start, segment.start)
        offsets = self._offsets_of(segment)
        return int(offsets[np.searchsorted(offsets, start)])

    def _end_within(self, segment: Segment, end: int) -> int:
        """Offset after the last record of a segment before `end`; there must be one."""
        if end >= segment.end or segment.is_dense:
            return min(end, segment.end)
        offsets = self._offsets_of(segment)
        return int(offsets[np.searchsorted(offsets, end) - 1]) + 1

    def first_missing(self, place: PartitionId, start: int, end: int) -> int:
        """The first missing offset of a range; there must be one."""
        # The number of missing offsets up to an offset never falls. So bisection finds the first
        # offset at which it is 1. Whole segments are counted without a read, so they come first.
        whole = [each.end for each in self.cluster.parts[place].segments if start < each.end < end]
        at = bisect_left(whole, 1, key=lambda until: self.missing(place, start, until))
        first, last = (whole[at - 1] if at else start), (whole[at] if at < len(whole) else end)
        offsets = range(first, last)
        at = bisect_left(offsets, 1, key=lambda offset: self.missing(place, first, offset + 1))
        return offsets[at]

    def _within(self, segment: Segment, start: int, end: int) -> int:
        low, high = max(start, segment.start), min(end, segment.end)
        if (low, high) == (segment.start, segment.end):
            return segment.stored.records
        if segment.is_dense:
            return high - low
        rows = np.searchsorted(self._offsets_of(segment), (low, high))
        return int(rows[1] - rows[0])

    def _offsets_of(self, segment: Segment) -> Int64s:
        """Offsets of a segment; only the last segment is cached, because a search repeats it."""
        last = self._last
        if last.name != segment.stored.file:
            groups = row_groups(opened(self.cluster.store, segment.stored))
            last.offsets = np.concatenate([numbers(group, "offset") for group in groups])
            last.name = segment.stored.file
        return last.offsets
