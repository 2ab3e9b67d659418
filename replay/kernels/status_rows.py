"""Rows of a status partition that may still count; the core's `live_statuses` needs no others.

The last value of a key may determine the key's status for one release, and leave it open for
another. If it leaves the status open for any of the requested releases, every row of the key is
kept.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from controlplane.core.fold.live_statuses import decides
from controlplane.core.releases.profile_groups import of_each
from controlplane.core.releases.profiles import Profile
from replay.kernels.last_value import LAST, last_values
from replay.kernels.row_runs import (
    NumberedKeys,
    RowIndexes,
    RowRun,
    joined,
    running_times,
    visible,
)

COUNTING = LAST.append(pa.field("timestamp", pa.int64()))
"""Columns of the result; `timestamp` is the running maximum, which defines the order."""


def counting_rows(
    runs: Sequence[RowRun], profiles: Iterable[Profile], *, aborted: bool, removed: bool = True
) -> pa.Table:
    """Rows that may still count for one of these releases, ascending.

    `removed=False` selects rows as earlier versions of `replay` did:

    - If the last row of a key is a tombstone, no value of the key is included.
    - If the last row of a key is a value, every row of the key is included.

    Both selections give the same state, but the record that caused it may differ.
    """
    runs = joined(runs)
    last = last_values(runs, aborted=aborted, null=not removed)
    undecided = undecided_keys(last, profiles) if removed else _with_values(last)
    later = pa.array([], pa.binary())
    tables: list[pa.Table] = []
    # The last run comes first: `later` collects the keys with a value in a later run.
    for rows, times in zip(reversed(runs), reversed(list(running_times(runs))), strict=True):
        keys, places = _counting(rows, later, undecided, aborted=aborted, removed=removed)
        later = pa.concat_arrays([later, keys])
        picked = rows.read("offset", "key", "value").take(places)
        columns = [picked.column(name) for name in ("offset", "key", "value")]
        columns[1] = columns[1].cast(pa.binary())
        tables.append(pa.table([*columns, pa.array(times[places])], schema=COUNTING))
    return pa.concat_tables(reversed(tables)) if tables else COUNTING.empty_table()


def with_earlier_time(table: pa.Table, before_ms: int | None) -> pa.Table:
    """Raise the times of rows to the greatest timestamp before them; None: no row lies before."""
    if before_ms is None:
        return table
    times = np.maximum(table.column("timestamp").to_numpy(), before_ms)
    return table.set_column(COUNTING.get_field_index("timestamp"), "timestamp", pa.array(times))


def undecided_keys(last: pa.Table, profiles: Iterable[Profile]) -> pa.Array:
    """Keys whose last value leaves the status open for one of these releases."""
    pairs = list(zip(last.column("key").to_pylist(), last.column("value").to_pylist(), strict=True))

    def undecided(profile: Profile) -> frozenset[bytes | None]:
        return frozenset(key for key, value in pairs if not decides(key, value, profile))

    return pa.array(frozenset().union(*of_each(profiles, undecided)), pa.binary())


def _with_values(last: pa.Table) -> pa.Array:
    """Keys whose last row is a value."""
    return last.filter(last.column("value").is_valid()).column("key").combine_chunks()


def _counting(
    rows: RowRun, later: pa.Array, undecided: pa.Array, *, aborted: bool, removed: bool
) -> tuple[pa.Array, RowIndexes]:
    """Keys with values in this run and in no later one; and the rows of this run that may count.

    Three kinds of rows may count:

    - The last value of a key that has no value in a later run.
    - Each tombstone.
    - Each row of an undecided key.
    """
    keys = NumberedKeys.of(rows.read("key").column("key"))
    last = keys.last(visible(rows, aborted=aborted, null=not removed))
    keep = np.zeros(len(rows), np.bool_)
    is_new = (last >= 0) & ~keys.inside(later)
    keep[last[is_new]] = True
    keep |= rows.read("value").column("value").is_null().to_numpy()
    keep |= keys.inside(undecided)[keys.codes]
    seen_rows = visible(rows, aborted=aborted)
    if seen_rows is not None:
        hidden = np.ones(len(rows), np.bool_)
        hidden[seen_rows] = False
        keep &= ~hidden
    return keys.at(last[is_new]), np.flatnonzero(keep)
