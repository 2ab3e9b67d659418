"""Rows that may still count, kept beside a segment or in a snapshot, so that the rest is not read.

They are rows of a segment like any others, but for their timestamp: it is the greatest one of the
partition up to the row, for the order between partitions goes by that. So the kernels that reduce
segments reduce winners, too, in any mixture, and snapshots are made of winners.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from controlplane.core.profiles import PROFILES
from controlplane.core.state import Topics
from replay.archive.segments import SCHEMA
from replay.kernels.last_value import last_values
from replay.kernels.rows import Rows, running_times, visible
from replay.kernels.statuses import counting_rows

WORTH_IT = 0.5
"""Winners are kept if they are at most so large a part of the rows."""


def reducible(topic: str, topics: Topics) -> bool:
    """Whether of a topic only some records count: every one may in the others."""
    return topic not in (topics.config, topics.commands)


def winners(
    runs: Sequence[Rows],
    topic: str,
    topics: Topics,
    before_ms: int | None,
    *,
    removed: bool = True,
) -> pa.Table:
    """The rows that may still count, for any release, whether or not it sees aborted records.

    `before_ms` is the greatest timestamp of the partition before them. Earlier versions kept
    winners without the statuses that a tombstone has `removed`.
    """
    some_aborted = any(visible(rows, aborted=False) is not None for rows in runs)
    readers = (True, False) if some_aborted else (True,)
    offsets = [
        _counting(runs, topic, topics, aborted=aborted, removed=removed) for aborted in readers
    ]
    wanted = pc.unique(
        pa.chunked_array([one for some in offsets for one in some.chunks], pa.int64())
    )
    found = [
        _timed(rows, times, before_ms).filter(
            pc.is_in(rows.read("offset").column("offset"), value_set=wanted)
        )
        for rows, times in zip(runs, running_times(runs), strict=True)
    ]
    return pa.concat_tables(found) if found else SCHEMA.empty_table()


def _counting(
    runs: Sequence[Rows], topic: str, topics: Topics, *, aborted: bool, removed: bool
) -> pa.ChunkedArray:
    if topic == topics.status:
        return counting_rows(runs, PROFILES, aborted=aborted, removed=removed).column("offset")
    return last_values(runs, aborted=aborted).column("offset")


def _timed(
    rows: Rows, times: "np.ndarray[tuple[int], np.dtype[np.int64]]", before_ms: int | None
) -> pa.Table:
    """Rows whose timestamp is the greatest one of the partition so far."""
    table = rows.read(*SCHEMA.names)
    latest = times if before_ms is None else np.maximum(times, before_ms)
    columns = [table.column(name).cast(SCHEMA.field(name).type) for name in SCHEMA.names]
    columns[SCHEMA.names.index("timestamp")] = pa.chunked_array([pa.array(latest)])
    return pa.table(columns, schema=SCHEMA)
