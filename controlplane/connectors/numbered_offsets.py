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


def check_numbers(offsets: OffsetPairs, fields: Mapping[str, tuple[type, str]]) -> bool:
    """Accept offsets that a request sets, for the hook `alter_offsets` (KIP-875).

    A partition must have exactly one field. The keys of `fields` are the allowed names of this
    field. Each has a pair: the type of the field's value, and the name of the number in the offset.
    So `{"file": (str, "line")}` accepts the offset `{"line": 7}` of the partition `{"file": "a"}`.

    An offset None removes the offset. This is accepted for a partition with any fields.

    Raises:
        ValueError: an offset is refused.
    """
    for partition, offset in offsets:
        if offset is None:
            continue
        name = next(iter(partition), "")
        if len(partition) != 1 or name not in fields:
            raise ValueError(f"A partition has one field, {' or '.join(fields)}: {dict(partition)}")
        value_type, field = fields[name]
        if type(partition[name]) is not value_type:
            kind = _KINDS[value_type]
            raise ValueError(f"The field {name} of a partition is {kind}: {dict(partition)}")
        if _count(offset.get(field)) is None:
            raise ValueError(f"An offset has a whole number {field} of 0 or more: {dict(offset)}")
    return True


_KINDS = {str: "a text", int: "a whole number"}
"""Types of fields, in words."""


def _count(number: Any) -> int | None:
    """Return a whole number of 0 or more as it is; None for anything else."""
    is_whole = isinstance(number, int) and not isinstance(number, bool)
    return number if is_whole and number >= 0 else None
