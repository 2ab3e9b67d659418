"""What tasks of Spark's hand to each other and to the driver: bytes, in pieces.

A JVM makes an object of each row that passes it, and of each value in it. That would take longer
than it takes to find out which rows count. So what passes it is bytes, and what they mean only
Python knows: rows as Arrow writes them, or whatever else was found.
"""

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import NamedTuple

import pyarrow as pa

from replay.errors import ArchiveCorrupt

PIECE_BYTES = 16 * 1024 * 1024
"""What is handed over at a time."""

PIECES = pa.schema(
    [("work", pa.int32()), ("slice", pa.int32()), ("piece", pa.int32()), ("content", pa.binary())]
)
PIECES_DDL = "work int, slice int, piece int, content binary"


class Parcel(NamedTuple):
    """What was found in a work, or in a slice of it."""

    work: int
    slice: int
    content: bytes


def pieces(parcel: Parcel) -> Iterator[pa.RecordBatch]:
    """A parcel, ready to be handed over; there are none of an empty one."""
    work, part, content = parcel
    for number, start in enumerate(range(0, len(content), PIECE_BYTES)):
        some = content[start : start + PIECE_BYTES]
        yield pa.record_batch([[work], [part], [number], [some]], schema=PIECES)


def parcels(table: pa.Table) -> Iterator[Parcel]:
    """What came in pieces, whatever their order: work by work, slice by slice."""
    rows = sorted(table.to_pylist(), key=itemgetter("work", "slice", "piece"))
    for (work, part), some in groupby(rows, itemgetter("work", "slice")):
        yield Parcel(work, part, b"".join(row["content"] for row in some))


def by_work(table: pa.Table) -> Iterator[tuple[int, list[Parcel]]]:
    """The slices of each work."""
    for work, some in groupby(parcels(table), attrgetter("work")):
        yield work, list(some)


# --- rows ---------------------------------------------------------------------------------------

_WRONG = b"wrong"
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


def rows_content(table: pa.Table) -> bytes:
    """Rows as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_OPTIONS) as stream:
        stream.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def wrong_content(sentence: str) -> bytes:
    """Why there are no rows."""
    told = sentence.encode("utf-8", "backslashreplace")
    return rows_content(pa.table({}).replace_schema_metadata({_WRONG: told}))


def rows_of(content: bytes) -> pa.Table:
    """The rows that were handed over.

    Raises:
        ArchiveCorrupt: there are none, for a file is missing or damaged.
    """
    table = pa.ipc.open_stream(content).read_all()
    wrong = (table.schema.metadata or {}).get(_WRONG)
    if wrong is not None:
        raise ArchiveCorrupt(wrong.decode())
    return table
