"""Snapshot of one topic's state: to be serialised, or to start another fold from.

No topic depends on another, so the state of a fold is the sum of such snapshots.
"""

from collections.abc import Mapping

import msgspec

from controlplane.core.entry import Position
from controlplane.core.records import CommandTrace
from controlplane.core.state import (
    Aspect,
    ConfigState,
    OffsetState,
    StatusState,
)


class CommandState(msgspec.Struct, frozen=True):
    """State folded from the command topic."""

    traces: Mapping[str, CommandTrace] = {}
    """Commands by id, in order of acceptance; a command that ends moves to the back."""


TopicState = ConfigState | StatusState | OffsetState | CommandState


class TopicSnapshot(msgspec.Struct, frozen=True):
    """State of one topic and the records that made it; fields as in `ClusterState`."""

    state: TopicState
    changed: Mapping[tuple[str, Aspect, str], Position] = {}
    causes: Mapping[tuple[str, bytes | None], Position] = {}
    unreadable: Mapping[Position, str] = {}
    unreadable_count: int = 0
    """Number of unreadable records, including those that are not listed."""

    @property
    def rows(self) -> int:
        """Number of rows in all tables of the snapshot: a measure of its size."""
        fields = (*msgspec.structs.astuple(self), *msgspec.structs.astuple(self.state))
        return sum(len(field) for field in fields if isinstance(field, Mapping))
