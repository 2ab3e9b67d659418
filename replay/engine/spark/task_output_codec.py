"""Transport of results between Spark tasks and the driver: bytes in pieces.

A JVM creates an object for each row and value that passes through it. This would take longer than
the reduction itself. So only bytes pass through the JVM. Only Python interprets them: as Arrow rows
or as pickled results.
"""

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter, itemgetter
from types import MappingProxyType
from typing import NamedTuple

import pyarrow as pa

from replay.errors import ArchiveBusy, ArchiveCorrupt, NoArchive, ReplayError

PIECE_BYTES = 16 * 1024 * 1024
"""Greatest size of a piece."""

PIECES = pa.schema(
    [("work", pa.int32()), ("slice", pa.int32()), ("piece", pa.int32()), ("content", pa.binary())]
)
PIECES_DDL = "work int, slice int, piece int, content binary"


class TaskOutput(NamedTuple):
    """Result of a work, or of a slice of it.

    A work is a numbered input of a task: a `SliceWork`, or an item of `SparkExecutor`.
    """

    work: int
    slice: int
    content: bytes


def pieces(output: TaskOutput) -> Iterator[pa.RecordBatch]:
    """Split a result into pieces; an empty result has none."""
    work, part, content = output
    for number, start in enumerate(range(0, len(content), PIECE_BYTES)):
        piece = content[start : start + PIECE_BYTES]
        yield pa.record_batch([[work], [part], [number], [piece]], schema=PIECES)


def task_outputs(table: pa.Table) -> Iterator[TaskOutput]:
    """Assemble results from unordered pieces; yield them by work, then by slice."""
    rows = sorted(table.to_pylist(), key=itemgetter("work", "slice", "piece"))
    for (work, part), piece_rows in groupby(rows, itemgetter("work", "slice")):
        yield TaskOutput(work, part, b"".join(row["content"] for row in piece_rows))


def by_work(table: pa.Table) -> Iterator[tuple[int, list[TaskOutput]]]:
    """Yield the number of each work with the results of its slices, in order."""
    for work, outputs in groupby(task_outputs(table), attrgetter("work")):
        yield work, list(outputs)


# --- rows ---------------------------------------------------------------------------------------

_WRONG, _KIND = b"wrong", b"kind"
_KINDS = MappingProxyType(
    {error.__name__.encode(): error for error in (ArchiveBusy, ArchiveCorrupt, NoArchive)}
)
"""Errors that keep their class; the driver raises `ArchiveCorrupt` for any other."""

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


def rows_content(table: pa.Table) -> bytes:
    """Encode rows as an Arrow IPC stream, compressed with lz4."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_OPTIONS) as stream:
        stream.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def wrong_content(error: ReplayError) -> bytes:
    """Encode an error in place of rows."""
    metadata = {
        _WRONG: str(error).encode("utf-8", "backslashreplace"),
        _KIND: type(error).__name__.encode(),
    }
    return rows_content(pa.table({}).replace_schema_metadata(metadata))


def rows_of(content: bytes) -> pa.Table:
    """Decode rows.

    Raises:
        ReplayError: the error of the task, with its class (`_KINDS`) and its sentence.
    """
    table = pa.ipc.open_stream(content).read_all()
    metadata = table.schema.metadata or {}
    if _WRONG in metadata:
        raise _KINDS.get(metadata[_KIND], ArchiveCorrupt)(metadata[_WRONG].decode())
    return table
