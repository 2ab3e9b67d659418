"""Index of the offsets that are missing between archived records, for many lookups.

It reads the offsets of each segment that misses some, once, and takes 24 bytes per hole.
"""

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np

from replay.archive.archived_cluster import ArchivedCluster, ArchivedPartition, PartitionId
from replay.archive.segments.removed_offsets import read_offsets
from replay.archive.segments.segment_files import opened, row_groups
from replay.kernels.row_runs import numbers

Int64s: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.int64]]"


class MissingSpan(NamedTuple):
    """Span of missing offsets: one hole, or several with archived records between them."""

    after: int
    """Last archived offset before the first missing one."""
    until: int
    """First archived offset after the last missing one."""
    missing: int
    """Number of missing offsets, without the archived ones between them."""


class MissingOffsets(NamedTuple):
    """Missing ranges of a partition, ascending; they do not touch."""

    starts: Int64s
    stops: Int64s
    totals: Int64s
    """Number of missing offsets before each range; the last entry is the total."""

    @classmethod
    def of(cls, starts: Int64s, stops: Int64s) -> "MissingOffsets":
        """Create ascending ranges that do not touch, with their totals; `stops` are excluded."""
        return cls(starts, stops, np.concatenate(([0], np.cumsum(stops - starts))))

    def first(self, number: int) -> list[range]:
        """The first ranges, at most `number` of them."""
        return list(map(range, self.starts[:number].tolist(), self.stops[:number].tolist()))

    def before(self, offsets: Int64s) -> Int64s:
        """Number of missing offsets before each offset."""
        at = np.searchsorted(self.starts, offsets)
        # A range that contains the offset counts up to it. Index -1 reads the appended 0.
        behind = np.append(self.stops, 0)[at - 1] - offsets
        return self.totals[at] - np.where(at > 0, np.maximum(behind, 0), 0)

    def end_before(self, offsets: Int64s) -> Int64s:
        """For each offset, the offset after the last archived record before it, or 0."""
        at = np.searchsorted(self.stops, offsets)
        # After the last range every offset is archived, so the result is the offset itself:
        # `minimum` never takes the appended maximum.
        starts = np.append(self.starts, np.iinfo(np.int64).max)
        ends: Int64s = np.minimum(starts[at], offsets)
        return ends

    def first_from(self, offsets: Int64s) -> Int64s:
        """For each offset, the first missing offset at or after it; there must be one."""
        at = np.searchsorted(self.stops, offsets, side="right")
        first: Int64s = np.maximum(self.starts[at], offsets)
        return first


class HoleIndex:
    """Missing offsets of a cluster's partitions, read when they are first needed."""

    def __init__(self, cluster: ArchivedCluster) -> None:
        self._cluster = cluster
        self._unarchived: dict[PartitionId, MissingOffsets] = {}
        """Ranges without archived records; they include the offsets that retention has removed."""

    def missing(self, place: PartitionId) -> MissingOffsets:
        """Ranges that never had an archived record, also before the first and after the last one.

        Raises:
            ArchiveCorrupt: a file is missing or damaged.
        """
        unarchived, records = self._of(place), self._cluster.parts[place].removed
        if records is None:
            return unarchived
        removed = read_offsets(self._cluster.store, records)
        # Each removed range lies in one hole and cuts it in two: the first part stops where the
        # removed range starts, and the second part starts where the removed range ends. After
        # sorting, the n-th start and the n-th stop bound one part. A removed range at the edge of a
        # hole leaves an empty part.
        starts = np.sort(np.concatenate((unarchived.starts, removed.ends)))
        stops = np.sort(np.concatenate((unarchived.stops, removed.starts)))
        holes = starts < stops
        return MissingOffsets.of(starts[holes], stops[holes])

    def between(self, place: PartitionId, after: int, until: int) -> MissingSpan | None:
        """Missing offsets from an archived record to a later one, or to the end; None if none are.

        Offsets that retention has removed are missing as well.

        Raises:
            ArchiveCorrupt: a file is missing or damaged.
        """
        starts, stops, totals = self._of(place)
        low, high = np.searchsorted(starts, (after, until))
        if low >= high:
            return None
        number = int(totals[high] - totals[low])
        return MissingSpan(int(starts[low]) - 1, int(stops[high - 1]), number)

    def _of(self, place: PartitionId) -> MissingOffsets:
        if place not in self._unarchived:
            self._unarchived[place] = _unarchived(self._cluster, self._cluster.parts[place])
        return self._unarchived[place]


def _unarchived(cluster: ArchivedCluster, part: ArchivedPartition) -> MissingOffsets:
    starts, stops = [], []
    behind = 0
    for offsets in _offsets(cluster, part):
        # Offset that each row would have if none were missing.
        before = np.concatenate(([behind], offsets[:-1] + 1))
        rows = np.flatnonzero(offsets > before)
        starts.append(before[rows])
        stops.append(offsets[rows])
        behind = int(offsets[-1]) + 1
    if part.end > behind:
        starts.append(np.array([behind]))
        stops.append(np.array([part.end]))
    empty = np.zeros(0, np.int64)
    return MissingOffsets.of(np.concatenate((empty, *starts)), np.concatenate((empty, *stops)))


def _offsets(cluster: ArchivedCluster, part: ArchivedPartition) -> Iterator[Int64s]:
    """Offsets of each row group; a segment without holes is not read."""
    for segment in part.segments:
        if segment.is_dense:
            yield np.arange(segment.start, segment.end)
        else:
            for group in row_groups(opened(cluster.store, segment.stored)):
                yield numbers(group, "offset")
