"""What a past is told in, as rows: what people and machines are shown, without secrets."""

from collections.abc import Container, Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from controlplane.core import javajson
from controlplane.core.shown import item, shown
from replay.timeline.intervals import Moment, Seen
from replay.timeline.telling import SeenDigest
from replay.whole import whole

Row = dict[str, Any]

ROWS_AT_ONCE = 50_000
"""Rows of a file that are held until they are written."""

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
"""As a table: a value comes as JSON text; `until` is null where it holds at the end."""

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
"""What differs between two sides; vectors and values come as JSON text."""

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
"""What records meant for a connector; values come as JSON text."""


def of_interval(cluster: str, seen: Seen) -> Row:
    """An interval as JSON."""
    one = seen.interval
    return {
        "cluster": cluster,
        "profiles": list(seen.profiles),
        "connector": one.connector,
        "aspect": one.aspect.value,
        "item": item(one.aspect, one.item),
        "value": shown(one.aspect, "", one.value),
        "since": _moment(one.since),
        "until": None if one.until is None else _moment(one.until),
    }


def of_digest(cluster: str, seen: SeenDigest) -> Row:
    """A digest as JSON."""
    return {
        "cluster": cluster,
        "profiles": list(seen.profiles),
        "after": _moment(seen.after),
        "digest": seen.digest,
    }


def _moment(moment: Moment) -> Row:
    return moment.position._asdict() | {"time_ms": moment.time_ms}


def write(file: Path, schema: pa.Schema, rows: Iterable[Row]) -> None:
    """Write rows as Parquet, some at a time; the file is there when all of them are.

    Raises:
        NotWritable: it cannot be written there.
    """
    values = {one.name for one in schema if one.name in _VALUES and one.type == pa.string()}
    with whole(file) as draft, pq.ParquetWriter(draft, schema, compression="zstd") as writer:
        rows = iter(rows)
        while some := [_plain(row, values) for row in islice(rows, ROWS_AT_ONCE)]:
            writer.write_table(pa.Table.from_pylist(some, schema=schema))


_VALUES = ("value", "before", "after")
"""Columns of which a table has JSON text: what is in them may be anything."""


def _plain(row: Row, values: Container[str]) -> Row:
    """A row as a table takes it; half a surrogate pair, which no text there may hold, escaped."""
    return {name: _json(cell) if name in values else _text(cell) for name, cell in row.items()}


def _json(cell: Any) -> str | None:
    return None if cell is None else javajson.encode(cell).decode()


def _text(cell: Any) -> Any:
    if isinstance(cell, dict):
        return {name: _text(one) for name, one in cell.items()}
    return cell.encode("utf-8", "backslashreplace").decode() if isinstance(cell, str) else cell
