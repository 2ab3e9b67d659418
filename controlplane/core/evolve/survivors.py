"""Which status records still count, found without decoding the ones that do not.

The last value of a key decides what is reported of a connector, task or topic, if it can be read
and is no UNASSIGNED (which does not replace everything, `StatusFold`). Earlier records of the key
have no effect any more. Two kinds of records count beside it:

- Tombstones always count, because the tombstone of a connector takes its tasks along.
- The last value before a tombstone counts: without it nobody could tell which tombstone removed
  it, and thus which record a difference is due to.
"""

from collections.abc import Sequence
from itertools import compress

from controlplane.core.codec.status import decode_status
from controlplane.core.profiles import Profile
from controlplane.core.records import Invalid, State, StatusRecord, TaskStatus

Keys = Sequence[bytes | None]
Values = Sequence[bytes | None]


def survivors(keys: Keys, values: Values, profile: Profile) -> list[int]:
    """Indexes, ascending, of the records of one partition that still count."""
    kept = {index for index, value in enumerate(values) if value is None}
    present = [value is not None for value in values]
    last = {keys[index]: index for index in compress(range(len(keys)), present)}
    kept.update(last.values())
    undecided = {key for key, index in last.items() if not decides(key, values[index], profile)}
    for known in _places(keys, undecided).values():
        kept.update(_back_to_a_decision(known, keys, values, profile))
    return sorted(kept)


def decides(key: bytes | None, value: bytes | None, profile: Profile) -> bool:
    """Whether a value makes everything before it under its key irrelevant.

    A tombstone does not: the value that it removes still counts. To a release without statuses
    every value is irrelevant.
    """
    if value is None:
        return False
    return not profile.statuses or _is_final(decode_status(key, value, profile))


def _is_final(record: StatusRecord | Invalid) -> bool:
    """Whether a record has the same effect whatever was before it."""
    match record:
        case Invalid():
            return False
        case TaskStatus(status=status) if status is not None:
            return status.state is not State.UNASSIGNED
    return True


def _places(keys: Keys, wanted: set[bytes | None]) -> dict[bytes | None, list[int]]:
    places: dict[bytes | None, list[int]] = {key: [] for key in wanted}
    if wanted:
        for index, key in enumerate(keys):
            if key in wanted:
                places[key].append(index)
    return places


def _back_to_a_decision(
    places: list[int], keys: Keys, values: Values, profile: Profile
) -> list[int]:
    """The records of one key from the last value that decides on: all of them if none does."""
    for back, index in enumerate(reversed(places), start=1):
        if decides(keys[index], values[index], profile):
            return places[-back:]
    return places
