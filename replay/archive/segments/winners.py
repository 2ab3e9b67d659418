"""Winners: rows that may still count, stored beside a segment or in a snapshot.

A row *counts* if the state at a moment depends on it. One segment alone shows only which rows *may*
count: records of later segments can replace them. A fold reads the winners in place of all rows of
the segment.

Winners are ordinary rows of a segment, except for the timestamp. The timestamp of a winner is the
greatest one of the partition up to the row. It decides the order between partitions. Winners have
the columns of a segment, so the same kernels reduce segments and winners. One reduction may read
the winners of some segments and all rows of others. Snapshots are made of winners.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from controlplane.core.releases.profiles import PROFILES
from controlplane.core.state import Topics
from replay.archive.segments.segment_files import SCHEMA
from replay.kernels.last_value import last_values
from replay.kernels.row_runs import RowRun, running_times, visible
from replay.kernels.status_rows import counting_rows

WORTH_IT = 0.5
"""Greatest share of a segment's rows up to which winners are stored."""


def reducible(topic: str, topics: Topics) -> bool:
    """True if a topic has winners. In config and command topics every record may count."""
    return topic not in (topics.config, topics.commands)


def winners(
    runs: Sequence[RowRun],
    topic: str,
    topics: Topics,
    before_ms: int | None,
    *,
    removed: bool = True,
) -> pa.Table:
    """Rows that may still count for any release, with and without exactly-once support.

    `before_ms` is the partition's greatest timestamp before them. `removed=False` leaves out the
    statuses that a tombstone has removed, as earlier versions did.
    """
    some_aborted = any(visible(rows, aborted=False) is not None for rows in runs)
    readers = (True, False) if some_aborted else (True,)
    offsets = [
        _counting(runs, topic, topics, aborted=aborted, removed=removed) for aborted in readers
    ]
    winning_offsets = pc.unique(
        pa.chunked_array([chunk for column in offsets for chunk in column.chunks], pa.int64())
    )
    tables = [
        _timed(rows, times, before_ms).filter(
            pc.is_in(rows.read("offset").column("offset"), value_set=winning_offsets)
        )
        for rows, times in zip(runs, running_times(runs), strict=True)
    ]
    return pa.concat_tables(tables) if tables else SCHEMA.empty_table()


def _counting(
    runs: Sequence[RowRun], topic: str, topics: Topics, *, aborted: bool, removed: bool
) -> pa.ChunkedArray:
    if topic == topics.status:
        return counting_rows(runs, PROFILES, aborted=aborted, removed=removed).column("offset")
    return last_values(runs, aborted=aborted).column("offset")


def _timed(
    rows: RowRun, times: "np.ndarray[tuple[int], np.dtype[np.int64]]", before_ms: int | None
) -> pa.Table:
    """Rows with the greatest timestamp of the partition so far."""
    table = rows.read(*SCHEMA.names)
    latest = times if before_ms is None else np.maximum(times, before_ms)
    columns = [table.column(name).cast(SCHEMA.field(name).type) for name in SCHEMA.names]
    columns[SCHEMA.names.index("timestamp")] = pa.chunked_array([pa.array(latest)])
    return pa.table(columns, schema=SCHEMA)
