"""The rows of a status partition that may still count: `survivors` of the core looks at no others.

Which record of a key decides, whatever came before it, is a question of the release that reads. So
of a key whose last record leaves it open for any of the releases asked for, every row is kept.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from controlplane.core.each_profile import of_each
from controlplane.core.evolve.survivors import decides
from controlplane.core.profiles import Profile
from replay.kernels.last_value import LAST, last_values
from replay.kernels.rows import Keys, Places, Rows, running_times, visible

Pairs = list[tuple[bytes | None, bytes | None]]

COUNTING = LAST.append(pa.field("timestamp", pa.int64()))
"""What is left of the rows; `timestamp` is the greatest one up to each row, by which order goes."""


def counting_rows(runs: Sequence[Rows], profiles: Iterable[Profile], *, aborted: bool) -> pa.Table:
    """The rows that may still count for one of these releases, ascending."""
    undecided = undecided_keys(last_values(runs, aborted=aborted), profiles)
    later = pa.array([], pa.binary())
    found: list[pa.Table] = []
    for rows, times in zip(reversed(runs), reversed(list(running_times(runs))), strict=True):
        keys, places = _counting(rows, later, undecided, aborted=aborted)
        later = pa.concat_arrays([later, keys])
        picked = rows.read("offset", "key", "value").take(places)
        columns = [picked.column(name) for name in ("offset", "key", "value")]
        columns[1] = columns[1].cast(pa.binary())
        found.append(pa.table([*columns, pa.array(times[places])], schema=COUNTING))
    return pa.concat_tables(reversed(found)) if found else COUNTING.empty_table()


def since(table: pa.Table, before_ms: int | None) -> pa.Table:
    """The same rows behind others, of which this is the greatest timestamp; None: behind none."""
    if before_ms is None:
        return table
    times = np.maximum(table.column("timestamp").to_numpy(), before_ms)
    return table.set_column(COUNTING.get_field_index("timestamp"), "timestamp", pa.array(times))


def undecided_keys(last: pa.Table, profiles: Iterable[Profile]) -> pa.Array:
    """The keys whose last record does not decide, as one of these releases reads it."""
    pairs = list(zip(last.column("key").to_pylist(), last.column("value").to_pylist(), strict=True))

    def undecided(profile: Profile) -> frozenset[bytes | None]:
        return frozenset(key for key, value in pairs if not decides(key, value, profile))

    return pa.array(frozenset().union(*of_each(profiles, undecided)), pa.binary())


def _counting(
    rows: Rows, later: pa.Array, undecided: pa.Array, *, aborted: bool
) -> tuple[pa.Array, Places]:
    """The keys of these rows, and the rows that may count: last ones, tombstones, the undecided."""
    keys = Keys.of(rows.read("key").column("key"))
    seen = visible(rows, aborted=aborted)
    last = keys.last(seen)
    keep = np.zeros(len(rows), np.bool_)
    keep[last[(last >= 0) & ~keys.inside(later)]] = True
    keep |= rows.read("value").column("value").is_null().to_numpy()
    keep |= keys.inside(undecided)[keys.codes]
    if seen is not None:
        hidden = np.ones(len(rows), np.bool_)
        hidden[seen] = False
        keep &= ~hidden
    present = np.flatnonzero(last >= 0)
    return keys.at(last[present]), np.flatnonzero(keep)
