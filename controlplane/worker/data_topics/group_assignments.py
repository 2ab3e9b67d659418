"""Assignment of partitions to the consumers of a group on a log of our own."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from itertools import cycle

from controlplane.core.entry import TopicPartition
from controlplane.core.java.pattern_nodes import MatchLimitExceeded
from controlplane.event_loop import sliced


class GroupAssignments:
    """Assigns partitions to the consumers of each group in this process.

    A partition moves to another consumer only after its owner has given it back.
    """

    def __init__(self, topics: Callable[[], Awaitable[Mapping[str, int]]]) -> None:
        """`topics` asks the log for its topics, each with its number of partitions now."""
        self._topics = topics
        self._groups: dict[str, dict[GroupMember, _SelectedTopics]] = {}

    def add(self, member: "GroupMember", selects: Callable[[str], bool]) -> None:
        """Let a consumer join its group; `selects` selects its topics."""
        self._groups.setdefault(member.group, {})[member] = _SelectedTopics(selects)

    def remove(self, member: "GroupMember") -> None:
        """Let a consumer leave; others get its partitions at their next poll."""
        del self._groups[member.group][member]
        if not self._groups[member.group]:
            del self._groups[member.group]

    async def assignment(self, member: "GroupMember") -> set[TopicPartition]:
        """Return the partitions that a consumer should have now.

        They are assigned round-robin, each to a consumer that selects its topic. Kafka:
        `RoundRobinAssignor`.

        Raises:
            LogError: the log cannot list its topics.
            MatchLimitExceeded: the consumer's pattern takes too many steps.
        """
        topics = await self._topics()
        await self._examine(member, frozenset(topics))
        members = self._groups[member.group]  # after the last `await`: others may join meanwhile
        selected = {topic for selection in members.values() for topic in selection.topics}
        turns = cycle(members.items())
        share = {
            (topic, partition)
            for topic in sorted(selected & topics.keys())
            for partition in range(topics[topic])
            if _next_selecting(turns, topic) is member
        }
        owned_by_others = {
            partition for other in members if other is not member for partition in other.owned
        }
        return share - owned_by_others

    async def _examine(self, member: "GroupMember", topics: frozenset[str]) -> None:
        """Let each consumer of a group select from these topics.

        Raises:
            MatchLimitExceeded: the pattern of `member` takes too many steps.
        """
        for other, selection in [*self._groups[member.group].items()]:
            if other is not member:
                with suppress(MatchLimitExceeded):  # its own next poll fails
                    await selection.examine(topics)
        await self._groups[member.group][member].examine(topics)


class GroupMember:
    """A consumer in its group, and the partitions that it owns."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.owned: set[TopicPartition] = set()


class _SelectedTopics:
    """Topics of the log that a consumer selects; kept until the log has other topics."""

    def __init__(self, selects: Callable[[str], bool]) -> None:
        self._selects = selects
        self._examined: frozenset[str] = frozenset()
        self.topics: frozenset[str] = frozenset()

    async def examine(self, topics: frozenset[str]) -> None:
        """Select from these topics, in slices."""
        if topics != self._examined:
            selected = [topic async for topic in sliced(topics) if self._selects(topic)]
            self._examined, self.topics = topics, frozenset(selected)


def _next_selecting(
    turns: Iterator[tuple[GroupMember, _SelectedTopics]], topic: str
) -> GroupMember:
    """Return the next consumer, in turn, that selects the topic."""
    return next(member for member, selection in turns if topic in selection.topics)
