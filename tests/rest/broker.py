"""Simulated broker and workers: topics, consumer groups, restarts."""

from collections.abc import Callable

from msgspec import UNSET

from controlplane.controller.external import ExternalActionFailed
from controlplane.core.plan import (
    AdminOverrides,
    AlterGroup,
    AnyAction,
    DeleteGroup,
    GroupOffsets,
    RestartInstances,
)

GroupPartition = tuple[str, int]


class SimulatedBroker:
    """Topics of one partition, and committed offsets of consumer groups (`Outside`)."""

    def __init__(self) -> None:
        self.ends: dict[str, int] = {}
        """Number of records of each topic."""
        self.starts: Callable[[str], bool] = lambda _: True
        """True if a connector of this name starts after a restart."""
        self._groups: dict[str, dict[GroupPartition, int]] = {}

    def consume(self, group: str, topic: str) -> None:
        """Let a group read a topic to its end and commit."""
        if topic in self.ends:
            self._groups.setdefault(group, {})[topic, 0] = self.ends[topic]

    async def group_offsets(self, group: str, admin: AdminOverrides = UNSET) -> GroupOffsets:
        """Committed offsets of a group; empty for an unknown group."""
        del admin
        return tuple((*place, offset) for place, offset in sorted(self._group(group).items()))

    async def perform(self, action: AnyAction) -> None:
        """Restart; set, remove or forget offsets."""
        match action:
            case RestartInstances(connector=connector, instances=instances):
                if None in instances and not self.starts(connector):
                    raise ExternalActionFailed(f"Failed to start connector: {connector}")
            case DeleteGroup():
                self._groups.pop(action.group, None)
            case AlterGroup():
                self._alter(action)

    def _alter(self, action: AlterGroup) -> None:
        """Apply the changes that are possible.

        A group is deleted with its last offset. A removal from a missing group fails.
        """
        put = {(topic, partition): offset for topic, partition, offset in action.put}
        for place in filter(self._is_there, put):
            self._groups.setdefault(action.group, {})[place] = put[place]
        nothing_to_remove = action.remove and action.group not in self._groups
        if nothing_to_remove or not all(map(self._is_there, (*put, *action.remove))):
            raise ExternalActionFailed(
                f"Failed to alter consumer group offsets for connector {action.connector}"
            )
        self._remove(action)

    def _remove(self, action: AlterGroup) -> None:
        for place in action.remove:
            self._group(action.group).pop(place, None)
        if not self._group(action.group):
            self._groups.pop(action.group, None)

    def _group(self, group: str) -> dict[GroupPartition, int]:
        return self._groups.get(group, {})

    def _is_there(self, place: GroupPartition) -> bool:
        topic, partition = place
        return topic in self.ends and partition == 0
