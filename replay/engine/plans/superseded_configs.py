"""Records of the config topic that a later record of the same key makes irrelevant.

Most records of this topic matter for ever. A commit depends on its connector's config, on the task
configs, and on the number of earlier commits. No other record depends on the records with the keys
in `PREFIXES`. A later record of the same key overwrites all effects of an earlier one. This holds
only if all releases that can read the earlier record can also read the later one.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from controlplane.core.codec.config import decode_config
from controlplane.core.records import Invalid, SessionKey, TargetState, TaskCount
from controlplane.core.releases.profile_groups import of_each
from controlplane.core.releases.profiles import PROFILES, Profile
from replay.archive.segments.removed_offsets import OffsetColumn
from replay.kernels.row_runs import RowRun

PREFIXES = (
    b"session-key",
    b"restart-connector-",
    b"logger-cluster-",
    b"target-state-",
    b"tasks-fencing-",
)
"""Keys of the records: session keys, restarts, log levels, target states, fencing."""

_LASTING = (SessionKey, TargetState, TaskCount)
"""Records that change the state; restarts and log levels only reach workers that run then."""


class _Effect(NamedTuple):
    """Effect of a record, as sets of releases: a bit for each."""

    lasting: int
    """Releases whose state it changes."""
    advances: int
    """Releases whose config offset it moves."""

    def __or__(self, other: "_Effect") -> "_Effect":
        return _Effect(self.lasting | other.lasting, self.advances | other.advances)

    def covers(self, earlier: "_Effect") -> bool:
        """True if no release can tell whether the earlier record was there."""
        return not (earlier.lasting & ~self.lasting or earlier.advances & ~self.advances)


_COLUMNS = ("offset", "key", "value", "aborted")

_NO_EFFECT = _Effect(0, 0)


def superseded_offsets(runs: Sequence[RowRun]) -> OffsetColumn:
    """Offsets of the superseded records of the config partition, ascending."""
    later: dict[bytes, _Effect] = {}
    offsets: list[int] = []
    for offset, key, value, is_aborted in _newest_first(runs):
        effect = _effect(key, value)
        if key in later and later[key].covers(effect):
            offsets.append(offset)
        elif not is_aborted:
            # An aborted record overwrites nothing for workers with exactly-once support.
            later[key] = later.get(key, _NO_EFFECT) | effect
    return np.array(offsets[::-1], np.int64)


def _newest_first(runs: Sequence[RowRun]) -> Iterator[tuple[int, bytes, bytes | None, bool]]:
    for rows in reversed(runs):
        table = rows.read(*_COLUMNS)
        keys = table.column("key").cast(pa.binary())
        is_wanted = reduce(pc.or_, (pc.starts_with(keys, prefix) for prefix in PREFIXES))
        overwritable = table.set_column(table.column_names.index("key"), "key", keys).filter(
            is_wanted
        )
        columns = (overwritable.column(name).to_pylist() for name in _COLUMNS)
        yield from reversed(list(zip(*columns, strict=True)))


def _effect(key: bytes, value: bytes | None) -> _Effect:
    each = [*of_each(PROFILES, _decoded(key, value))]
    return _Effect(
        sum(is_lasting << bit for bit, (is_lasting, _) in enumerate(each)),
        sum(advances << bit for bit, (_, advances) in enumerate(each)),
    )


def _decoded(key: bytes, value: bytes | None) -> Callable[[Profile], tuple[bool, bool]]:
    def of_release(profile: Profile) -> tuple[bool, bool]:
        record = decode_config(key, value, profile)
        advances = not isinstance(record, Invalid) or record.advances
        return isinstance(record, _LASTING), advances

    return of_release
