"""Retention: removal of the records of a partition that were superseded at a cut in time.

The plan (`replay.engine.plans.retention_plan`) decides which records are removed. This module
leaves them out of the rows of a partition. It describes them for the manifest: number, bytes and
hash.
"""

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.archive.archived_cluster import ArchivedCluster, PartitionId
from replay.archive.manifest import ExpiredRecords, Segment
from replay.archive.segments.record_hash import record_hash
from replay.archive.segments.removed_offsets import OffsetColumn
from replay.archive.segments.segment_files import rows_of


class SupersededRecords(NamedTuple):
    """Records of one partition that no state at or after the cut needs."""

    end: int
    """The cut: records from this offset on stay."""
    offsets: OffsetColumn
    """Offsets of the records, ascending."""


class RetentionPlan(Protocol):
    """Decides which records of a cluster are removed."""

    cut_ms: int
    """Time of the cut, in ms since 1970."""
    age_ms: int
    """Age of the cut."""

    def end_of(self, place: PartitionId) -> int:
        """Offset at which the cut divides a partition. Raises `ArchiveCorrupt`."""
        ...

    def superseded(self, place: PartitionId) -> SupersededRecords:
        """Records of a partition to remove, before `end_of`. Raises `ArchiveCorrupt`."""
        ...


PlanMaker = Callable[[ArchivedCluster], RetentionPlan]
"""Makes the plan for an opened cluster."""


class RecordRemoval:
    """Leaves superseded records out of the rows of one partition, and describes them."""

    def __init__(self, place: PartitionId, superseded: SupersededRecords) -> None:
        self._place = place
        self._superseded = superseded
        self._records = self._aborted = self._bytes = 0
        self._hash = sha256()

    def surviving_rows(self, rows: pa.Table) -> pa.Table:
        """Rows of the next segment that stay."""
        is_superseded = _among(rows.column("offset").to_numpy(), self._superseded.offsets)
        gone = rows.filter(pa.array(is_superseded))
        if gone.num_rows:
            self._records += gone.num_rows
            self._aborted += int(gone.column("aborted").to_numpy().sum())
            self._bytes += sum(_content_bytes(gone.column(name)) for name in ("key", "value"))
            self._hash.update(record_hash(gone).encode())
        return rows.filter(pa.array(~is_superseded))

    @property
    def expired(self) -> ExpiredRecords:
        """Description of the records that were left out; at least one."""
        return ExpiredRecords(
            *self._place,
            int(self._superseded.offsets[0]),
            self._superseded.end,
            self._records,
            self._aborted,
            self._bytes,
            self._hash.hexdigest(),
        )


def _among(
    offsets: OffsetColumn, sought: OffsetColumn
) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """For each offset, True if it is one of the sought ones; both arrays ascend."""
    # An offset after all sought ones is compared with the last of them.
    at = np.minimum(np.searchsorted(sought, offsets), len(sought) - 1)
    is_among: np.ndarray[tuple[int], np.dtype[np.bool_]] = sought[at] == offsets
    return is_among


def _content_bytes(column: pa.ChunkedArray) -> int:
    return int(pc.sum(pc.binary_length(column.cast(pa.binary()))).as_py() or 0)


def segments_before(cluster: ArchivedCluster, place: PartitionId, end: int) -> list[Segment]:
    """Segments of a partition with a record before an offset."""
    return [segment for segment in cluster.parts[place].segments if segment.start < end]


def rehearsed(cluster: ArchivedCluster, plan: RetentionPlan) -> Iterator[ExpiredRecords]:
    """Describe the records of each partition that would go, and change nothing.

    Raises:
        ArchiveCorrupt: a segment is missing or damaged.
    """
    for place in sorted(cluster.parts):
        superseded = plan.superseded(place)
        if len(superseded.offsets):
            removal = RecordRemoval(place, superseded)
            for segment in segments_before(cluster, place, superseded.end):
                removal.surviving_rows(rows_of(cluster.store, segment))
            yield removal.expired
