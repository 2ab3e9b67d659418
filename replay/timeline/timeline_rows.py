"""Rows of timelines, differences and histories, without secrets."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from controlplane.core.text.value_text import item, shown
from replay.atomic_file import atomic_write
from replay.tables.cells import RowDocument, batches, json_cell, plain_cell
from replay.timeline.intervals import Moment, SharedInterval
from replay.timeline.passes import SharedDigest

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
    with atomic_write(file) as draft, pq.ParquetWriter(draft, schema, compression="zstd") as writer:
        for batch in batches(schema, plain_rows(schema, rows), ROWS_AT_ONCE):
            writer.write_batch(batch)


def plain_rows(schema: pa.Schema, rows: Iterable[RowDocument]) -> Iterator[RowDocument]:
    """Rows as Arrow takes them: values of any type become JSON text."""
    values = {field.name for field in schema if field.name in _VALUES and field.type == pa.string()}
    for row in rows:
        yield {
            name: json_cell(cell) if name in values else plain_cell(cell)
            for name, cell in row.items()
        }


_VALUES = ("value", "before", "after")
"""Columns with JSON text, because their values may be of any type."""
