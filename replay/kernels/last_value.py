"""Last row of each key of a partition: the content of an offsets topic."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from replay.kernels.row_runs import (
    NumberedKeys,
    RowIndexes,
    RowRun,
    joined,
    running_times,
    visible,
)

LAST = pa.schema([("offset", pa.int64()), ("key", pa.binary()), ("value", pa.binary())])
"""Columns of the result. Tombstones stay: they may delete values in rows that are reduced
separately."""


def last_values(runs: Sequence[RowRun], *, aborted: bool, null: bool = True) -> pa.Table:
    """Last row of each key, ascending; `aborted` includes rows of aborted transactions.

    With `null=False` tombstones are skipped: the result is the last value of each key.

    Runs are visited from the last to the first. Each key is taken once, and no replaced value is
    copied.
    """
    tables: list[pa.Table] = []
    taken = pa.array([], pa.binary())
    for rows in reversed(joined(runs)):
        keys, places = _new(rows, taken, aborted=aborted, null=null)
        if not len(places):
            continue
        new = keys.at(places)
        tables.append(_picked(rows, places, new))
        taken = pa.concat_arrays([taken, new])
    return pa.concat_tables(reversed(tables)) if tables else LAST.empty_table()


def last_values_of_parts(parts: Sequence[Sequence[RowRun]]) -> list[pa.Table]:
    """Last row of each key of several partitions, all rows being visible.

    The result is that of `last_values` for each partition. Each part must have at least one run,
    and all parts together at least one row. All rows are taken by one call: for a few thousand
    rows, calls take longer than the work.
    """
    tables = [_joined_table(runs) for runs in parts]
    keys = NumberedKeys.of_parts([table.column("key") for table in tables])
    places = _ascending(keys.last(), len(keys.codes))
    columns = [
        _taken([table.column("offset") for table in tables], places),
        keys.at(places),
        _taken([table.column("value") for table in tables], places),
    ]
    picked = pa.table(columns, schema=LAST)
    cuts = np.searchsorted(places, np.cumsum([0, *(table.num_rows for table in tables)]))
    return [picked.slice(first, end - first) for first, end in pairwise(cuts)]


def _joined_table(runs: Sequence[RowRun]) -> pa.Table:
    tables = [rows.read(*LAST.names) for rows in runs]
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables)


def _taken(columns: Sequence[pa.ChunkedArray], places: RowIndexes) -> pa.ChunkedArray:
    whole = pa.chunked_array([chunk for column in columns for chunk in column.chunks])
    return whole.take(pa.array(places))


def last_times(runs: Sequence[RowRun], *, aborted: bool) -> pa.Table:
    """Last row of each key; its `timestamp` is the running maximum within the partition.

    The one order of all partitions sorts by this maximum first (`core.order`).
    """
    last = last_values(runs, aborted=aborted)
    offsets = np.concatenate([rows.read("offset").column("offset").to_numpy() for rows in runs])
    times = np.concatenate(list(running_times(runs)))
    at = np.searchsorted(offsets, last.column("offset").to_numpy())
    return last.append_column("timestamp", pa.array(times[at], pa.int64()))


def _new(
    rows: RowRun, taken: pa.Array, *, aborted: bool, null: bool
) -> tuple[NumberedKeys, RowIndexes]:
    """Keys of the rows, and the last row of each key that is not taken yet."""
    keys = NumberedKeys.of(rows.read("key").column("key"))
    last = keys.last(visible(rows, aborted=aborted, null=null))
    if len(taken):
        last = np.where(keys.inside(taken), -1, last)
    return keys, _ascending(last, len(rows))


def _ascending(last: RowIndexes, rows: int) -> RowIndexes:
    """Row numbers in `last` (`NumberedKeys.last`) other than -1, ascending; faster than sorting."""
    is_last = np.zeros(rows, np.bool_)
    is_last[last[last >= 0]] = True
    return np.flatnonzero(is_last)


def _picked(rows: RowRun, places: RowIndexes, keys: pa.Array) -> pa.Table:
    columns = rows.read("offset", "value").take(places)
    return pa.table([columns.column("offset"), keys, columns.column("value")], schema=LAST)
