"""Transport of results between Spark tasks and the driver: bytes in pieces.

A JVM creates an object for each row and value that passes through it. This would take longer than
the reduction itself. So only bytes pass through the JVM. Only Python interprets them: as Arrow rows
or as pickled findings.
"""

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import NamedTuple

import pyarrow as pa

from replay.errors import ArchiveCorrupt

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

_WRONG = b"wrong"
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


def rows_content(table: pa.Table) -> bytes:
    """Encode rows as an Arrow IPC stream, compressed with lz4."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_OPTIONS) as stream:
        stream.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def wrong_content(sentence: str) -> bytes:
    """Encode an error sentence in place of rows."""
    metadata = sentence.encode("utf-8", "backslashreplace")
    return rows_content(pa.table({}).replace_schema_metadata({_WRONG: metadata}))


def rows_of(content: bytes) -> pa.Table:
    """Decode rows.

    Raises:
        ArchiveCorrupt: the task failed with a `ReplayError`; the message is its sentence.
    """
    table = pa.ipc.open_stream(content).read_all()
    wrong = (table.schema.metadata or {}).get(_WRONG)
    if wrong is not None:
        raise ArchiveCorrupt(wrong.decode())
    return table
