"""Segment files: the records of one partition, in the order of their offsets, as Parquet.

Keys have one full dictionary per row group. So a search for the last row of each key works on
numbers. Offsets and times are delta-encoded; everything is compressed with zstd.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from hashlib import sha256
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from controlplane.core.entry import Batch
from replay.archive.integrity import check_current, damaged, differing
from replay.archive.manifest import Segment, StoredFile
from replay.archive.stores.store import ArchiveStore
from replay.archive.stores.store_errors import is_outage, why_not
from replay.errors import ArchiveCorrupt, NoArchive, ReplayError
from replay.kernels.batches import stored_headers

SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.list_(pa.struct([("name", pa.binary()), ("value", pa.binary())]))),
        pa.field("aborted", pa.bool_(), nullable=False),
    ]
)
"""Columns of a segment. Topic and partition come from the folders. A null value is a tombstone."""


class SegmentSizes(NamedTuple):
    """Sizes of new files; existing files of other sizes stay readable.

    A row group is the unit that is skipped or read. Smaller groups let readers skip more rows. In
    larger groups, more rows share a stored key.
    """

    segment_records: int = 1_000_000
    row_group_rows: int = 250_000


SIZES = SegmentSizes()
"""Defaults: segments of about 25 MB."""

DICTIONARY_BYTES = 64 * 1024 * 1024
"""Room for every key of a row group; beyond it Parquet would store each key again."""

READ_AT_ONCE_BYTES = 32 * 1024
"""Size in bytes up to which a file is read by one request. An object store takes longer for a
request than for so few bytes. A small file that is read in parts needs several requests."""

_LEVEL = 3


def table_of(batches: Sequence[Batch]) -> pa.Table:
    """Convert batches of one partition, in order, to rows."""
    return pa.concat_tables(map(_table, batches)) if batches else SCHEMA.empty_table()


def _table(batch: Batch) -> pa.Table:
    headers, aborted = batch.headers, batch.aborted
    rows = range(len(batch))
    columns = [
        pa.array(batch.offsets, pa.int64()),
        pa.array(batch.timestamps, pa.int64()),
        pa.array(batch.keys, pa.binary()),
        pa.array(batch.values, pa.binary()),
        pa.array([stored_headers(headers.get(row, ())) for row in rows], SCHEMA.types[4]),
        pa.array([row in aborted for row in rows], pa.bool_()),
    ]
    return pa.table(columns, schema=SCHEMA)


class EncodedFile(NamedTuple):
    """A file before it is written: its bytes, and its description without the name."""

    content: bytes
    sha256: str
    records: int

    @classmethod
    def of(cls, content: bytes, records: int = 0) -> "EncodedFile":
        """Create a file from its bytes."""
        return cls(content, sha256(content).hexdigest(), records)

    def stored(self, name: str) -> StoredFile:
        """Name, size, hash and number of records, as a manifest has them."""
        return StoredFile(name, len(self.content), self.sha256, self.records)


def encoded_rows(
    tables: Sequence[pa.Table], row_group_rows: int = SIZES.row_group_rows
) -> EncodedFile:
    """Encode rows as a file. Each table begins a row group."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        SCHEMA,
        compression="zstd",
        compression_level=_LEVEL,
        use_dictionary=["key"],
        dictionary_pagesize_limit=DICTIONARY_BYTES,
        column_encoding={"offset": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED"},
        write_statistics=["offset", "timestamp"],
    ) as writer:
        for table in tables:
            writer.write_table(table, row_group_size=row_group_rows)
    return EncodedFile.of(
        sink.getvalue().to_pybytes(), sum(row_group_table.num_rows for row_group_table in tables)
    )


class ArchiveFile(NamedTuple):
    """Parquet file of an archive, open for reading."""

    name: str
    parquet: pq.ParquetFile


class RowGroup(NamedTuple):
    """Rows of one row group of a file (`kernels.row_runs.RowRun`)."""

    file: ArchiveFile
    number: int
    begin: int
    end: int
    """Range of rows within the group."""

    def __len__(self) -> int:
        return self.end - self.begin

    def read(self, *columns: str) -> pa.Table:
        """Read some columns.

        Raises:
            ArchiveCorrupt: the columns cannot be read.
        """
        try:
            return self._decoded(list(columns)).slice(self.begin, len(self))
        except (pa.ArrowException, OSError) as error:
            raise _damaged(self.file.name, error) from None

    def _decoded(self, columns: list[str]) -> pa.Table:
        """Read rows up to the last wanted one; rows after a cut are not decoded."""
        parquet, number = self.file.parquet, self.number
        if self.end == parquet.metadata.row_group(number).num_rows:
            return parquet.read_row_group(number, columns, use_threads=False)
        batches: list[pa.RecordBatch] = []
        for batch in parquet.iter_batches(self.end, [number], columns, use_threads=False):
            batches.append(batch)
            if sum(map(len, batches)) >= self.end:
                break
        return pa.Table.from_batches(batches)

    # Statistics cover the whole row group and need no read.

    @property
    def first_offset(self) -> int:
        """The least offset of the row group."""
        return int(self._statistics("offset").min)

    @property
    def last_offset(self) -> int:
        """The greatest offset of the row group."""
        return int(self._statistics("offset").max)

    @property
    def greatest_time_ms(self) -> int:
        """The greatest timestamp of the row group."""
        return int(self._statistics("timestamp").max)

    def _statistics(self, column: str) -> pq.Statistics:
        group = self.file.parquet.metadata.row_group(self.number)
        statistics = group.column(SCHEMA.names.index(column)).statistics
        if statistics is None:
            raise ArchiveCorrupt(
                f"{self.file.name} has no statistics, so replay did not write it: restore the "
                "original"
            )
        return statistics


def opened(store: ArchiveStore, stored: StoredFile) -> ArchiveFile:
    """Open a file and compare it with its description.

    Raises:
        ArchiveCorrupt: the file is missing or differs from the description.
        ArchiveBusy: a merge has removed the file since the archive was opened.
    """
    try:
        file = pq.ParquetFile(
            _source(store, stored),
            read_dictionary=["key"],
            # A local file, or one in memory, would only pay for the threads.
            pre_buffer=store.requests_at_once > 1 and stored.bytes > READ_AT_ONCE_BYTES,
        )
    except (pa.ArrowException, OSError) as error:
        raise _damaged(stored.file, error) from None
    if not file.metadata.schema.equals(_parquet_schema()):
        _check_columns(stored.file, file.metadata.schema.to_arrow_schema())
    if file.metadata.num_rows != stored.records:
        flaw = f"has {file.metadata.num_rows} rows and not {stored.records}"
        raise damaged(stored.file, flaw)
    return ArchiveFile(stored.file, file)


def _source(store: ArchiveStore, stored: StoredFile) -> pa.NativeFile:
    """Open the bytes of a file; a small one is read at once."""
    try:
        if stored.bytes > READ_AT_ONCE_BYTES:
            source = store.open(stored.file)
        else:
            source = pa.BufferReader(store.read(stored.file, stored.bytes + 1))
    except FileNotFoundError:
        check_current(store, stored)
        raise differing(stored, "is missing") from None
    if source.size() != stored.bytes:
        # A small file was read only up to one byte more than stated: ask the store for its size.
        size = max(store.size(stored.file) or 0, source.size())
        raise differing(stored, f"has {size} bytes and not {stored.bytes}")
    return source


def _damaged(name: str, error: Exception) -> ReplayError:
    if isinstance(error, OSError) and is_outage(error):
        return NoArchive(f"{name} cannot be read {why_not(error)}")
    why = str(error).splitlines()[0]
    return damaged(name, f"is no Parquet file, or a damaged one ({why})")


@cache
def _parquet_schema() -> pq.ParquetSchema:
    """Schema of the files that this version writes: faster to compare than columns are."""
    empty = encoded_rows([SCHEMA.empty_table()])
    return pq.read_metadata(pa.BufferReader(empty.content)).schema


def _check_columns(name: str, schema: pa.Schema) -> None:
    """Raise `ArchiveCorrupt` unless a file has the columns of a segment."""
    if schema.equals(SCHEMA):
        return
    foreign = sorted(set(schema.names) - set(SCHEMA.names))
    missing = sorted(set(SCHEMA.names) - set(schema.names))
    wrong = [
        column for column in SCHEMA.names if column in schema.names and _differs(schema, column)
    ]
    for flaw, which in (("foreign", foreign), ("no", missing), ("another type of", wrong)):
        if which:
            raise ArchiveCorrupt(
                f"{name} has {flaw} column {which[0]!r}, so replay did not write it: restore the "
                "original"
            )


def _differs(schema: pa.Schema, column: str) -> bool:
    return bool(schema.field(column).type != SCHEMA.field(column).type)


def row_groups(file: ArchiveFile, begin: int = 0, end: int | None = None) -> Iterator[RowGroup]:
    """Yield the row groups with the rows from `begin` to `end` of a file, cut to that range."""
    metadata = file.parquet.metadata
    end = metadata.num_rows if end is None else end
    first = 0
    for number in range(metadata.num_row_groups):
        rows = metadata.row_group(number).num_rows
        low, high = max(begin - first, 0), min(end - first, rows)
        if low < high:
            yield RowGroup(file, number, low, high)
        first += rows


def rows_of(store: ArchiveStore, segment: Segment) -> pa.Table:
    """Read all rows of a segment.

    Raises:
        ArchiveCorrupt: the file is missing or damaged.
        ArchiveBusy: a merge has removed the file since the archive was opened.
    """
    groups = row_groups(opened(store, segment.stored))
    return pa.concat_tables(group.read(*SCHEMA.names).cast(SCHEMA) for group in groups)


def ascending(table: pa.Table) -> bool:
    """True if the offsets of the rows ascend strictly."""
    offsets = table.column("offset")
    return bool(len(offsets) < 2 or pc.all(pc.less(offsets[:-1], offsets[1:])).as_py())
