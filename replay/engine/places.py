"""Where in a segment's file an offset or a rank lies, found by reading one row group at most."""

from typing import NamedTuple

import numpy as np

from controlplane.core.order import Rank
from replay.archive.manifest import Segment
from replay.archive.segments import File, RowGroup, row_groups
from replay.kernels.rows import numbers

UNKNOWN_MS = -1
"""Earlier than every time that is known: what does not know its time comes first."""


class Inside(NamedTuple):
    """How much of a segment lies up to a rank."""

    end: int
    """The offset behind the last record that does; 0: none does."""
    whole: bool


def row_of_offset(file: File, offset: int) -> int:
    """The first row whose offset is not below this one."""
    row = 0
    for group in row_groups(file):
        if group.last_offset >= offset:
            return row + int(np.searchsorted(numbers(group, "offset"), offset))
        row += len(group)
    return row


def time_of_offset(file: File, offset: int, before_ms: int | None) -> int | None:
    """The rank's time of the record with this offset; None: there is none."""
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


def inside(file: File, segment: Segment, limit: Rank, before_ms: int | None) -> Inside:
    """How much of a segment lies up to a rank (running maximum, partition, offset, topic)."""
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
                return Inside(end, whole=False)
        latest_ms = greatest_ms
    return Inside(end, whole=True)


def _rows_inside(
    group: RowGroup, segment: Segment, limit: Rank, before_ms: int
) -> tuple[int, bool]:
    """The offset behind the last row that lies up to a rank (0: none), and whether all do."""
    offsets = numbers(group, "offset")
    times = np.maximum(np.maximum.accumulate(numbers(group, "timestamp")), before_ms)
    count = int(np.searchsorted(times, limit[0], "left"))
    equal = int(np.searchsorted(times, limit[0], "right")) - count
    count += _equal_inside(offsets[count : count + equal].tolist(), segment, limit)
    return int(offsets[count - 1]) + 1 if count else 0, count == len(offsets)


def _equal_inside(offsets: list[int], segment: Segment, limit: Rank) -> int:
    """How many of the rows whose time is that of the rank lie up to it."""
    place = segment.partition, segment.topic
    return sum((limit[0], place[0], offset, place[1]) <= limit for offset in offsets)
