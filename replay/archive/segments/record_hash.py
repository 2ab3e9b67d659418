"""Hash of records, independent of the file that holds them.

A merge copies records into other files, whose hashes differ. The hash of the records stays, so the
manifest of the original append still proves them.
"""

from collections.abc import Iterator
from hashlib import sha256

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_ABSENT = -1
"""Length that stands for null: a tombstone, or a record without a key."""


def record_hash(table: pa.Table) -> str:
    """SHA-256 of the rows of a segment: column by column, lengths before bytes, little-endian."""
    digest = sha256()
    for name in ("offset", "timestamp", "aborted"):
        digest.update(_numbers(table.column(name)))
    for name in ("key", "value"):
        for piece in _texts(table.column(name)):
            digest.update(piece)
    headers = table.column("headers")
    digest.update(_numbers(pc.fill_null(pc.list_value_length(headers), _ABSENT)))
    pairs = pc.list_flatten(headers)
    for name in ("name", "value"):
        for piece in _texts(pc.struct_field(pairs, name)):
            digest.update(piece)
    return digest.hexdigest()


def _numbers(column: pa.ChunkedArray) -> bytes:
    return bytes(column.to_numpy().astype("<i8").tobytes())


def _texts(column: pa.ChunkedArray) -> Iterator[bytes | memoryview]:
    """Lengths of all values of a column, then their bytes."""
    texts = column.cast(pa.binary())
    yield _numbers(pc.fill_null(pc.binary_length(texts), _ABSENT))
    for chunk in texts.chunks:
        filled = pc.fill_null(chunk, b"")  # bytes beneath a null do not count
        _, ends, content = filled.buffers()
        if content is not None and len(filled):
            cuts = np.frombuffer(ends, "<i4")[filled.offset :]
            yield memoryview(content)[int(cuts[0]) : int(cuts[len(filled)])]
