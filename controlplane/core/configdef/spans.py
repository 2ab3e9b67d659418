"""Rows of a catalogue that hold for some releases only, and what stood in them before.

A row tells how things are in the newest release that it holds for. `before` goes back in time from
there: each change says what a field was until a release, and counts on top of those in front of it.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from controlplane.core.profiles import Profile


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """A row that holds from one release on until another, which has it no more."""

    since: str | None = None
    until: str | None = None


class Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What some fields of a row were in all releases older than `until`."""

    until: str


_Row = TypeVar("_Row", bound=Span)


def as_of(row: _Row, before: Sequence[Change], profile: Profile) -> _Row | None:
    """The row as it was in the profile's release; None if it was not there."""
    if not profile.within(row.since, row.until):
        return None
    fields: dict[str, Any] = {}
    for change in before:
        if profile.within(None, change.until):
            fields |= _fields(change)
    return msgspec.structs.replace(row, **fields) if fields else row


def _fields(change: Change) -> dict[str, Any]:
    told = msgspec.structs.asdict(change)
    return {
        name: value
        for name, value in told.items()
        if name != "until" and not isinstance(value, msgspec.UnsetType)
    }
