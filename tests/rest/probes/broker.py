"""A stand-in for the brokers, as far as sinks need them: topics, and groups that consume them."""

from controlplane.controller.outside import OutsideFailed
from controlplane.core.plan import AlterGroup, AnyAction, DeleteGroup, GroupOffsets

Place = tuple[str, int]


class Broker:
    """Topics of one partition, and what consumer groups have committed (`Outside`)."""

    def __init__(self) -> None:
        self.ends: dict[str, int] = {}
        """How many records a topic holds."""
        self._groups: dict[str, dict[Place, int]] = {}

    def consume(self, group: str, topic: str) -> None:
        """A group reads a topic to its end, and commits."""
        if topic in self.ends:
            self._groups.setdefault(group, {})[topic, 0] = self.ends[topic]

    async def group_offsets(self, group: str) -> GroupOffsets:
        """What a group has committed; nothing of one that is not there."""
        return tuple((*place, offset) for place, offset in sorted(self._group(group).items()))

    async def perform(self, action: AnyAction) -> None:
        """Set, remove or forget offsets. What can be done of a request is done.

        A group that has no offsets left is gone, and then has none to remove.
        """
        if isinstance(action, DeleteGroup):
            self._groups.pop(action.group, None)
        if not isinstance(action, AlterGroup):
            return
        connector = action.connector
        self._set(action)
        if action.remove and action.group not in self._groups:
            raise OutsideFailed(_NOT_ALTERED.format(connector))
        if any(offset < 0 for *_, offset in action.put):
            raise OutsideFailed(f"Failed to modify offsets for sink connector {connector}")
        places = {(topic, partition) for topic, partition, _ in action.put} | {*action.remove}
        if not all(map(self._is_there, places)):
            raise OutsideFailed(_NOT_ALTERED.format(connector))
        self._remove(action)

    def _set(self, action: AlterGroup) -> None:
        for topic, partition, offset in action.put:
            if self._is_there((topic, partition)) and offset >= 0:
                self._groups.setdefault(action.group, {})[topic, partition] = offset

    def _remove(self, action: AlterGroup) -> None:
        for place in action.remove:
            self._group(action.group).pop(place, None)
        if not self._group(action.group):
            self._groups.pop(action.group, None)

    def _group(self, group: str) -> dict[Place, int]:
        return self._groups.get(group, {})

    def _is_there(self, place: Place) -> bool:
        topic, partition = place
        return topic in self.ends and partition == 0


_NOT_ALTERED = "Failed to alter consumer group offsets for connector {}"
