"""Conversion of rows to batches of the core."""

import pyarrow as pa

from controlplane.core.entry import ColumnBatch, Headers

HeaderRow = dict[str, bytes | None]


def batch(topic: str, partition: int, table: pa.Table) -> ColumnBatch:
    """Convert rows of one partition (at least one) to a batch; absent columns stay empty."""
    columns = {name: table.column(name) for name in table.column_names}
    length = table.num_rows
    headers = columns["headers"].to_pylist() if "headers" in columns else []
    marks = columns["aborted"].to_pylist() if "aborted" in columns else []
    return ColumnBatch(
        topic,
        partition,
        columns["offset"].to_pylist(),
        columns["timestamp"].to_pylist() if "timestamp" in columns else [-1] * length,
        columns["key"].to_pylist(),
        columns["value"].to_pylist(),
        {row: _headers(row_headers) for row, row_headers in enumerate(headers) if row_headers},
        frozenset(row for row, is_aborted in enumerate(marks) if is_aborted),
    )


def _headers(stored: list[HeaderRow]) -> Headers:
    """Headers of an entry; names are stored as bytes, because they may have half surrogates."""
    return tuple(
        ((header["name"] or b"").decode("utf-8", "surrogatepass"), header["value"])
        for header in stored
    )


def stored_headers(entry_headers: Headers) -> list[HeaderRow] | None:
    """Headers in stored form; None if there are none."""
    return [
        {"name": name.encode("utf-8", "surrogatepass"), "value": value}
        for name, value in entry_headers
    ] or None
