"""File with the readings that a merge has taken over: Parquet, one row group for each partition.

Row groups follow each other in the order of topics and partitions. Adjacent looks without missing
offsets share one row. A look with missing offsets keeps a row for each of its readings. Compressed,
such rows take about a byte each.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from replay.archive.archived_cluster import PartitionId
from replay.archive.integrity import read_whole
from replay.archive.manifest import ReadRange, StoredFile
from replay.archive.readings.reading_columns import PartitionReadings
from replay.archive.segments.segment_files import EncodedFile
from replay.archive.stores.store import ArchiveStore
from replay.errors import ArchiveCorrupt

_SCHEMA = pa.schema(
    [
        pa.field("lost", pa.int64(), nullable=False),
        pa.field("end", pa.int64(), nullable=False),
        pa.field("whole", pa.bool_(), nullable=False),
        pa.field("late", pa.bool_(), nullable=False),
        pa.field("dense", pa.bool_(), nullable=False),
        pa.field("joined", pa.int64(), nullable=False),
    ]
)
"""Columns: offsets lost before the reading, its end, and the columns of `PartitionReadings`."""

_NUMBERS = ("lost", "end", "joined")


def encoded_readings(partitions: Iterable[PartitionReadings]) -> EncodedFile:
    """Encode the readings of partitions, in the order of topics and partitions."""
    sink = pa.BufferOutputStream()
    rows = 0
    with pq.ParquetWriter(
        sink,
        _SCHEMA,
        compression="zstd",
        use_dictionary=False,
        write_statistics=False,
        column_encoding=dict.fromkeys(_NUMBERS, "DELTA_BINARY_PACKED"),
    ) as writer:
        for readings in partitions:
            columns = [readings.lost, *readings[1:]]
            table = pa.table(columns, schema=_SCHEMA)
            writer.write_table(table, row_group_size=table.num_rows)
            rows += table.num_rows
    return EncodedFile.of(sink.getvalue().to_pybytes(), rows)


class ReadingsFile:
    """Stored readings of all partitions, read whole and decoded partition by partition.

    `spans` are the offsets that the manifest of the merge says were read.

    Raises:
        ArchiveCorrupt: the file is missing, altered, or holds no readings.
        ArchiveBusy: a merge has removed the file since the archive was opened.
    """

    def __init__(self, store: ArchiveStore, stored: StoredFile, spans: Sequence[ReadRange]) -> None:
        self._name = stored.file
        self._spans = _by_partition(spans)
        content = read_whole(store, stored)
        try:
            self._parquet = pq.ParquetFile(pa.BufferReader(content))
        except pa.ArrowException as error:
            raise self._flaw(str(error).splitlines()[0]) from None
        metadata = self._parquet.metadata
        if (metadata.num_row_groups, metadata.num_rows) != (len(self._spans), stored.records):
            raise self._flaw("its numbers of rows differ")

    def of(self, place: PartitionId) -> PartitionReadings | None:
        """Readings of a partition; None if the merge had no reading of it.

        Raises:
            ArchiveCorrupt: they are not those that the manifest describes.
        """
        spans = self._spans.get(place)
        if spans is None:
            return None
        number = list(self._spans).index(place)
        try:
            table = self._parquet.read_row_group(number, use_threads=False).cast(_SCHEMA)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._flaw(str(error).splitlines()[0]) from None
        lost, ends, *others = (table.column(name).to_numpy() for name in _SCHEMA.names)
        readings = PartitionReadings(np.concatenate(([0], ends[:-1])) + lost, ends, *others)
        if (lost < 0).any() or (readings.starts > ends).any() or _spans_of(readings) != spans:
            raise self._flaw(f"other ranges of {place[0]} partition {place[1]}")
        return readings

    def _flaw(self, why: str) -> ArchiveCorrupt:
        return ArchiveCorrupt(
            f"{self._name} holds other readings than described ({why}): restore it"
        )


def _by_partition(spans: Iterable[ReadRange]) -> dict[PartitionId, list[tuple[int, int]]]:
    """Start and end of each span, by partition, in the order of topics and partitions."""
    by_place = groupby(spans, attrgetter("topic", "partition"))
    return {place: [(span.start, span.end) for span in group] for place, group in by_place}


def _spans_of(readings: PartitionReadings) -> list[tuple[int, int]]:
    """Start and end of each run of readings without a gap between them."""
    is_begin = readings.lost > 0
    is_begin[0] = True
    begins = np.flatnonzero(is_begin)
    ends = readings.ends[np.append(begins[1:], len(is_begin)) - 1]
    return list(zip(readings.starts[begins].tolist(), ends.tolist(), strict=True))
