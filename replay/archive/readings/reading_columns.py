"""Readings of a partition in columns, and the looks that they make.

A *reading* is what one append has read of a partition. A *look* reads up to the end that the log
has then. A look consists of several readings if the capture committed in between.

The log cleaner removes old tombstones, and each record whose key has a later record. During a look,
the capture may not have read that later record yet. At the end of the look, the later record is
archived. So the archive has the last record of each key at the end of a look, but not always
before. The ends of looks decide which states are certain (`replay.engine.coverage.certainty`).

A look without missing offsets leaves nothing in doubt, wherever it ends, and however late it comes.
Adjacent ones therefore count as one (`joined`), so a merge keeps few readings of a dense partition.
"""

from typing import NamedTuple, TypeAlias

import numpy as np

from replay.archive.manifest import Segment
from replay.archive.segments.removed_offsets import OffsetColumn

Flags: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.bool_]]"


class PartitionLooks(NamedTuple):
    """Looks at one partition in columns, the oldest first; looks without offsets are left out."""

    starts: OffsetColumn
    """First offset of each look; 0 for the first look.

    Offsets before the first read offset count as missing offsets of the first look.
    """
    ends: OffsetColumn
    whole: Flags
    """True if the capture reached the end of the log. Only the last look may lack it."""
    first_end: int
    """End of the first look, also if it found no offset."""
    late: OffsetColumn
    """Starts of late readings. A late reading comes so long after the previous one that it may miss
    a tombstone."""
    late_ends: OffsetColumn
    """End of the look of each late reading."""
    number: int
    """Number of looks with offsets, including those that were joined into others."""


class PartitionReadings(NamedTuple):
    """Readings of one partition in columns, the oldest first; at least one."""

    starts: OffsetColumn
    ends: OffsetColumn
    whole: Flags
    """True if the reading reached the end that the log had then, and so ended a look."""
    late: Flags
    """True if the previous reading is so long ago that this one may have missed a tombstone."""
    dense: Flags
    """True if no offset of the reading is missing; False if one may be."""
    joined: OffsetColumn
    """Number of further looks with offsets that were joined into the reading."""

    def then(self, later: "PartitionReadings") -> "PartitionReadings":
        """Return these readings followed by later ones of the same partition."""
        return PartitionReadings(
            np.concatenate((self.starts, later.starts)),
            np.concatenate((self.ends, later.ends)),
            np.concatenate((self.whole, later.whole)),
            np.concatenate((self.late, later.late)),
            np.concatenate((self.dense, later.dense)),
            np.concatenate((self.joined, later.joined)),
        )

    @property
    def lost(self) -> OffsetColumn:
        """For each reading, the number of lost offsets right before it (a gap); 0 without a gap.

        For the first reading: the number of all offsets before it.
        """
        return self.starts - np.concatenate(([0], self.ends[:-1]))

    @property
    def looks(self) -> PartitionLooks:
        """Looks that the readings make, each of one or more readings; empty looks are left out."""
        firsts, lasts = self.look_bounds()
        starts, ends = self.starts[firsts], self.ends[lasts]
        starts[0] = 0
        of_late = np.searchsorted(lasts, np.flatnonzero(self.late))
        has_offsets = starts < ends
        number = int(np.count_nonzero(has_offsets) + self.joined.sum())
        return PartitionLooks(
            starts[has_offsets],
            ends[has_offsets],
            self.whole[lasts][has_offsets],
            int(ends[0]),
            self.starts[self.late],
            ends[of_late],
            number,
        )

    def look_bounds(self) -> tuple[OffsetColumn, OffsetColumn]:
        """First and last reading of each look."""
        ends_look = self.whole.copy()
        # The last look may lack its end; it then ends with its last reading.
        ends_look[-1] = True
        lasts = np.flatnonzero(ends_look)
        return np.concatenate(([0], lasts[:-1] + 1)), lasts


def reduced(readings: PartitionReadings, segments: tuple[Segment, ...]) -> PartitionReadings:
    """Join adjacent looks without missing offsets; every doubt stays the same.

    `segments` are those of the partition. A segment with as many records as offsets has no missing
    offset.
    """
    dense = readings.dense | _without_holes(segments, readings.starts, readings.ends)
    in_dense_look, adjoins = _in_dense_looks(readings, dense), readings.lost == 0
    # True for a reading that is joined with the reading before it.
    goes_on = in_dense_look & adjoins & np.append(False, in_dense_look[:-1])
    rows = np.flatnonzero(~goes_on)
    lasts = np.append(rows[1:], len(goes_on)) - 1
    joins = in_dense_look[rows]
    starts, ends = readings.starts[rows], readings.ends[lasts]
    # `joined` does not count the reading's own look.
    looks = np.add.reduceat(readings.joined + _looks_ending(readings), rows)
    return PartitionReadings(
        starts,
        ends,
        readings.whole[lasts],
        readings.late[rows],
        dense[rows],
        np.where(joins, looks - (starts < ends), readings.joined[rows]),
    )


def _in_dense_looks(readings: PartitionReadings, dense: Flags) -> Flags:
    """For each reading, True if its look is whole and has no missing offset."""
    firsts, lasts = readings.look_bounds()
    adjoins = readings.lost == 0
    # A gap before a look lies outside of it. Only the first look includes the gap before it.
    adjoins[firsts[1:]] = True
    is_dense = np.logical_and.reduceat(dense & adjoins, firsts) & readings.whole[lasts]
    return np.repeat(is_dense, lasts - firsts + 1)


def _looks_ending(readings: PartitionReadings) -> OffsetColumn:
    """For each reading, 1 if it ends a look with offsets, else 0."""
    firsts, lasts = readings.look_bounds()
    looks = np.zeros(len(readings.ends), np.int64)
    looks[lasts] = readings.ends[lasts] > readings.starts[firsts]
    return looks


def _without_holes(
    segments: tuple[Segment, ...], starts: OffsetColumn, ends: OffsetColumn
) -> Flags:
    """For each range of a partition, True if adjacent segments without holes cover it."""
    full = [each for each in segments if each.is_dense]
    begins = np.array([each.start for each in full], np.int64)
    stops = np.array([each.end for each in full], np.int64)
    # Adjacent segments without holes form a run; a range is covered if it lies in one run.
    is_begin = np.ones(len(full), np.bool_)
    is_begin[1:] = begins[1:] != stops[:-1]
    run_ends = np.append(stops[np.flatnonzero(is_begin)[1:] - 1], stops[-1:])
    run = np.searchsorted(begins[is_begin], starts, side="right") - 1
    covered = np.append(run_ends, -1)[run]  # run is -1 before the first one
    is_covered: Flags = (ends <= covered) | (starts == ends)
    return is_covered
