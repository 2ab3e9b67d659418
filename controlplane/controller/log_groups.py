"""Consumer groups on a log of our own: committed offsets, and the members of this process.

The offsets lie in a topic of their own, which a worker creates. A log on which no worker has run
has no groups. A key is `["group","topic",partition]`, a value `{"offset":7}`. Brokers keep the same
facts in `__consumer_offsets`.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta

from controlplane.controller.external import (
    STILL_ACTIVE,
    ExternalActionFailed,
    ExternalActions,
    NoExternalSystems,
)
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
from controlplane.logs.log import EmbeddedLog, Log, LogError, ReadableLog, Record

_Natural = Annotated[int, Meta(ge=0)]
_GroupKey = tuple[str, str, _Natural]


class _CommittedOffset(msgspec.Struct, frozen=True):
    """Value of a record in the topic of groups."""

    offset: _Natural


_NO_PARTITION = LogEnd(None, "the log has no such partition")


class StoredGroups:
    """Consumer groups of one log, for reading (`HasGroups`, `HasLogEnds`)."""

    def __init__(self, log: ReadableLog) -> None:
        self._log = log
        self._committed: dict[str, dict[TopicPartition, int]] = {}
        self._end = 0
        """Offset up to which the topic has been read."""
        self._is_behind = True
        """True while the log may have commits that are not in `_committed`."""
        self._changing = asyncio.Lock()
        """Held while `_committed` changes, so that it changes in the order of the log."""

    async def refresh(self) -> bool:
        """Read the commits since the last call; return False if the log has no groups.

        Raises:
            LogError: the log cannot be read.
        """
        if GROUPS_TOPIC not in await self._log.topics():
            return False
        async with self._changing:
            # Waits until each cancelled append is committed or refused: the read must not miss one.
            await self._log.ends([GROUPS_TOPIC])
            async for batch in self._log.read([GROUPS_TOPIC], {GROUPS_TOPIC: [self._end]}):
                for entry in batch.entries():
                    if not entry.aborted and entry.key is not None:
                        self._take(entry.key, entry.value)
                self._end = batch.end
            self._is_behind = False
        return True

    def _take(self, key: bytes, value: bytes | None) -> None:
        """Apply a record; records of another form are ignored."""
        try:
            group, topic, partition = msgspec.json.decode(key, type=_GroupKey)
            offset = None if value is None else msgspec.json.decode(value, type=_CommittedOffset)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return
        offsets = self._committed.setdefault(group, {})
        if offset is None:
            offsets.pop((topic, partition), None)
            if not offsets:
                del self._committed[group]
        else:
            offsets[topic, partition] = offset.offset

    def committed(self, group: str) -> Mapping[TopicPartition, int]:
        """Return the committed offsets of a group, as of the last `refresh`."""
        return self._committed.get(group, {})

    def rows(self, group: str) -> GroupOffsets:
        """Return the committed offsets of a group in rows, as of the last `refresh`."""
        return tuple((*partition, offset) for partition, offset in self.committed(group).items())

    async def group_offsets(self, group: str, admin: AdminOverrides = UNSET) -> GroupOffsets:
        """Committed offsets of a consumer group; empty if there is no such group.

        Raises:
            ExternalActionFailed: the log cannot be read.
        """
        del admin
        try:
            await self.refresh()
        except LogError as failure:
            raise ExternalActionFailed("", str(failure)) from failure
        return self.rows(group)

    async def log_ends(
        self, partitions: Iterable[TopicPartition], admin: AdminOverrides = UNSET
    ) -> Mapping[TopicPartition, LogEnd]:
        """Return the end of each partition; for a missing partition, return the reason instead.

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
            if partition < len(ends.get(topic, ()))
            else _NO_PARTITION
            for topic, partition in partitions
        }


class LogGroups(StoredGroups):
    """Consumer groups of one log (`ExternalActions`). Changes create their topic if necessary."""

    def __init__(
        self, log: Log, epoch: Callable[[], int | None], now_ms: Callable[[], int]
    ) -> None:
        super().__init__(log)
        self._written = log
        self._epoch = epoch
        self._now_ms = now_ms
        self._members: dict[str, int] = {}
        self._is_open = False

    async def open(self) -> None:
        """Read the committed offsets, once; create their topic if it is missing.

        From now on, this object must be the only one that changes them.
        """
        await self._written.create_topic(GROUPS_TOPIC, 1)
        await self.refresh()
        self._is_open = True

    async def refresh(self) -> bool:
        """Read the commits since the last call; after `open`, only if an append may have failed.

        Raises:
            LogError: the log cannot be read.
        """
        return (self._is_open and not self._is_behind) or await super().refresh()

    async def commit(self, group: str, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Commit offsets of a group in one batch; None removes one.

        Raises:
            LogError: they are not committed, or it is unknown whether they are.
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
        async with self._changing:
            was_behind, self._is_behind = self._is_behind, True
            await self._written.append(records, self._epoch())
            for record in records:
                assert record.key is not None
                self._take(record.key, record.value)
            self._is_behind = was_behind

    def join(self, group: str) -> None:
        """Add a member to the count of a group."""
        self._members[group] = self._members.get(group, 0) + 1

    def leave(self, group: str) -> None:
        """Subtract a member from the count of a group."""
        self._members[group] -= 1
        if not self._members[group]:
            del self._members[group]

    async def perform(self, action: AnyAction) -> None:
        """Alter or delete a group.

        Raises:
            ExternalActionFailed: the group has members, or the log cannot be written.
            LogError: the log cannot be read.
        """
        match action:
            case AlterGroup(connector, group, put, remove):
                self._check_inactive(group, connector, "alter")
                changes: dict[TopicPartition, int | None] = dict.fromkeys(remove)
                changes |= {(topic, partition): offset for topic, partition, offset in put}
                await self._change(group, changes, connector, "alter")
            case DeleteGroup(connector, group):
                self._check_inactive(group, connector, "reset")
                await self.refresh()
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
            await self._written.create_topic(GROUPS_TOPIC, 1)
            await self.commit(group, changes)
        except LogError as failure:
            answer = f"Failed to {verb} consumer group offsets for connector {connector}"
            raise ExternalActionFailed(answer, str(failure)) from failure


class EmbeddedActions(LogGroups):
    """External actions of a control plane without a worker, on an embedded log.

    They read and change the groups that a worker has stored in the log. They never create the topic
    of committed offsets (`GROUPS_TOPIC`): only a worker creates it.
    """

    async def perform(self, action: AnyAction) -> None:
        """Alter or delete a group of the log.

        `NoExternalSystems` performs every other action, and all actions on a log without groups.

        Raises:
            ExternalActionFailed: the log cannot be written. Or the action sets offsets of a group,
                and the log has no groups. Or the action writes a source's offsets to a Kafka
                cluster (`WriteOffsets`).
            LogError: the log cannot be read.
        """
        if isinstance(action, AlterGroup | DeleteGroup) and await self.refresh():
            await super().perform(action)
        else:
            await NoExternalSystems().perform(action)


def default_actions(
    log: Log, epoch: Callable[[], int | None], now_ms: Callable[[], int]
) -> ExternalActions:
    """Return the external actions of a control plane whose program provides none."""
    if isinstance(log, EmbeddedLog):
        return EmbeddedActions(log, epoch, now_ms)
    return NoExternalSystems()
