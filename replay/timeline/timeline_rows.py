"""Rows of timelines, differences and histories, without secrets."""

from collections.abc import Container, Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from controlplane.core.java import json_converter
from controlplane.core.text.value_text import item, shown
from replay.atomic_file import atomic_write
from replay.timeline.intervals import Moment, SharedInterval
from replay.timeline.passes import SharedDigest

RowDocument = dict[str, Any]

ROWS_AT_ONCE = 50_000
"""Rows of a file that are buffered before a write."""

_MOMENT = pa.struct(
    [
        ("topic", pa.string()),
        ("partition", pa.int64()),
        ("offset", pa.int64()),
        ("time_ms", pa.int64()),
    ]
)

INTERVALS = pa.schema(
    [
        ("cluster", pa.string()),
        ("profiles", pa.list_(pa.string())),
        ("connector", pa.string()),
        ("aspect", pa.string()),
        ("item", pa.string()),
        ("value", pa.string()),
        ("since", _MOMENT),
        ("until", _MOMENT),
    ]
)
"""Columns of a timeline; values are JSON text, and `until` is null if the fact still holds."""

DIGESTS = pa.schema(
    [
        ("cluster", pa.string()),
        ("profiles", pa.list_(pa.string())),
        ("after", _MOMENT),
        ("digest", pa.string()),
    ]
)

_SIDE = pa.struct([("cluster", pa.string()), ("profile", pa.string()), ("as_of", pa.string())])
_POSITION = pa.struct([("topic", pa.string()), ("partition", pa.int64()), ("offset", pa.int64())])

CHANGES = pa.schema(
    [
        ("from", _SIDE),
        ("to", _SIDE),
        ("connector", pa.string()),
        ("aspect", pa.string()),
        ("item", pa.string()),
        ("before", pa.string()),
        ("after", pa.string()),
        ("words", pa.string()),
        ("cause", _POSITION),
    ]
)
"""Columns of a difference; vectors and values are JSON text."""

EVENTS = pa.schema(
    [
        ("cluster", pa.string()),
        ("profile", pa.string()),
        ("connector", pa.string()),
        ("at", pa.string()),
        (
            "record",
            pa.struct(
                [
                    *_POSITION,
                    ("timestamp", pa.int64()),
                    ("key", pa.string()),
                    ("value", pa.string()),
                ]
            ),
        ),
        ("meaning", pa.string()),
        ("what", pa.string()),
        ("words", pa.string()),
        ("before", pa.string()),
        ("after", pa.string()),
    ]
)
"""Columns of a history; values are JSON text."""


def of_interval(cluster: str, shared: SharedInterval) -> RowDocument:
    """Interval as a JSON document."""
    interval = shared.interval
    return {
        "cluster": cluster,
        "profiles": list(shared.profiles),
        "connector": interval.connector,
        "aspect": interval.aspect.value,
        "item": item(interval.aspect, interval.item),
        "value": shown(interval.aspect, "", interval.value),
        "since": _moment(interval.since),
        "until": None if interval.until is None else _moment(interval.until),
    }


def of_digest(cluster: str, shared: SharedDigest) -> RowDocument:
    """Digest as a JSON document."""
    return {
        "cluster": cluster,
        "profiles": list(shared.profiles),
        "after": _moment(shared.after),
        "digest": shared.digest,
    }


def _moment(moment: Moment) -> RowDocument:
    return moment.position._asdict() | {"time_ms": moment.time_ms}


def write(file: Path, schema: pa.Schema, rows: Iterable[RowDocument]) -> None:
    """Write rows as Parquet, in batches; the file appears when it is complete.

    Raises:
        NotWritable: the file cannot be written.
    """
    values = {field.name for field in schema if field.name in _VALUES and field.type == pa.string()}
    with atomic_write(file) as draft, pq.ParquetWriter(draft, schema, compression="zstd") as writer:
        rows = iter(rows)
        while plain_rows := [_plain(row, values) for row in islice(rows, ROWS_AT_ONCE)]:
            writer.write_table(pa.Table.from_pylist(plain_rows, schema=schema))


_VALUES = ("value", "before", "after")
"""Columns with JSON text, because their values may be of any type."""


def _plain(row: RowDocument, values: Container[str]) -> RowDocument:
    """Convert a row for Arrow; half surrogate pairs, which Arrow text cannot hold, are escaped."""
    return {name: _json(cell) if name in values else _text(cell) for name, cell in row.items()}


def _json(cell: Any) -> str | None:
    return None if cell is None else json_converter.encode(cell).decode()


def _text(cell: Any) -> Any:
    if isinstance(cell, dict):
        return {name: _text(value) for name, value in cell.items()}
    return cell.encode("utf-8", "backslashreplace").decode() if isinstance(cell, str) else cell
