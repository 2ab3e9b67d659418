"""Last row of each key of a partition: the content of an offsets topic."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from replay.kernels.row_runs import (
    HeldRows,
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

    The result is that of `last_values` for each partition. All parts together must have at least
    one row. All rows are reduced by one call: for a few thousand rows, calls take longer than the
    work.
    """
    rows = HeldRows(_concatenated([run.read(*LAST.names) for runs in parts for run in runs]))
    keys = NumberedKeys.of(rows.read("key").column("key"))
    lengths = [sum(map(len, runs)) for runs in parts]
    numbers = keys.codes * len(parts) + np.repeat(np.arange(len(parts)), lengths)
    dense = pa.array(numbers).dictionary_encode()
    last = np.empty(len(dense.dictionary), np.int64)
    last[dense.indices.to_numpy()] = np.arange(len(numbers))  # the last row, as in `NumberedKeys`
    places = np.sort(last)
    picked = _picked(rows, places, keys.at(places))
    cuts = np.searchsorted(places, np.cumsum([0, *lengths]))
    return [picked.slice(first, end - first) for first, end in pairwise(cuts)]


def _concatenated(tables: Sequence[pa.Table]) -> pa.Table:
    """Concatenate rows of files whose keys have different dictionaries."""
    return pa.table(
        [
            pa.chunked_array([chunk for table in tables for chunk in table.column(name).chunks])
            for name in LAST.names
        ],
        names=LAST.names,
    )


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
    return keys, np.sort(last[last >= 0])


def _picked(rows: RowRun, places: RowIndexes, keys: pa.Array) -> pa.Table:
    columns = rows.read("offset", "value").take(places)
    return pa.table([columns.column("offset"), keys, columns.column("value")], schema=LAST)
