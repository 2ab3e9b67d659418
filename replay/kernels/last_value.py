"""The last row of each key of a partition: all that an offsets topic amounts to."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from replay.kernels.rows import Keys, Places, Rows, running_times, visible

LAST = pa.schema([("offset", pa.int64()), ("key", pa.binary()), ("value", pa.binary())])
"""What is left of the rows. Tombstones are among them: what they removed may lie elsewhere."""


def last_values(runs: Sequence[Rows], *, aborted: bool, null: bool = True) -> pa.Table:
    """The last row of each key, ascending; `aborted` ones only if the reader sees those.

    Without `null`, tombstones are passed over: the last value of each key that ever had one.
    Runs are gone through from the last to the first, so that each key is taken once and no value is
    copied that a later one replaces.
    """
    found: list[pa.Table] = []
    taken = pa.array([], pa.binary())
    for rows in reversed(runs):
        keys, places = _new(rows, taken, aborted=aborted, null=null)
        if not len(places):
            continue
        new = keys.at(places)
        found.append(_picked(rows, places, new))
        taken = pa.concat_arrays([taken, new])
    return pa.concat_tables(reversed(found)) if found else LAST.empty_table()


def last_times(runs: Sequence[Rows], *, aborted: bool) -> pa.Table:
    """The same, and with each row its rank's time: what decides between partitions."""
    last = last_values(runs, aborted=aborted)
    offsets = np.concatenate([rows.read("offset").column("offset").to_numpy() for rows in runs])
    times = np.concatenate(list(running_times(runs)))
    at = np.searchsorted(offsets, last.column("offset").to_numpy())
    return last.append_column("timestamp", pa.array(times[at], pa.int64()))


def _new(rows: Rows, taken: pa.Array, *, aborted: bool, null: bool) -> tuple[Keys, Places]:
    """The keys of these rows, and the last row of each that is not taken yet."""
    keys = Keys.of(rows.read("key").column("key"))
    last = keys.last(visible(rows, aborted=aborted, null=null))
    if len(taken):
        last = np.where(keys.inside(taken), -1, last)
    return keys, np.sort(last[last >= 0])


def _picked(rows: Rows, places: Places, keys: pa.Array) -> pa.Table:
    rest = rows.read("offset", "value").take(places)
    return pa.table([rest.column("offset"), keys, rest.column("value")], schema=LAST)
