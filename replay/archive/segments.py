"""What is in a segment: the records of one partition, in the order of their offsets, as Parquet.

Keys come as one full dictionary per row group, which makes them numbers for whoever looks for the
last of each; offsets and times as differences; everything compressed with zstd.
"""

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from controlplane.core.entry import Batch
from replay.archive.manifest import Stored
from replay.archive.objects import is_outage, why_not
from replay.archive.store import Store
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
"""Topic and partition are those of the folders. A value of null is a tombstone."""


class Sizes(NamedTuple):
    """How large the parts of an archive are made; those that are there are read whatever they are.

    What is skipped or read as one is a row group: fewer rows skip better and share fewer keys.
    """

    segment_records: int = 1_000_000
    row_group_rows: int = 250_000


SIZES = Sizes()
"""Segments of some 25 MB."""

DICTIONARY_BYTES = 64 * 1024 * 1024
"""Room for every key of a row group: beyond it Parquet would store each key again."""

_LEVEL = 3


def table_of(batches: Sequence[Batch]) -> pa.Table:
    """Batches of one partition, in order, as rows."""
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


class Written(NamedTuple):
    """A file that is to be: its bytes, and what a manifest says of it but its name."""

    content: bytes
    sha256: str
    records: int

    @classmethod
    def of(cls, content: bytes, records: int = 0) -> "Written":
        """A file with these bytes."""
        return cls(content, sha256(content).hexdigest(), records)

    def stored(self, name: str) -> Stored:
        """What a manifest says of it."""
        return Stored(name, len(self.content), self.sha256, self.records)


def written(tables: Sequence[pa.Table], row_group_rows: int = SIZES.row_group_rows) -> Written:
    """Rows as a file. Each table begins a row group."""
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
    return Written.of(sink.getvalue().to_pybytes(), sum(one.num_rows for one in tables))


class File(NamedTuple):
    """An open file of an archive."""

    name: str
    parquet: pq.ParquetFile


class RowGroup(NamedTuple):
    """Rows of one row group of a file (`kernels.rows.Rows`)."""

    file: File
    number: int
    begin: int
    end: int
    """From which row of the group to which."""

    def __len__(self) -> int:
        return self.end - self.begin

    def read(self, *columns: str) -> pa.Table:
        """Some of their columns.

        Raises:
            ArchiveCorrupt: they cannot be read.
        """
        try:
            return self._decoded(list(columns)).slice(self.begin, len(self))
        except (pa.ArrowException, OSError) as error:
            raise _damaged(self.file.name, error) from None

    def _decoded(self, columns: list[str]) -> pa.Table:
        """The rows up to the last that is wanted: where a cut lies, the rest is not decoded."""
        parquet, number = self.file.parquet, self.number
        if self.end == parquet.metadata.row_group(number).num_rows:
            return parquet.read_row_group(number, columns, use_threads=False)
        found: list[pa.RecordBatch] = []
        for batch in parquet.iter_batches(self.end, [number], columns, use_threads=False):
            found.append(batch)
            if sum(map(len, found)) >= self.end:
                break
        return pa.Table.from_batches(found)

    # Of the whole row group, by its statistics: nothing is read for them.

    @property
    def first_offset(self) -> int:
        """The least offset."""
        return int(self._statistics("offset").min)

    @property
    def last_offset(self) -> int:
        """The greatest offset."""
        return int(self._statistics("offset").max)

    @property
    def greatest_time_ms(self) -> int:
        """The greatest timestamp."""
        return int(self._statistics("timestamp").max)

    def _statistics(self, column: str) -> pq.Statistics:
        group = self.file.parquet.metadata.row_group(self.number)
        statistics = group.column(SCHEMA.names.index(column)).statistics
        if statistics is None:
            raise ArchiveCorrupt(f"{self.file.name} has no statistics: it is no segment of ours")
        return statistics


def opened(store: Store, stored: Stored) -> File:
    """A file of an archive, as a manifest tells of it.

    Raises:
        ArchiveCorrupt: it is missing, or is not what the manifest tells of.
    """
    there = store.size(stored.file)
    if there != stored.bytes:
        what = "is missing" if there is None else f"has {there} bytes and not {stored.bytes}"
        raise ArchiveCorrupt(f"{stored.file} {what}: restore it, or archive that cluster anew")
    try:
        file = pq.ParquetFile(store.open(stored.file), read_dictionary=["key"])
    except (pa.ArrowException, OSError) as error:
        raise _damaged(stored.file, error) from None
    _check_columns(stored.file, file.metadata.schema.to_arrow_schema())
    if file.metadata.num_rows != stored.records:
        raise ArchiveCorrupt(
            f"{stored.file} has {file.metadata.num_rows} rows and not {stored.records}: restore it"
        )
    return File(stored.file, file)


def _damaged(name: str, error: Exception) -> ReplayError:
    if isinstance(error, OSError) and is_outage(error):
        return NoArchive(f"{name} cannot be read {why_not(error)}")
    why = str(error).splitlines()[0]
    return ArchiveCorrupt(f"{name} is no Parquet file, or a damaged one ({why}): restore it")


def _check_columns(name: str, there: pa.Schema) -> None:
    """Raise `ArchiveCorrupt` unless a file has the columns of a segment."""
    foreign = sorted(set(there.names) - set(SCHEMA.names))
    missing = sorted(set(SCHEMA.names) - set(there.names))
    wrong = [one for one in SCHEMA.names if one in there.names and _differs(there, one)]
    for what, which in (("foreign", foreign), ("no", missing), ("another type of", wrong)):
        if which:
            raise ArchiveCorrupt(
                f"{name} has {what} column {which[0]!r}: it is no segment of ours, restore it"
            )


def _differs(there: pa.Schema, column: str) -> bool:
    return bool(there.field(column).type != SCHEMA.field(column).type)


def row_groups(file: File, begin: int = 0, end: int | None = None) -> Iterator[RowGroup]:
    """The row groups that hold the rows from `begin` to `end` of a file, cut to them."""
    metadata = file.parquet.metadata
    end = metadata.num_rows if end is None else end
    first = 0
    for number in range(metadata.num_row_groups):
        rows = metadata.row_group(number).num_rows
        low, high = max(begin - first, 0), min(end - first, rows)
        if low < high:
            yield RowGroup(file, number, low, high)
        first += rows


def ascending(table: pa.Table) -> bool:
    """Whether offsets ascend, none twice."""
    offsets = table.column("offset")
    return bool(len(offsets) < 2 or pc.all(pc.less(offsets[:-1], offsets[1:])).as_py())
