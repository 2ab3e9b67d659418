"""Lookup of an offset or a rank in a segment's file; reads few row groups.

A rank is the place of a record in the one order (`core.order`). A lookup of an offset reads one row
group at most. A lookup of a rank also reads each row group whose greatest time is that of the rank.
"""

import numpy as np

from controlplane.core.order import Rank
from replay.archive.manifest import Segment
from replay.archive.segments.removed_offsets import OffsetColumn
from replay.archive.segments.segment_files import ArchiveFile, RowGroup, row_groups
from replay.kernels.row_runs import numbers

UNKNOWN_MS = -1
"""Earlier than every known time: records without a time come first."""


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
            offsets, times = _offsets_and_times(group)
            at = int(np.searchsorted(offsets, offset))
            if at == len(offsets) or offsets[at] != offset:
                return None
            return max(latest_ms, int(times[: at + 1].max()))
        latest_ms = max(latest_ms, group.greatest_time_ms)
    return None


def end_inside(file: ArchiveFile, segment: Segment, limit: Rank, before_ms: int | None) -> int:
    """Offset after the last record of a segment up to a rank; 0 if there is none.

    `before_ms` is the running maximum of timestamps before the segment.
    """
    latest_ms = UNKNOWN_MS if before_ms is None else max(UNKNOWN_MS, before_ms)
    end = 0
    for group in row_groups(file):
        greatest_ms = max(latest_ms, group.greatest_time_ms)
        if greatest_ms < limit[0]:
            end = group.last_offset + 1
        else:
            within, is_whole = _rows_inside(group, segment, limit, latest_ms)
            end = within or end
            if not is_whole:
                break
        latest_ms = greatest_ms
    return end


def _rows_inside(
    group: RowGroup, segment: Segment, limit: Rank, before_ms: int
) -> tuple[int, bool]:
    """Offset after the last row up to a rank, or 0; and True if all rows lie up to the rank."""
    offsets, times = _offsets_and_times(group)
    times = np.maximum(np.maximum.accumulate(times), before_ms)
    # Times never fall, so rows with the time of the rank are adjacent. Partition, offset and topic
    # decide among them.
    count = int(np.searchsorted(times, limit[0], "left"))
    equal = int(np.searchsorted(times, limit[0], "right")) - count
    count += _equal_inside(offsets[count : count + equal].tolist(), segment, limit)
    return int(offsets[count - 1]) + 1 if count else 0, count == len(offsets)


def _offsets_and_times(group: RowGroup) -> tuple[OffsetColumn, OffsetColumn]:
    """Two columns of a row group; they are adjacent in the file, so one request reads both."""
    table = group.read("offset", "timestamp")
    return table.column("offset").to_numpy(), table.column("timestamp").to_numpy()


def _equal_inside(offsets: list[int], segment: Segment, limit: Rank) -> int:
    """Number of rows up to the rank, among those with the rank's time."""
    place = segment.partition, segment.topic
    return sum((limit[0], place[0], offset, place[1]) <= limit for offset in offsets)
