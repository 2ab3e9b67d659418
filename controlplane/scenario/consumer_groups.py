"""The world beyond the logs, as far as a scenario has one: consumer groups that keep offsets."""

from controlplane.core.plan import AlterGroup, AnyAction, DeleteGroup, GroupOffsets


class ConsumerGroups:
    """The consumer groups of sinks. Producers to be fenced and instances to restart do not run."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[tuple[str, int], int]] = {}

    async def perform(self, action: AnyAction) -> None:
        """Set, remove or forget offsets."""
        match action:
            case AlterGroup():
                group = self._groups.setdefault(action.group, {})
                group |= {(topic, partition): offset for topic, partition, offset in action.put}
                for partition in action.remove:
                    group.pop(partition, None)
            case DeleteGroup():
                self._groups.pop(action.group, None)

    async def group_offsets(self, group: str) -> GroupOffsets:
        """Offsets of a group; empty for an unknown group."""
        offsets = self._groups.get(group, {})
        return tuple((*partition, offset) for partition, offset in sorted(offsets.items()))
