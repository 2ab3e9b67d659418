"""What a fold knows of one topic as one value: to be frozen, or for another fold to begin with.

Topics know nothing of each other, so a fold is the sum of such parts.
"""

from collections.abc import Mapping

import msgspec

from controlplane.core.entry import Position
from controlplane.core.state import (
    Aspect,
    CommandTrace,
    ConfigState,
    OffsetState,
    StatusState,
)


class CommandState(msgspec.Struct, frozen=True):
    """Fold of the command topic."""

    traces: Mapping[str, CommandTrace] = {}
    """By command id: those that have not ended as they began, the others as they ended."""


TopicState = ConfigState | StatusState | OffsetState | CommandState


class Part(msgspec.Struct, frozen=True):
    """The state of one topic, and which of its records made it; as in `ClusterState`."""

    state: TopicState
    changed: Mapping[tuple[str, Aspect, str], Position] = {}
    causes: Mapping[tuple[str, bytes | None], Position] = {}
    unreadable: Mapping[Position, str] = {}
    unreadable_count: int = 0
    """Of all of them, also those that are not remembered."""

    @property
    def rows(self) -> int:
        """How many rows its tables have."""
        fields = (*msgspec.structs.astuple(self), *msgspec.structs.astuple(self.state))
        return sum(len(field) for field in fields if isinstance(field, Mapping))
