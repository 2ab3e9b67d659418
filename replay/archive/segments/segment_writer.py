"""Writer of segments: the records of one partition on their way into files.

Archived records are compared; new ones wait until they fill a segment. Nothing counts before a
manifest names it, so several processes may write segments at once.
"""

from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from controlplane.core.entry import Position
from controlplane.core.moments import position_text
from controlplane.core.state import Topics
from replay.archive import layout
from replay.archive.archived_cluster import ArchivedPartition, PartitionId
from replay.archive.manifest import Segment, StoredFile
from replay.archive.segments.record_hash import record_hash
from replay.archive.segments.removed_offsets import read_offsets
from replay.archive.segments.segment_files import (
    SCHEMA,
    EncodedFile,
    SegmentSizes,
    encoded_rows,
    opened,
    row_groups,
)
from replay.archive.segments.winners import WORTH_IT, reducible, winners
from replay.archive.stores.store import ArchiveStore
from replay.errors import ArchiveConflict, ArchiveCorrupt
from replay.kernels.row_runs import HeldRows

SEGMENT_BYTES = 256 * 1024 * 1024
"""Bytes of rows in memory that end a segment, whatever its number of records."""

NEW_PARTITION = ArchivedPartition(0, 0, (), ())
"""Content of a partition of which nothing is archived yet."""


class SegmentTarget(NamedTuple):
    """Place and sizes of new segments."""

    store: ArchiveStore
    cluster: str
    topics: Topics
    sizes: SegmentSizes
    writer: str = ""
    """Part of the file names that no other writer uses: a merge may then remove its own files."""


class SegmentWriter:
    """Writes the records of one partition; `part` is its archived content."""

    def __init__(self, into: SegmentTarget, place: PartitionId, part: ArchivedPartition) -> None:
        self.segments: list[Segment] = []
        """Segments written so far."""
        self.waiting_bytes = 0
        """Bytes that wait to be written."""
        self._into = into
        self._place = place
        self._part = part
        self._waiting: list[pa.Table] = []
        self._waiting_rows = 0

    def add(self, table: pa.Table) -> int:
        """Add rows that follow the earlier ones; return the number of new rows.

        Raises:
            ArchiveConflict: the archive has another record, or none, at an offset before its end.
        """
        archived_rows = int(pc.sum(pc.less(table.column("offset"), self._part.end)).as_py() or 0)
        if archived_rows:
            _check_archived(
                self._into.store, self._place, self._part, table.slice(0, archived_rows)
            )
        fresh = table.slice(archived_rows)
        for start in range(0, fresh.num_rows, self._into.sizes.segment_records):
            self._take(fresh.slice(start, self._into.sizes.segment_records))
        return int(fresh.num_rows)

    def _take(self, rows: pa.Table) -> None:
        """Hold rows until they fill a segment."""
        if self._waiting_rows + rows.num_rows > self._into.sizes.segment_records:
            self.write()
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        self.waiting_bytes += rows.nbytes
        if self.waiting_bytes >= SEGMENT_BYTES:
            self.write()

    def write(self) -> None:
        """Write the waiting rows, if any, as a segment."""
        if not self._waiting:
            return
        table = pa.concat_tables(self._waiting)
        self._waiting, self._waiting_rows, self.waiting_bytes = [], 0, 0
        store, cluster, _, sizes, writer = self._into
        before = self.segments or self._part.segments
        latest_ms = before[-1].latest_ms if before else None
        offsets = table.column("offset")
        span = range(offsets[0].as_py(), offsets[-1].as_py() + 1)
        whole = encoded_rows([table], sizes.row_group_rows)
        stored = whole.stored(layout.segment(cluster, self._place, span, whole.sha256, writer))
        add_file(store, stored.file, whole)
        winners_file = written_winners(self._into, self._place, table, latest_ms)
        self.segments.append(described(self._place, table, latest_ms, stored, winners_file))


def written_winners(
    into: SegmentTarget, place: PartitionId, table: pa.Table, before_ms: int | None
) -> StoredFile | None:
    """Write the winners of a segment with these rows, if they are few; `before_ms` as in `winners`.

    Returns None if the segment needs no file of winners.
    """
    topic, _ = place
    if not reducible(topic, into.topics):
        return None
    winner_rows = winners([HeldRows(table)], topic, into.topics, before_ms)
    if winner_rows.num_rows > WORTH_IT * table.num_rows:
        return None
    offsets = table.column("offset")
    span = range(offsets[0].as_py(), offsets[-1].as_py() + 1)
    encoded = encoded_rows([winner_rows])
    name = layout.winners(into.cluster, place, span, encoded.sha256, into.writer)
    add_file(into.store, name, encoded)
    return encoded.stored(name)


def described(
    place: PartitionId,
    table: pa.Table,
    before_ms: int | None,
    stored: StoredFile,
    winners_file: StoredFile | None = None,
) -> Segment:
    """Describe a segment with these rows for the manifest; `before_ms` as in `winners`."""
    offsets, times = table.column("offset"), table.column("timestamp")
    first, last = offsets[0].as_py(), offsets[-1].as_py()
    greatest = pc.max(times).as_py()
    timed = times.filter(pc.greater_equal(times, 0))
    return Segment(
        *place,
        start=first,
        end=last + 1,
        first_ms=timed[0].as_py() if len(timed) else -1,
        latest_ms=greatest if before_ms is None else max(before_ms, greatest),
        aborted=pc.sum(table.column("aborted")).as_py(),
        stored=stored,
        winners=winners_file,
        content=record_hash(table),
    )


def add_file(store: ArchiveStore, name: str, file: EncodedFile) -> None:
    """Write a file named after its content, unless a dead append has left it already.

    Raises:
        ArchiveCorrupt: a file of this name has other content.
    """
    if not store.add(name, file.content) and store.read(name) != file.content:
        raise ArchiveCorrupt(f"{name} has other content than its name says: remove it")


def _check_archived(
    store: ArchiveStore, place: PartitionId, part: ArchivedPartition, table: pa.Table
) -> None:
    """Raise `ArchiveConflict` unless each row is archived unchanged."""
    topic, partition = place
    offsets = table.column("offset")
    first, last = offsets[0].as_py(), offsets[-1].as_py()
    touched = [
        segment for segment in part.segments if segment.start <= last and first < segment.end
    ]
    read = [
        group.read(*SCHEMA.names)
        for segment in touched
        for group in row_groups(opened(store, segment.stored))
        if group.first_offset <= last and first <= group.last_offset
    ]
    stored = (
        pa.concat_tables(group.cast(SCHEMA) for group in read) if read else SCHEMA.empty_table()
    )
    if part.removed is not None:  # a dump still has records that retention has removed
        removed = read_offsets(store, part.removed).inside(offsets.to_numpy())
        table = table.filter(pa.array(~removed))
        offsets = table.column("offset")
    where = pc.index_in(offsets, value_set=stored.column("offset"))
    if where.null_count:
        missing = offsets.filter(pc.is_null(where))[0].as_py()
        why = (
            "the archive begins after it"
            if missing < part.start
            else "the archive has no record there"
        )
        raise _conflict(topic, partition, missing, why)
    archived = stored.take(where)
    if not archived.equals(table):
        rows = zip(archived.to_pylist(), table.to_pylist(), strict=True)
        offset = next(new["offset"] for old, new in rows if old != new)
        raise _conflict(topic, partition, offset, "another record is archived there")


def _conflict(topic: str, partition: int, offset: int, why: str) -> ArchiveConflict:
    return ArchiveConflict(
        f"{position_text(Position(topic, partition, offset))} cannot be archived: {why}. "
        "Capture another cluster, or a recreated topic, under another name: NAME=LOG"
    )
