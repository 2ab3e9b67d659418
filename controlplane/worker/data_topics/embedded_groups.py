"""Consumer groups on a log of our own: committed offsets, and the members of this process.

The offsets lie in a topic of their own. A key is `["group","topic",partition]`, a value
`{"offset":7}`. Brokers keep the same facts in `__consumer_offsets`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping

import msgspec
from msgspec import UNSET

from controlplane.controller.external import STILL_ACTIVE, ExternalActionFailed
from controlplane.core.entry import TopicPartition
from controlplane.core.plan import (
    AdminOverrides,
    AlterGroup,
    AnyAction,
    DeleteGroup,
    GroupOffsets,
)
from controlplane.core.topic_names import GROUPS_TOPIC
from controlplane.core.views.group_progress import LogEnd
from controlplane.event_loop import sliced
from controlplane.logs.log import Log, LogError, Record
from controlplane.worker.data_topics.clients import ProducerFailure

_GroupKey = tuple[str, str, int]


class _CommittedOffset(msgspec.Struct, frozen=True):
    """Value of a record in the topic of groups."""

    offset: int


class LogGroups:
    """Consumer groups of one log (`ExternalActions`). `open` reads the committed offsets."""

    def __init__(
        self, log: Log, epoch: Callable[[], int | None], now_ms: Callable[[], int]
    ) -> None:
        self._log = log
        self._epoch = epoch
        self._now_ms = now_ms
        self._committed: dict[str, dict[TopicPartition, int]] = {}
        self._members: dict[str, int] = {}
        self._writing = asyncio.Lock()
        self._opening = asyncio.Lock()
        self._is_open = False

    async def open(self) -> None:
        """Read the committed offsets, once; create their topic if it is missing."""
        async with self._opening:
            if not self._is_open:
                await self._read()
                self._is_open = True

    async def _read(self) -> None:
        await self._log.create_topic(GROUPS_TOPIC, 1)
        async for batch in self._log.read([GROUPS_TOPIC]):
            for entry in batch.entries():
                if not entry.aborted and entry.key is not None:
                    self._take(entry.key, entry.value)

    def _take(self, key: bytes, value: bytes | None) -> None:
        """Apply a record; records of another form are ignored."""
        try:
            group, topic, partition = msgspec.json.decode(key, type=_GroupKey)
            offset = None if value is None else msgspec.json.decode(value, type=_CommittedOffset)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return
        offsets = self._committed.setdefault(group, {})
        if offset is None:
            offsets.pop((topic, partition), None)
            if not offsets:
                del self._committed[group]
        else:
            offsets[topic, partition] = offset.offset

    def committed(self, group: str) -> Mapping[TopicPartition, int]:
        """Return the committed offsets of a group."""
        return self._committed.get(group, {})

    async def commit(self, group: str, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Commit offsets of a group; None removes one.

        Raises:
            ProducerFailure: they are not committed, or it is unknown whether they are.
        """
        if not offsets:
            return
        records = [
            Record(
                GROUPS_TOPIC,
                0,
                self._now_ms(),
                msgspec.json.encode((group, topic, partition)),
                None if offset is None else msgspec.json.encode(_CommittedOffset(offset)),
            )
            for (topic, partition), offset in offsets.items()
        ]
        async with self._writing:  # memory changes in the order of the log
            try:
                await self._log.append(records, self._epoch())
            except LogError as failure:
                raise ProducerFailure(str(failure)) from failure
            for record in records:
                assert record.key is not None
                self._take(record.key, record.value)

    def join(self, group: str) -> None:
        """Add a member to the count of a group."""
        self._members[group] = self._members.get(group, 0) + 1

    def leave(self, group: str) -> None:
        """Subtract a member from the count of a group."""
        self._members[group] -= 1
        if not self._members[group]:
            del self._members[group]

    # --- actions of commands ----------------------------------------------------------------------

    async def perform(self, action: AnyAction) -> None:
        """Alter or delete a group.

        Raises:
            ExternalActionFailed: the group has members, or the log cannot be written.
        """
        await self.open()
        match action:
            case AlterGroup(connector, group, put, remove):
                self._check_inactive(group, connector, "alter")
                changes: dict[TopicPartition, int | None] = dict.fromkeys(remove)
                changes |= {(topic, partition): offset for topic, partition, offset in put}
                await self._change(group, changes, connector, "alter")
            case DeleteGroup(connector, group):
                self._check_inactive(group, connector, "reset")
                await self._change(group, dict.fromkeys(self.committed(group)), connector, "reset")
            case _:
                pass

    def _check_inactive(self, group: str, connector: str, verb: str) -> None:
        if self._members.get(group):
            raise ExternalActionFailed(STILL_ACTIVE.format(verb=verb, connector=connector))

    async def _change(
        self, group: str, changes: Mapping[TopicPartition, int | None], connector: str, verb: str
    ) -> None:
        try:
            await self.commit(group, changes)
        except ProducerFailure as failure:
            answer = f"Failed to {verb} consumer group offsets for connector {connector}"
            raise ExternalActionFailed(answer, str(failure)) from failure

    async def group_offsets(self, group: str, admin: AdminOverrides = UNSET) -> GroupOffsets:
        """Committed offsets of a consumer group; empty if there is no such group."""
        del admin
        await self.open()
        return tuple((*partition, offset) for partition, offset in self.committed(group).items())

    async def log_ends(
        self, partitions: Iterable[TopicPartition], admin: AdminOverrides = UNSET
    ) -> Mapping[TopicPartition, LogEnd]:
        """Ends of partitions; partitions that do not exist are left out.

        Raises:
            ExternalActionFailed: the log cannot be read.
        """
        del admin
        partitions = [*partitions]
        try:
            existing = await self._log.topics()
            topics = {topic for topic, _ in partitions if topic in existing}
            ends = await self._log.ends(topics)
        except LogError as failure:
            raise ExternalActionFailed("", str(failure)) from failure
        return {
            (topic, partition): LogEnd(ends[topic][partition])
            for topic, partition in partitions
            if topic in ends and partition < len(ends[topic])
        }


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
