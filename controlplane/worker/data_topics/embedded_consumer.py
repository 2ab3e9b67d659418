"""Consumer of a sink task on a log of our own (`clients.Consumer`)."""

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from controlplane.connect.errors import ConnectError
from controlplane.controller.log_groups import LogGroups
from controlplane.core.entry import Batch, Entry, TopicPartition
from controlplane.core.order import Ends
from controlplane.event_loop import cancel_all, close
from controlplane.logs.log import Log, LogError
from controlplane.worker.data_topics.clients import (
    ProducerFailure,
    RebalanceCallbacks,
    TopicSubscription,
)
from controlplane.worker.data_topics.group_assignments import GroupAssignments, GroupMember

BATCHES_PENDING = 8
"""Maximum number of batches read ahead; the log is read further once one is taken."""

TOPICS_POLL_S = 1.0
"""Interval at which a consumer looks for new topics, partitions and members of its group."""

READ_RETRY_S = 0.5
"""Pause in seconds before another attempt to read a log that cannot be read."""


class LogConsumerSettings(NamedTuple):
    """Settings of a consumer that have an effect on a log of our own, named as Kafka's."""

    max_poll_records: int = 500
    auto_offset_reset: str = "earliest"
    internal_topics: frozenset[str] = frozenset()
    """Topics that no pattern selects: Connect's own."""


class Membership(NamedTuple):
    """A consumer's place in its group."""

    groups: LogGroups
    assignments: GroupAssignments
    member: GroupMember


class LogConsumer:
    """Reads the partitions that its group assigns to it, from their committed offsets on.

    It reads ahead in an asyncio task, which begins anew after a `seek` and whenever the partitions
    to read change.
    """

    def __init__(
        self,
        log: Log,
        membership: Membership,
        subscription: TopicSubscription,
        rebalancing: RebalanceCallbacks,
        settings: LogConsumerSettings,
    ) -> None:
        self._log = log
        self._groups, self._assignments, self._member = membership
        self._subscription = subscription
        self._rebalancing = rebalancing
        self._settings = settings
        self._positions: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()
        self._ready: deque[Entry] = deque()
        self._batches: asyncio.Queue[Batch | None] = asyncio.Queue(BATCHES_PENDING)
        """Batches that were read ahead; None wakes a waiting `poll`."""
        self._reading: asyncio.Task[None] | None = None
        self._looked_at = -TOPICS_POLL_S
        self._woken = asyncio.Event()
        """Set by `wake_up`; ends a wait in `attend`."""

    async def poll(self, timeout_s: float) -> Sequence[Entry]:
        """Return records of the partitions that are not paused; empty after the time-out.

        Raises:
            Exception: the task that reads ahead has failed, and no batch is left.
        """
        await self._rebalance_if_due()
        if not self._ready:
            await self._await_batch(timeout_s)
        records: list[Entry] = []
        while self._ready and len(records) < self._settings.max_poll_records:
            entry = self._ready.popleft()
            records.append(entry)
            self._positions[entry.topic, entry.partition] = entry.offset + 1
        return records

    async def attend(self, timeout_s: float) -> None:
        """Take part in rebalances for a time, or until `wake_up`, and return no records."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        self._woken.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                await self._woken.wait()
        await self._rebalance_if_due()

    async def _await_batch(self, timeout_s: float) -> None:
        """Wait for a batch with records of partitions that are read, at most `TOPICS_POLL_S`."""
        if self._reading is None and self._read_partitions():
            self._reading = asyncio.create_task(self._read_ahead(), name="consumer")
        if self._reading is not None and self._reading.done() and self._batches.empty():
            self._reading.result()
        try:
            async with asyncio.timeout(max(0.0, min(timeout_s, TOPICS_POLL_S))):
                while not self._ready:
                    if (batch := await self._batches.get()) is None:
                        return
                    self._take(batch)
        except TimeoutError:
            return
        while not self._batches.empty() and len(self._ready) < self._settings.max_poll_records:
            if (batch := self._batches.get_nowait()) is not None:
                self._take(batch)

    def wake_up(self) -> None:
        """Let a waiting `poll` or `attend` return at once."""
        self._woken.set()
        if self._batches.empty():  # else `poll` has a batch, and does not wait
            self._batches.put_nowait(None)

    def _take(self, batch: Batch) -> None:
        partition = batch.topic, batch.partition
        if partition not in self._positions or partition in self._paused:
            return
        position = self._positions[partition]
        entries = [
            entry for entry in batch.entries() if not entry.aborted and entry.offset >= position
        ]
        self._ready.extend(entries)
        if not entries:  # markers and aborted records move the position, too
            self._positions[partition] = max(position, batch.end)

    def _read_partitions(self) -> list[TopicPartition]:
        return [partition for partition in self._positions if partition not in self._paused]

    async def _read_ahead(self) -> None:
        """Read on from the positions, and go on after an outage of the log."""
        read = {partition: self._positions[partition] for partition in self._read_partitions()}
        topics = {topic for topic, _ in read}
        while True:
            try:
                await self._read_on(topics, read)
            except LogError:
                await asyncio.sleep(READ_RETRY_S)

    async def _read_on(self, topics: set[str], read: dict[TopicPartition, int]) -> None:
        """Queue batches from these offsets on, and move the offsets past them.

        Raises:
            ConnectError: a position is beyond the end, and `auto.offset.reset` is none.
            LogError: the log cannot be read.
        """
        ends = await self._log.ends(topics)
        await self._reset_beyond(ends, read)
        # A tail covers whole topics. It begins at the end of each partition that is paused, or that
        # another consumer has. So it reads few records of these partitions; `_take` drops them.
        starts = {
            topic: [read.get((topic, number), end) for number, end in enumerate(topic_ends)]
            for topic, topic_ends in ends.items()
        }
        tail = self._log.tail(topics, starts)
        try:
            async for batch in tail:
                await self._batches.put(batch)
                read[batch.topic, batch.partition] = batch.end
        finally:
            await close(tail)

    async def _reset_beyond(self, ends: Ends, read: dict[TopicPartition, int]) -> None:
        """Reset positions beyond the end, which a `seek` may set.

        Kafka: `OffsetOutOfRangeException`.

        Raises:
            ConnectError: `auto.offset.reset` is none.
            LogError: the log cannot be read.
        """
        beyond = [
            (topic, number)
            for topic, number in self._read_partitions()
            if topic in ends and read.get((topic, number), 0) > ends[topic][number]
        ]
        firsts = await self._log.starts({topic for topic, _ in beyond}) if beyond else {}
        for topic, number in beyond:
            place, first, end = (topic, number), firsts[topic][number], ends[topic][number]
            read[place] = self._reset_position(place, read[place], first, end)
            if place in self._positions:  # a rebalance may have taken it away meanwhile
                self._positions[place] = read[place]

    async def _rebalance_if_due(self) -> None:
        """Give back partitions that others should have, and take free ones."""
        now = asyncio.get_running_loop().time()
        if now - self._looked_at < TOPICS_POLL_S:
            return
        self._looked_at = now
        try:
            assigned = await self._assignments.assignment(self._member)
        except LogError:
            return
        lost = sorted(self._member.owned - assigned)
        gained = sorted(assigned - self._member.owned)
        # Take the gained partitions before the next `await`. A consumer that joins meanwhile must
        # not get them.
        self._member.owned |= {*gained}
        try:
            positions = await self._first_positions(gained) if gained else {}
        except LogError:
            self._member.owned -= {*gained}
            return
        if lost:
            # Give the lost partitions back only after the commit in `revoked`.
            await self._rebalancing.revoked(lost)
            self._member.owned -= {*lost}
            for partition in lost:
                del self._positions[partition]
            self._paused -= {*lost}
        if lost or gained:
            self._positions |= positions
            await self._rebalancing.assigned(gained)  # the callback may call `position` and `seek`
            await self._read_anew()

    def _selects(self, topic: str) -> bool:
        hidden = self._subscription.pattern is not None and topic in self._settings.internal_topics
        return not hidden and self._subscription.selects(topic)

    async def _first_positions(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Return the committed offsets; `auto.offset.reset` replaces a missing or invalid one.

        Raises:
            ConnectError: an offset is missing or invalid, and `auto.offset.reset` is none.
            LogError: the log cannot be read.
        """
        topics = {topic for topic, _ in partitions}
        starts, ends = await self._log.starts(topics), await self._log.ends(topics)
        await self._groups.refresh()
        committed = self._groups.committed(self._member.group)
        reset = self._settings.auto_offset_reset
        missing = [partition for partition in partitions if partition not in committed]
        if missing and reset == "none":
            names = ", ".join(f"{topic}-{number}" for topic, number in missing)
            raise ConnectError(f"Undefined offset with no reset policy for partitions: [{names}]")
        positions = {}
        for topic, partition in partitions:
            first, end = starts[topic][partition], ends[topic][partition]
            offset = committed.get((topic, partition), -1)
            if not first <= offset <= end:
                offset = self._reset_position((topic, partition), offset, first, end)
            positions[topic, partition] = offset
        return positions

    def _reset_position(self, partition: TopicPartition, offset: int, first: int, end: int) -> int:
        """Return the position that `auto.offset.reset` sets in place of an offset out of range.

        Raises:
            ConnectError: `auto.offset.reset` is none.
        """
        reset = self._settings.auto_offset_reset
        if reset == "none":
            topic, number = partition
            raise ConnectError(
                f"Fetch position {offset} is out of range for partition {topic}-{number}, "
                "and auto.offset.reset is none"
            )
        return end if reset == "latest" else first

    async def _read_anew(self) -> None:
        """Drop what was read ahead; the next poll reads from the positions on."""
        if self._reading is not None:
            reading, self._reading = self._reading, None
            await cancel_all([reading])
        self._batches = asyncio.Queue(BATCHES_PENDING)
        self._ready.clear()

    async def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Set the positions: the next `poll` returns records from these offsets on."""
        self._positions |= {
            partition: offset
            for partition, offset in offsets.items()
            if partition in self._positions
        }
        await self._read_anew()

    def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record."""
        return self._positions[partition]

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """Partitions that the group has assigned to this consumer, and that have a position."""
        return frozenset(self._positions)

    async def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Pause these partitions: `poll` returns none of their records."""
        added = {*partitions} - self._paused
        if added:
            self._paused |= added
            await self._read_anew()

    async def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """End a pause: `poll` returns records of these partitions again."""
        resumed = {*partitions} & self._paused
        if resumed:
            self._paused -= resumed
            await self._read_anew()

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets of the group.

        Raises:
            ProducerFailure: they are not committed, or it is unknown whether they are.
        """
        try:
            await self._groups.commit(self._member.group, offsets)
        except LogError as failure:
            raise ProducerFailure(str(failure)) from failure

    def join(self) -> None:
        """Join the group; the first `poll` assigns partitions."""
        self._groups.join(self._member.group)
        self._assignments.add(self._member, self._selects)

    async def close(self) -> None:
        """Stop reading, and leave the group."""
        self._assignments.remove(self._member)
        self._groups.leave(self._member.group)
        if self._reading is not None:
            await cancel_all([self._reading])
        self._member.owned.clear()
