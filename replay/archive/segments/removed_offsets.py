"""Offsets of the records that retention has removed from a partition, as ranges in a file.

They distinguish records that retention has removed from records that were compacted before a
capture. A range has consecutive offsets. In a topic without holes, only surviving records separate
ranges. So the file takes a few bytes per surviving record.
"""

from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from replay.archive.integrity import damaged, read_whole
from replay.archive.manifest import RemovedRecords
from replay.archive.segments.segment_files import EncodedFile
from replay.archive.stores.store import ArchiveStore

OffsetColumn: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.int64]]"

_NONE = np.zeros(0, np.int64)

_SCHEMA = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in ("start", "end")])


class RemovedOffsets(NamedTuple):
    """Ranges of removed offsets, ascending; they neither overlap nor touch."""

    starts: OffsetColumn = _NONE
    ends: OffsetColumn = _NONE

    @property
    def total(self) -> int:
        """Number of removed offsets in all ranges."""
        return int((self.ends - self.starts).sum())

    def within(self, start: int, end: int) -> int:
        """Number of removed offsets from `start` to before `end`."""
        low = np.searchsorted(self.ends, start, side="right")
        high = np.searchsorted(self.starts, end)
        starts = np.maximum(self.starts[low:high], start)
        return int((np.minimum(self.ends[low:high], end) - starts).sum())

    def end_before(self, end: int) -> int:
        """End of the removed offsets before `end`: the last of them plus 1; 0 if there is none."""
        at = int(np.searchsorted(self.starts, end))
        return min(int(self.ends[at - 1]), end) if at else 0

    def inside(self, offsets: OffsetColumn) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
        """For each offset, True if it was removed."""
        if not len(self.starts):
            return np.zeros(len(offsets), np.bool_)
        at = np.searchsorted(self.starts, offsets, side="right") - 1
        is_inside: np.ndarray[tuple[int], np.dtype[np.bool_]] = (at >= 0) & (
            offsets < self.ends[at]
        )
        return is_inside

    def union(self, offsets: OffsetColumn) -> "RemovedOffsets":
        """Add removed offsets: ascending ones that no range contains yet."""
        starts = np.concatenate((self.starts, offsets))
        ends = np.concatenate((self.ends, offsets + 1))
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
        is_first = np.append(True, starts[1:] > ends[:-1]) if len(starts) else _NONE.astype(bool)
        return RemovedOffsets(starts[is_first], ends[np.append(is_first[1:], True)[: len(ends)]])


def encoded_offsets(removed: RemovedOffsets) -> EncodedFile:
    """Encode removed offsets as a file; its number of records is that of the offsets."""
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.table([removed.starts, removed.ends], schema=_SCHEMA),
        sink,
        compression="zstd",
        use_dictionary=False,
        column_encoding=dict.fromkeys(_SCHEMA.names, "DELTA_BINARY_PACKED"),
    )
    return EncodedFile.of(sink.getvalue().to_pybytes(), removed.total)


def read_offsets(store: ArchiveStore, records: RemovedRecords | None) -> RemovedOffsets:
    """Read the offsets of removed records of a partition; None: retention has removed none.

    Raises:
        ArchiveCorrupt: the file is missing, altered, or holds no such ranges.
        ArchiveBusy: a merge has removed the file since the archive was opened.
    """
    if records is None:
        return RemovedOffsets()
    stored = records.offsets
    try:
        table = pq.read_table(pa.BufferReader(read_whole(store, stored))).cast(_SCHEMA)
    except (pa.ArrowException, ValueError) as error:
        why = str(error).splitlines()[0]
        raise damaged(stored.file, f"holds no offsets ({why})") from None
    starts, ends = (table.column(name).to_numpy() for name in _SCHEMA.names)
    removed = RemovedOffsets(starts, ends)
    ascend = bool(np.all(starts < ends) and np.all(starts[1:] > ends[:-1]))
    if not ascend or removed.total != stored.records:
        raise damaged(stored.file, "holds other offsets than described")
    return removed
