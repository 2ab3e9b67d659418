"""Wrapper of aiokafka's consumer in a group: rebalance callbacks run within `poll`.

aiokafka rebalances in a separate task, at any moment, and only logs errors of callbacks. Here a
callback waits for the next `poll`, which runs it and raises its error, as Kafka's own consumer
does. Only this file and `consumer_internals` use private attributes of
aiokafka's consumer.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka import TopicPartition as AiokafkaPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import (
    IllegalStateError,
    KafkaError,
)
from aiokafka.protocol.commit import OffsetCommitRequest

from controlplane.core.entry import Entry, TopicPartition
from controlplane.event_loop import backoff, cancel_all
from controlplane.logs.kafka.cluster import Cluster, close_if_cancelled
from controlplane.logs.kafka.reads.consumer_internals import (
    TopicMatcher,
    commit_offsets,
    outlast_rebalances,
    subscribe_to_matches,
)
from controlplane.logs.log import LogError, LogNotUsable, LogUnavailable

CLOSE_S = 5.0
"""Longest wait of `close` for the end of a rebalance; then the consumer leaves at once."""

LEAVE_S = 1.0
"""Longest time for the request to leave the group; afterwards the session expires."""

POLL_INTERVAL_MS = 300_000
"""Default of `max.poll.interval.ms`, as in Kafka's consumer."""

RETRY_FIRST_MS, RETRY_LAST_MS = 100, 2_000
"""First and longest pause between two attempts to start a consumer."""

MISSING_TOPICS_S = 1.0
"""Poll interval for topics that do not exist yet. The client aiokafka would notice a new topic only
after `metadata.max.age.ms`. Kafka's consumer requests the metadata again at once."""

FETCH_S = 0.5
"""Longest wait of one `getmany` of aiokafka; one `poll` may need several."""


class PartitionListener(Protocol):
    """Callbacks about the partitions of a consumer."""

    async def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Commit and close partitions that the group revokes from this consumer."""
        ...

    async def lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Close partitions without a commit: the consumer is no longer a member of its group."""
        ...

    async def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Open partitions that the group assigns to this consumer; empty if it gets none."""
        ...


class _Callback(NamedTuple):
    """A callback that waits for `poll`; aiokafka's rebalance task awaits `done`."""

    run: Callable[[], Awaitable[None]]
    done: "asyncio.Future[None]"


class _FetchedRecords(NamedTuple):
    """Records that aiokafka has returned, with `GroupConsumer._moves` at that moment."""

    records: Mapping[Any, Sequence[Any]]
    moves: Mapping[TopicPartition, int]


class GroupConsumer:
    """Consumer of topics in a group. `start` joins the group; `close` leaves it."""

    def __init__(
        self, cluster: Cluster, group: str, options: Mapping[str, Any], listener: PartitionListener
    ) -> None:
        """`options`: options of `AIOKafkaConsumer`.

        As in Kafka, `max_poll_interval_ms` is also the longest time of a rebalance.
        """
        self._cluster = cluster
        self._listener = listener
        self._reset = str(options.get("auto_offset_reset", "earliest"))
        longest_rebalance_ms = options.get("max_poll_interval_ms", POLL_INTERVAL_MS)
        self._consumer = AIOKafkaConsumer(
            **cluster.client_options,
            **options,
            group_id=group,
            enable_auto_commit=False,
            # Java consumers offer this assignor by default, too. So a sink can move here while its
            # group has Java members.
            partition_assignment_strategy=(RangePartitionAssignor,),
            rebalance_timeout_ms=longest_rebalance_ms,
        )
        close_if_cancelled(self._consumer._client)  # noqa: SLF001
        outlast_rebalances(self._consumer, longest_rebalance_ms)
        self._positions: dict[TopicPartition, int] = {}
        """Offset of the next record, by assigned partition."""
        self._moves: dict[TopicPartition, int] = {}
        """Number of seeks and assignments by partition; each one makes fetched records stale."""
        self._paused: set[TopicPartition] = set()
        self._attending = False
        self._callbacks: list[_Callback] = []
        self._woken = asyncio.Event()
        """Set when a callback waits, or when `poll` must return."""
        self._wake_requested = False
        self._fetching: asyncio.Task[_FetchedRecords] | None = None
        self._closing = False
        self._topics: Sequence[str] = ()
        """Subscribed topics; empty if a function selects them."""
        self._matcher: TopicMatcher | None = None
        self._topics_polled_at = 0.0

    async def start(
        self, topics: Sequence[str], selects: Callable[[str], bool] | None = None
    ) -> None:
        """Connect and join the group; retry without end until brokers answer.

        `selects`: returns True for the names of topics to subscribe to, and replaces the parameter
        `topics`. `poll` raises its errors.

        Raises:
            LogNotUsable: the brokers refuse the client.
        """
        pauses = backoff(RETRY_FIRST_MS, RETRY_LAST_MS)
        while True:
            try:
                await self._cluster.layout([])  # raises the reason if the brokers refuse the client
                await self._consumer.start()
                break
            except (KafkaError, OSError, LogUnavailable):
                await asyncio.sleep(next(pauses))
        listener = _AssignmentListener(self._revoked, self._assigned)
        if selects is None:
            self._topics = topics
            self._consumer.subscribe(topics=[*topics], listener=listener)
        else:
            self._matcher = TopicMatcher(selects)
            with suppress(KafkaError):  # the subscription requests them again
                await self._matcher.examine(await self._consumer.topics())
            subscribe_to_matches(self._consumer, self._matcher, listener)

    async def poll(self, timeout_s: float) -> list[Entry]:
        """Return records of the partitions that are not paused; empty after the time-out.

        Raises:
            LogNotUsable: the brokers refuse to let this consumer read.
            Exception: a callback has failed, or the selection of topics.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while True:
            await self._run_callbacks()
            if self._matcher is not None:
                self._matcher.check()
            self._poll_missing_topics()
            if self._wake_requested:
                self._wake_requested = False
                return []
            left_s = deadline - loop.time()
            entries = await self._next_records(max(0.0, left_s))
            if entries or left_s <= 0:
                return entries

    async def attend(self, timeout_s: float) -> None:
        """Take part in rebalances until the time-out or `wake_up`; fetch no records.

        Raises: see `poll`.
        """
        self._attending = True
        self._consumer.pause(*self._places(self._positions))
        try:
            await self.poll(timeout_s)
        finally:
            self._attending = False
            self._consumer.resume(*self._places({*self._positions} - self._paused))

    def wake_up(self) -> None:
        """Let a waiting `poll` return at once."""
        self._wake_requested = True
        self._woken.set()

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """Partitions that the group has assigned to this consumer."""
        return frozenset(self._positions)

    def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record."""
        return self._positions[partition]

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Continue from these offsets; ignore partitions that are not assigned."""
        for partition, offset in offsets.items():
            if partition in self._positions:
                self._positions[partition] = offset
                self._moves[partition] += 1
                for aiokafka_partition in self._places([partition]):
                    self._consumer.seek(aiokafka_partition, offset)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Pause these partitions: `poll` returns none of their records."""
        self._paused |= {*partitions}
        self._consumer.pause(*self._places(self._paused))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Resume these partitions: `poll` returns their records again."""
        resumed = {*partitions} & self._paused
        self._paused -= resumed
        self._consumer.resume(*self._places(resumed))

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets of the group; aiokafka retries while the brokers are away.

        Raises:
            LogUnavailable: the brokers have not confirmed all offsets; any of them may be
                uncommitted. Another consumer may have the partitions now.
        """
        if not self._is_member:
            # This commit would carry no generation: an empty group would accept it.
            raise LogUnavailable("the consumer is no longer a member of its group")
        if not offsets.keys() <= self._positions.keys():
            raise LogUnavailable("some of the partitions are not assigned to this consumer")
        try:
            await commit_offsets(self._consumer, offsets)
        except KafkaError as failure:
            raise LogUnavailable(str(failure) or repr(failure)) from failure

    async def close(self) -> None:
        """Leave the group within `CLOSE_S`; afterwards, or if cancelled, leave it at once."""
        self._closing = True
        for callback in self._callbacks:
            _release_rebalance(callback)
        self._callbacks.clear()
        # A task of its own: aiokafka may raise CancelledError although nobody has cancelled it.
        stopping = asyncio.create_task(self._consumer.stop())
        try:
            await asyncio.wait({stopping}, timeout=CLOSE_S)
        finally:  # also if the task of this consumer is abandoned
            await cancel_all(filter(None, [stopping, self._fetching]))
            await self._drop()
            await self._cluster.close()

    async def _drop(self) -> None:
        """Finish a `stop` that did not succeed, without waiting for a rebalance.

        A consumer that kept its heartbeat would keep its partitions, and nobody would read them.
        """
        coordinator, fetcher = self._consumer._coordinator, self._consumer._fetcher  # noqa: SLF001
        if coordinator is not None:
            left = (
                coordinator._coordination_task,  # noqa: SLF001
                coordinator._heartbeat_task,  # noqa: SLF001
                coordinator._commit_refresh_task,  # noqa: SLF001
            )
            await cancel_all(filter(None, left))
            with suppress(TimeoutError, KafkaError):
                async with asyncio.timeout(LEAVE_S):
                    await coordinator._maybe_leave_group()  # noqa: SLF001
        if fetcher is not None:
            await cancel_all([fetcher._fetch_task, *fetcher._pending_tasks])  # noqa: SLF001
        await self._consumer._client.close()  # noqa: SLF001

    # --- records ----------------------------------------------------------------------------------

    async def _next_records(self, timeout_s: float) -> list[Entry]:
        """Wait for records, a callback or the time-out; return the records.

        A `getmany` that is still waiting is kept for the next call. A cancellation would corrupt
        aiokafka's account of idle times (`max.poll.interval.ms`).
        """
        if self._fetching is None:
            wait_ms = int(min(timeout_s, FETCH_S) * 1_000)
            self._fetching = asyncio.create_task(self._fetch(wait_ms), name="consumer")
        woken = asyncio.ensure_future(self._woken.wait())
        try:
            await asyncio.wait(
                {self._fetching, woken},
                timeout=timeout_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            woken.cancel()
        if not self._fetching.done():
            return []
        fetching, self._fetching = self._fetching, None
        try:
            return self._fresh_records(fetching.result())
        except (KafkaError, IllegalStateError) as failure:
            raise _refusal(failure) from failure

    async def _fetch(self, timeout_ms: int) -> _FetchedRecords:
        records = await self._consumer.getmany(timeout_ms=timeout_ms)
        return _FetchedRecords(records, dict(self._moves))

    def _poll_missing_topics(self) -> None:
        """Request new metadata every `MISSING_TOPICS_S` while a subscribed topic is missing."""
        now = asyncio.get_running_loop().time()
        if now - self._topics_polled_at < MISSING_TOPICS_S:
            return
        self._topics_polled_at = now
        if not all(self._consumer.partitions_for_topic(topic) for topic in self._topics):
            self._consumer._client.force_metadata_update()  # noqa: SLF001

    def _fresh_records(self, fetched: _FetchedRecords) -> list[Entry]:
        """Return the records that are not stale, and advance the positions past them.

        Records of paused partitions are dropped: a seek makes aiokafka fetch them again.
        """
        entries: list[Entry] = []
        for aiokafka_partition, records in fetched.records.items():
            partition = (aiokafka_partition.topic, aiokafka_partition.partition)
            if fetched.moves.get(partition) != self._moves.get(partition):
                continue
            if self._attending or partition in self._paused:
                self.seek({partition: records[0].offset})
                continue
            if partition in self._positions:
                entries += map(_entry, records)
                self._positions[partition] = records[-1].offset + 1
        return entries

    def _places(self, partitions: Iterable[TopicPartition]) -> list[Any]:
        """Return those of the partitions that aiokafka has assigned, in its own type."""
        assigned = self._consumer.assignment()
        return [
            aiokafka_partition
            for partition in partitions
            if (aiokafka_partition := AiokafkaPartition(*partition)) in assigned
        ]

    # --- rebalances -------------------------------------------------------------------------------

    async def _revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Revoke partitions within `poll`; aiokafka's task calls this before it joins again."""
        await self._run_in_poll(lambda: self._revoke(partitions))

    async def _assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Assign partitions within `poll`; aiokafka's task calls this when it has partitions.

        They are paused until `poll` has read their positions. Otherwise a waiting `getmany` could
        take their first records, and the positions read afterwards would skip these.
        """
        self._consumer.pause(*self._places(partitions))
        await self._run_in_poll(lambda: self._assign(partitions))

    async def _run_in_poll(self, run: Callable[[], Awaitable[None]]) -> None:
        """Queue a callback for `poll`, and wait until it has run."""
        if self._closing:
            return
        callback = _Callback(run, asyncio.get_running_loop().create_future())
        self._callbacks.append(callback)
        self._woken.set()
        await callback.done

    async def _run_callbacks(self) -> None:
        self._woken.clear()
        while self._callbacks:
            callback = self._callbacks.pop(0)
            try:
                await callback.run()
            finally:
                _release_rebalance(callback)

    async def _revoke(self, partitions: Sequence[TopicPartition]) -> None:
        owned = [partition for partition in partitions if partition in self._positions]
        try:
            if owned and self._is_member:
                await self._listener.revoked(owned)
            elif owned:
                await self._listener.lost(owned)
        finally:
            for partition in owned:
                del self._positions[partition]
                self._paused.discard(partition)

    @property
    def _is_member(self) -> bool:
        """False from the end of a membership until the next join.

        A membership ends when the coordinator no longer knows the member or its generation. It also
        ends when polls are further apart than `max_poll_interval_ms`.
        """
        generation = self._consumer._coordinator.generation  # noqa: SLF001
        return bool(generation != OffsetCommitRequest.DEFAULT_GENERATION_ID)

    async def _assign(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            self._moves[partition] = self._moves.get(partition, 0) + 1
        positions = {partition: await self._first_position(partition) for partition in partitions}
        if self._callbacks:  # the next rebalance has begun and will revoke these partitions
            return
        self._positions |= positions
        if not self._attending:
            self._consumer.resume(*self._places({*positions} - self._paused))
        await self._listener.assigned(partitions)

    async def _first_position(self, partition: TopicPartition) -> int:
        """Return the committed offset, or else the one that `auto.offset.reset` selects.

        Raises:
            LogNotUsable: the group has no offset, and `auto.offset.reset` is none.
        """
        aiokafka_partition = AiokafkaPartition(*partition)
        try:
            if self._reset == "none" and await self._consumer.committed(aiokafka_partition) is None:
                topic, number = partition
                raise LogNotUsable(
                    f"Undefined offset with no reset policy for partitions: [{topic}-{number}]"
                )
            return int(await self._consumer.position(aiokafka_partition))
        except IllegalStateError:  # revoked meanwhile
            return 0
        except KafkaError as failure:
            raise _refusal(failure) from failure


class _AssignmentListener(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """Converts aiokafka's partitions, sorts them, and passes them to the consumer."""

    def __init__(
        self,
        revoked: Callable[[Sequence[TopicPartition]], Awaitable[None]],
        assigned: Callable[[Sequence[TopicPartition]], Awaitable[None]],
    ) -> None:
        self._revoked = revoked
        self._assigned = assigned

    async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        """Pass on partitions that the group revokes."""
        await self._revoked(_sorted_partitions(revoked))

    async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        """Pass on partitions that the group has assigned."""
        await self._assigned(_sorted_partitions(assigned))


def _sorted_partitions(aiokafka_partitions: Iterable[Any]) -> list[TopicPartition]:
    return sorted(
        (aiokafka_partition.topic, aiokafka_partition.partition)
        for aiokafka_partition in aiokafka_partitions
    )


def _entry(record: Any) -> Entry:
    return Entry(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp,
        record.key,
        record.value,
        tuple(record.headers),
    )


def _release_rebalance(callback: _Callback) -> None:
    if not callback.done.done():
        callback.done.set_result(None)


def _refusal(failure: Exception) -> LogError:
    """Build the error for an answer of the brokers that a consumer cannot recover from."""
    return LogNotUsable(f"the consumer cannot go on: {failure!s} ({type(failure).__name__})")
