"""Rows of tables as encoded Parquet files of limited size."""

from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from replay.tables.cells import BATCH_ROWS

FILE_ROWS = 1_000_000
"""Rows per file: a writer holds the encoded rows of one file."""


class TableFile(msgspec.Struct, frozen=True):
    """Encoded file, and the number of its rows."""

    content: bytes
    rows: int


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """Batch without rows: its file has the columns only."""
    return pa.RecordBatch.from_pylist([], schema=schema)


def encoded_files(schema: pa.Schema, row_batches: Iterable[pa.RecordBatch]) -> Iterator[TableFile]:
    """Encode batches as files of about `FILE_ROWS` rows; without batches there is no file."""
    row_batches = iter(row_batches)
    while file_batches := list(islice(row_batches, max(1, FILE_ROWS // BATCH_ROWS))):
        sink = pa.BufferOutputStream()
        with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
            for batch in filter(len, file_batches):  # readers warn of empty row groups
                writer.write_batch(batch)
        yield TableFile(sink.getvalue().to_pybytes(), sum(map(len, file_batches)))
