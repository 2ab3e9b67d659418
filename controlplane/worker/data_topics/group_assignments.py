"""Assignment of partitions to the consumers of a group on a log of our own."""

from collections.abc import Awaitable, Callable, Mapping

from controlplane.core.entry import TopicPartition
from controlplane.event_loop import sliced


class GroupAssignments:
    """Assigns partitions to the consumers of each group in this process.

    A partition moves to another consumer only after its owner has given it back.
    """

    def __init__(self, topics: Callable[[], Awaitable[Mapping[str, int]]]) -> None:
        """`topics` asks the log for its topics, each with its number of partitions now."""
        self._topics = topics
        self._groups: dict[str, list[GroupMember]] = {}

    def add(self, member: "GroupMember") -> None:
        """Let a consumer join its group."""
        self._groups.setdefault(member.group, []).append(member)

    def remove(self, member: "GroupMember") -> None:
        """Let a consumer leave; others get its partitions at their next poll."""
        self._groups[member.group].remove(member)
        if not self._groups[member.group]:
            del self._groups[member.group]

    async def assignment(
        self, member: "GroupMember", selects: Callable[[str], bool]
    ) -> set[TopicPartition]:
        """Return the partitions that a consumer should have now: they are assigned round-robin.

        Raises:
            LogError: the log cannot list its topics.
        """
        topics = await self._topics()
        selected = [topic async for topic in sliced(sorted(topics)) if selects(topic)]
        members = self._groups[member.group]
        partitions = [
            (topic, partition) for topic in selected for partition in range(topics[topic])
        ]
        number, count = members.index(member), len(members)
        share = {partition for place, partition in enumerate(partitions) if place % count == number}
        owned_by_others = {
            partition for other in members if other is not member for partition in other.owned
        }
        return share - owned_by_others


class GroupMember:
    """A consumer in its group, and the partitions that it owns."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.owned: set[TopicPartition] = set()
