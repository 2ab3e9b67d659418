"""Selects the status records that still count, without decoding those that do not.

The last value of a key decides what is reported of a connector, task or topic. Earlier records of
the key have no effect any more, with two exceptions. Earlier records still count if the last value
cannot be read. They also count if the last value is UNASSIGNED, which does not replace every status
(`StatusFold`).

Two more kinds of records count:

- Tombstones, because the tombstone of a connector also removes its tasks.
- The last value before a tombstone. A fold notes a tombstone as a change only if the tombstone
  removes a value. Without the last value, it would remove none.
"""

from collections.abc import Sequence
from itertools import compress

from controlplane.core.codec.status import decode_status
from controlplane.core.records import Invalid, State, StatusRecord, TaskStatus
from controlplane.core.releases.profiles import Profile

KeyColumn = Sequence[bytes | None]
ValueColumn = Sequence[bytes | None]


def live_records(keys: KeyColumn, values: ValueColumn, profile: Profile) -> list[int]:
    """Ascending indexes of the records of one partition that still count.

    `keys` and `values` are its columns, in offset order and of one length.
    """
    kept = {index for index, value in enumerate(values) if value is None}
    present = [value is not None for value in values]
    last = {keys[index]: index for index in compress(range(len(keys)), present)}
    kept.update(last.values())
    undecided = {key for key, index in last.items() if not decides(key, values[index], profile)}
    for indexes in _indexes_by_key(keys, undecided).values():
        kept.update(_since_last_decision(indexes, keys, values, profile))
    return sorted(kept)


def decides(key: bytes | None, value: bytes | None, profile: Profile) -> bool:
    """True if a value makes all earlier records of its key irrelevant.

    False for a tombstone: the value that it removes still counts. True for any value if the release
    has no statuses, because no record counts there.
    """
    if value is None:
        return False
    return not profile.statuses or _is_final(decode_status(key, value, profile))


def _is_final(record: StatusRecord | Invalid) -> bool:
    """True if a record has the same effect whatever precedes it."""
    match record:
        case Invalid():
            return False
        case TaskStatus(status=status) if status is not None:
            return status.state is not State.UNASSIGNED
    return True


def _indexes_by_key(
    keys: KeyColumn, sought_keys: set[bytes | None]
) -> dict[bytes | None, list[int]]:
    """Ascending indexes of the records of each sought key."""
    indexes: dict[bytes | None, list[int]] = {key: [] for key in sought_keys}
    if sought_keys:
        for index, key in enumerate(keys):
            if key in sought_keys:
                indexes[key].append(index)
    return indexes


def _since_last_decision(
    indexes: list[int], keys: KeyColumn, values: ValueColumn, profile: Profile
) -> list[int]:
    """Records of one key from its last deciding value on; all of them if none decides."""
    for count, index in enumerate(reversed(indexes), start=1):
        if decides(keys[index], values[index], profile):
            return indexes[-count:]
    return indexes
