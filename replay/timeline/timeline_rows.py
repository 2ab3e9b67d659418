"""Schemas of timelines, digests, differences and histories; rows of the first two.

No row has secrets.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from controlplane.core.text.value_text import item, json_value
from replay.atomic_file import atomic_write
from replay.tables.cells import RowDocument, batches, json_cell, plain_cell
from replay.tables.schemas import POSITION, SPAN, described
from replay.timeline.interval_doubts import IntervalDoubts
from replay.timeline.intervals import Moment, SharedInterval
from replay.timeline.passes import SharedDigest
from replay.timeline.work_shares import TimelineJob

ROWS_AT_ONCE = 50_000
"""Rows of a file that are buffered before a write."""

_MOMENT = pa.struct([*POSITION, ("time_ms", pa.int64())])

INTERVALS = described(
    ("cluster", pa.string(), "name of the cluster in the archive"),
    ("releases", pa.list_(pa.string()), "releases for which the fact held"),
    ("connector", pa.string(), "name of the connector"),
    ("aspect", pa.string(), "config, target state, tasks, status, …"),
    (
        "item",
        pa.string(),
        "task, topic or source partition; empty for facts that a connector has once",
    ),
    ("value", pa.string(), "value as JSON"),
    ("since", _MOMENT, "record that began the interval"),
    ("until", _MOMENT, "record that ended it; null if the fact still holds"),
    ("first_seen", pa.bool_(), "true if the fact may be older: offsets before it are missing"),
    (
        "unknown",
        SPAN,
        "archived offsets before and after the missing ones in the period; null if none is missing",
    ),
)

DIGESTS = described(
    ("cluster", pa.string(), "name of the cluster in the archive"),
    ("releases", pa.list_(pa.string()), "releases with this digest"),
    ("after", _MOMENT, "record after which the state has it"),
    ("digest", pa.string(), "digest of the config topic's state"),
)

_SIDE = pa.struct([("cluster", pa.string()), ("release", pa.string()), ("as_of", pa.string())])

CHANGES = described(
    ("from", _SIDE, "first side: cluster, release and end offsets as JSON"),
    ("to", _SIDE, "second side"),
    ("connector", pa.string(), "name of the connector"),
    ("aspect", pa.string(), "config, target state, tasks, status, …"),
    (
        "item",
        pa.string(),
        "config key, task, topic or source partition; empty for facts that a connector has once",
    ),
    ("before", pa.string(), "value of the first side as JSON; null if absent"),
    ("after", pa.string(), "value of the second side as JSON; null if absent"),
    ("words", pa.string(), "the difference in words"),
    ("cause", POSITION, "record that changed the fact last; null if unknown"),
)

COMPARISONS = described(
    ("cluster", pa.string(), "name of the cluster in the archive; that of the first side"),
    ("from", _SIDE, "first side; null if a side cannot be read"),
    ("to", _SIDE, "second side; null if a side cannot be read"),
    ("differences", pa.int64(), "number of rows written to `diff`"),
    ("gaps", pa.list_(pa.string()), "offsets that were lost before they were archived"),
    ("doubts", pa.list_(pa.string()), "facts that the archive does not know for certain"),
    ("problem", pa.string(), "reason why a side cannot be read; null if both can"),
    (
        "certain_from",
        pa.struct([("from", pa.string()), ("to", pa.string())]),
        "earliest certain moment of each side, as end offsets; null if there is none",
    ),
)

_RECORD = pa.struct(
    [
        *POSITION,
        ("timestamp", pa.int64()),
        ("key", pa.string()),
        ("value", pa.string()),
    ]
)

EVENTS = described(
    ("cluster", pa.string(), "name of the cluster in the archive"),
    ("release", pa.string(), "release that read the record"),
    ("connector", pa.string(), "name of the connector"),
    ("at", pa.string(), "the record as a moment: config@57"),
    ("record", _RECORD, "the record; its value is in its first row only"),
    ("meaning", pa.string(), "effect: applied, pending, ignored, …"),
    ("what", pa.string(), "fact that the record concerns"),
    ("words", pa.string(), "the change in words"),
    ("before", pa.string(), "value before as JSON; null if absent"),
    ("after", pa.string(), "value after as JSON; null if absent"),
)


RowMaker = Callable[[Any], RowDocument]
"""Makes a JSON document of an interval or of a digest of one cluster."""


def interval_documents(job: TimelineJob) -> RowMaker:
    """Maker of documents of a job's intervals."""
    return partial(_of_interval, IntervalDoubts(job.cluster, job.plan.ends))


def _of_interval(doubts: IntervalDoubts, shared: SharedInterval) -> RowDocument:
    interval = shared.interval
    first_seen, missing = doubts.of(interval)
    return {
        "cluster": doubts.cluster,
        "releases": list(shared.profiles),
        "connector": interval.connector,
        "aspect": interval.aspect.value,
        "item": item(interval.aspect, interval.item),
        "value": json_value(interval.aspect, "", interval.value),
        "since": _moment(interval.since),
        "until": None if interval.until is None else _moment(interval.until),
        "first_seen": first_seen,
        "unknown": None if missing is None else missing._asdict(),
    }


def digest_documents(job: TimelineJob) -> RowMaker:
    """Maker of documents of a job's digests."""
    return partial(_of_digest, job.cluster.name)


def _of_digest(cluster: str, shared: SharedDigest) -> RowDocument:
    return {
        "cluster": cluster,
        "releases": list(shared.profiles),
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
