"""Rows of a catalogue that hold for some releases, with their earlier contents.

A row describes the newest release that it holds for. `before` lists earlier contents, the newest
first. An entry of `before` sets fields for all releases older than its `until`. If several entries
set a field for a release, the last one in the list decides.
"""

import re
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from controlplane.core.releases.profiles import NAME_DIGITS, Profile

_RELEASE = re.compile(rf"\d{{1,{NAME_DIGITS}}}(\.\d{{1,{NAME_DIGITS}}}){{0,3}}", re.ASCII)


def _check_releases(*releases: str | None) -> None:
    """Refuse a text that is no release.

    msgspec appends the place of the row in its file to the message of the ValueError.
    """
    for release in releases:
        if release is not None and not _RELEASE.fullmatch(release):
            raise ValueError(f"{release!r} is no release: write it like 3.4 or 3.4.1")


class ReleaseSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A row that holds from the release `since` on and before `until`; None: no limit."""

    since: str | None = None
    until: str | None = None

    def __post_init__(self) -> None:
        _check_releases(self.since, self.until)


class EarlierFields(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Fields that a row had in all releases older than `until`."""

    until: str

    def __post_init__(self) -> None:
        _check_releases(self.until)


_Row = TypeVar("_Row", bound=ReleaseSpan)


def as_of(row: _Row, before: Sequence[EarlierFields], profile: Profile) -> _Row | None:
    """The row in the profile's release; None if the release lacks it."""
    if not profile.within(row.since, row.until):
        return None
    fields: dict[str, Any] = {}
    for change in before:
        if profile.within(None, change.until):
            fields |= _fields(change)
    return msgspec.structs.replace(row, **fields) if fields else row


def _fields(change: EarlierFields) -> dict[str, Any]:
    return {
        name: value
        for name, value in msgspec.structs.asdict(change).items()
        if name != "until" and not isinstance(value, msgspec.UnsetType)
    }
