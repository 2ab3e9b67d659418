"""Lookup of an offset or a rank in a segment's file; reads few row groups.

A rank is the place of a record in the one order (`core.order`). A lookup of an offset reads one row
group at most. A lookup of a rank also reads each row group whose greatest time is that of the rank.
"""

from typing import NamedTuple

import numpy as np

from controlplane.core.order import Rank
from replay.archive.manifest import Segment
from replay.archive.segments.segment_files import ArchiveFile, RowGroup, row_groups
from replay.kernels.row_runs import numbers

UNKNOWN_MS = -1
"""Earlier than every known time: records without a time come first."""


class RankSearch(NamedTuple):
    """Part of a segment that lies up to a rank."""

    end: int
    """Offset after the last such record; 0 if there is none."""
    whole: bool
    """True if all records of the segment lie up to the rank."""


def row_of_offset(file: ArchiveFile, offset: int) -> int:
    """Number of the first row at or after an offset."""
    row = 0
    for group in row_groups(file):
        if group.last_offset >= offset:
            return row + int(np.searchsorted(numbers(group, "offset"), offset))
        row += len(group)
    return row


def time_of_offset(file: ArchiveFile, offset: int, before_ms: int | None) -> int | None:
    """Running maximum of timestamps at an offset; None if no record has the offset."""
    latest_ms = UNKNOWN_MS if before_ms is None else max(UNKNOWN_MS, before_ms)
    for group in row_groups(file):
        if group.last_offset >= offset:
            offsets = numbers(group, "offset")
            at = int(np.searchsorted(offsets, offset))
            if at == len(offsets) or offsets[at] != offset:
                return None
            return max(latest_ms, int(numbers(group, "timestamp")[: at + 1].max()))
        latest_ms = max(latest_ms, group.greatest_time_ms)
    return None


def inside(file: ArchiveFile, segment: Segment, limit: Rank, before_ms: int | None) -> RankSearch:
    """Part of a segment up to a rank (running maximum, partition, offset, topic)."""
    latest_ms = UNKNOWN_MS if before_ms is None else max(UNKNOWN_MS, before_ms)
    end = 0
    for group in row_groups(file):
        greatest_ms = max(latest_ms, group.greatest_time_ms)
        if greatest_ms < limit[0]:
            end = group.last_offset + 1
        else:
            within, rows = _rows_inside(group, segment, limit, latest_ms)
            end = within or end
            if not rows:
                return RankSearch(end, whole=False)
        latest_ms = greatest_ms
    return RankSearch(end, whole=True)


def _rows_inside(
    group: RowGroup, segment: Segment, limit: Rank, before_ms: int
) -> tuple[int, bool]:
    """Offset after the last row up to a rank, or 0; and True if all rows lie up to the rank."""
    offsets = numbers(group, "offset")
    times = np.maximum(np.maximum.accumulate(numbers(group, "timestamp")), before_ms)
    # Times never fall, so rows with the time of the rank are adjacent. Partition, offset and topic
    # decide among them.
    count = int(np.searchsorted(times, limit[0], "left"))
    equal = int(np.searchsorted(times, limit[0], "right")) - count
    count += _equal_inside(offsets[count : count + equal].tolist(), segment, limit)
    return int(offsets[count - 1]) + 1 if count else 0, count == len(offsets)


def _equal_inside(offsets: list[int], segment: Segment, limit: Rank) -> int:
    """Number of rows up to the rank, among those with the rank's time."""
    place = segment.partition, segment.topic
    return sum((limit[0], place[0], offset, place[1]) <= limit for offset in offsets)
