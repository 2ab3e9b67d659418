"""Offsets that are one number: how many lines or orders a source has read of a partition."""

from collections.abc import Mapping
from typing import Any

from controlplane.connect import ConnectError, SourceRun
from controlplane.connect.source import OffsetPairs


def committed_number(task: SourceRun, partition: Mapping[str, Any], field: str) -> int:
    """Return the number in the committed offset of a partition; 0 without an offset.

    Raises:
        ConnectError: the offset has no such number. Before its first start, a connector may have
            been created with offsets that no hook has checked.
    """
    offset = task.offset(partition)
    if offset is None:
        return 0
    number = _count(offset.get(field))
    if number is None:
        raise ConnectError(
            f"The committed offset {dict(offset)} has no whole number {field}: "
            "alter or reset the offsets"
        )
    return number


def check_numbers(offsets: OffsetPairs, fields: Mapping[str, str]) -> bool:
    """Accept offsets that a request sets, for the hook `alter_offsets` (KIP-875).

    `fields`: the only field of a partition, and the field of its offset with the number. An offset
    None removes the offset of any partition.

    Raises:
        ValueError: an offset is refused.
    """
    for partition, offset in offsets:
        if offset is None:
            continue
        field = next((fields[name] for name in fields if list(partition) == [name]), None)
        if field is None:
            raise ValueError(f"A partition has one field, {' or '.join(fields)}: {dict(partition)}")
        if _count(offset.get(field)) is None:
            raise ValueError(f"An offset has a whole number {field} of 0 or more: {dict(offset)}")
    return True


def _count(number: Any) -> int | None:
    """Return a whole number of 0 or more as it is; None for anything else."""
    is_whole = isinstance(number, int) and not isinstance(number, bool)
    return number if is_whole and number >= 0 else None
