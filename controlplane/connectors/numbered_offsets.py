"""Offsets with one number, such as the number of lines that a source has read of a file."""

from collections.abc import Mapping
from typing import Any

from controlplane.connect import ConnectError, SourceRun
from controlplane.connect.source import OffsetPairs


def committed_number(task: SourceRun, partition: Mapping[str, Any], field: str) -> int:
    """Return the number in the committed offset of a partition; 0 without an offset.

    Raises:
        ConnectError: the offset has no such number. The hook `alter_offsets` refuses such an
            offset. But a service that knows the class only from a catalogue cannot call this hook.
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

    A partition must have exactly one field. `fields` maps the name of this field to the name of the
    number in the offset. So `{"file": "line"}` accepts the offset `{"line": 7}` of the partition
    `{"file": "a"}`. Further entries of `fields` are further kinds of partitions.

    An offset None is a removal. It is accepted for a partition with any fields.

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
