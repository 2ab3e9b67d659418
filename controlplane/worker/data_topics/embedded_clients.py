"""Clients of tasks on a log of our own: data topics lie beside Connect's topics."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from typing import NamedTuple, TypeVar

from controlplane.clock import backoff
from controlplane.connect.records import RecordMetadata
from controlplane.core.entry import Entry, Position, TopicPartition
from controlplane.core.order import Ends
from controlplane.core.plan import Draft
from controlplane.core.topics.partitioner import partition_of
from controlplane.logs.log import Fenced, Log, LogError, LogUnavailable, Record
from controlplane.worker.data_topics.clients import (
    Consumer,
    ConsumerSettings,
    Producer,
    ProducerFailure,
    ProducerFenced,
    ProducerRecord,
    Rebalancing,
    TopicSubscription,
)
from controlplane.worker.data_topics.embedded_consumer import LogConsumer, Membership
from controlplane.worker.data_topics.embedded_groups import GroupAssignments, GroupMember, LogGroups
from controlplane.worker.settings import ProducerLimits

T = TypeVar("T")


async def appended_since(
    log: Log, starts: Ends, records: Sequence[Record]
) -> Sequence[Position] | None:
    """Return the positions of a batch that was appended behind these offsets; None if it was not.

    The records of a batch follow each other in each of their partitions.

    Raises:
        LogError: the log cannot be read.
    """
    wanted: dict[TopicPartition, list[Record]] = {}
    for record in records:
        wanted.setdefault((record.topic, record.partition), []).append(record)
    present: dict[TopicPartition, list[Entry]] = {place: [] for place in wanted}
    async for batch in log.read(starts, starts):
        if (batch.topic, batch.partition) in present:
            present[batch.topic, batch.partition] += batch.entries()
    found: dict[TopicPartition, deque[Position]] = {}
    for place, batch_records in wanted.items():
        entries = _run_of(batch_records, present[place])
        if entries is None:
            return None
        found[place] = deque(entry.position for entry in entries)
    return [found[record.topic, record.partition].popleft() for record in records]


def _run_of(records: Sequence[Record], entries: Sequence[Entry]) -> Sequence[Entry] | None:
    """Return the first consecutive entries with the contents of these records."""
    contents = [(record.timestamp, record.key, record.value, record.headers) for record in records]
    for first in range(len(entries) - len(records) + 1):
        run = entries[first : first + len(records)]
        if contents == [(entry.timestamp, entry.key, entry.value, entry.headers) for entry in run]:
            return run
    return None


class LogTopics:
    """Topics of a log. A missing topic is created when a record is sent to it.

    That is what brokers do by default (`auto.create.topics.enable`).
    """

    def __init__(self, log: Log, default_partitions: int) -> None:
        self._log = log
        self._default = default_partitions
        self._partitions: dict[str, int] = {}
        self._creating = asyncio.Lock()

    async def partitions(self, topic: str) -> int | None:
        """Return the number of partitions; None: there is no such topic."""
        if topic not in self._partitions:
            self._partitions = dict(await self._log.topics())
        return self._partitions.get(topic)

    async def create(self, topic: str, partitions: int, settings: Mapping[str, str]) -> None:
        """Create a topic; no effect if it exists. An embedded log keeps no settings of topics."""
        del settings
        async with self._creating:
            if await self.partitions(topic) is None:
                await self._log.create_topic(topic, partitions)
                self._partitions[topic] = partitions

    async def found_or_created(self, topic: str) -> int:
        """Return the number of partitions of a topic, which is created if it is missing."""
        partitions = await self.partitions(topic)
        if partitions is None:
            await self.create(topic, self._default, {})
            partitions = self._partitions[topic]
        return partitions


class _Queued(NamedTuple):
    """A record in the queue of a producer, and the future of its acknowledgement."""

    record: ProducerRecord
    acknowledged: "asyncio.Future[RecordMetadata]"


class LogProducer:
    """Producer on a log (`clients.Producer`).

    It appends with the epoch of its process, so records of a process that was replaced are refused.
    """

    def __init__(
        self,
        log: Log,
        topics: LogTopics,
        epoch: int,
        now_ms: Callable[[], int],
        limits: ProducerLimits,
    ) -> None:
        self._log = log
        self._topics = topics
        self._epoch = epoch
        self._now_ms = now_ms
        self._limits = limits
        self._queue: deque[_Queued] = deque()
        self._room = asyncio.Condition()
        self._filled = asyncio.Event()
        self._closing = False
        self._round = count()  # records without a key take turns
        self._sender = asyncio.create_task(self._send_queued(), name="producer")

    async def send(
        self, records: Sequence[ProducerRecord]
    ) -> Sequence["asyncio.Future[RecordMetadata]"]:
        """Queue records, waiting for room; return the acknowledgement of each."""
        loop = asyncio.get_running_loop()
        async with self._room:
            await self._room.wait_for(lambda: len(self._queue) < self._limits.queued_records)
        queued = [_Queued(record, loop.create_future()) for record in records]
        self._queue.extend(queued)
        self._filled.set()
        return [entry.acknowledged for entry in queued]

    async def transact(
        self, records: Sequence[ProducerRecord], offsets: Sequence[Draft]
    ) -> Sequence[RecordMetadata]:
        """Append records and offsets in one batch; return the places of the records."""
        placed = [await self._placed(record) for record in records]
        placed += [await self._placed_offset(draft) for draft in offsets]
        positions = await self._append_once(placed)
        return [
            RecordMetadata(*position, record.timestamp)
            for position, record in zip(positions, placed[: len(records)], strict=False)
        ]

    async def write_offsets(self, offsets: Sequence[Draft]) -> None:
        """Append offsets; durable when this returns."""
        if offsets:
            await self._append([await self._placed_offset(draft) for draft in offsets])

    async def close(self) -> None:
        """Send what is queued, then end."""
        self._closing = True
        self._filled.set()
        await self._sender

    async def _send_queued(self) -> None:
        while True:
            await self._filled.wait()
            self._filled.clear()
            while self._queue:
                batch = [
                    self._queue.popleft()
                    for _ in range(min(len(self._queue), self._limits.batch_records))
                ]
                async with self._room:
                    self._room.notify_all()
                await self._send_batch(batch)
            if self._closing:
                return

    async def _send_batch(self, batch: Sequence[_Queued]) -> None:
        """Append a batch; if that fails because of one record, append them one by one."""
        try:
            records = [await self._placed(queued.record) for queued in batch]
            positions = await self._append(records)
        except ProducerFailure as failure:
            if len(batch) == 1:
                _settle(batch[0], failure)
                return
            for queued in batch:
                await self._send_batch([queued])
        except ProducerFenced as failure:
            for queued in batch:
                _settle(queued, failure)
        else:
            for queued, position, record in zip(batch, positions, records, strict=True):
                _settle(queued, RecordMetadata(*position, record.timestamp))

    async def _append(self, records: Sequence[Record]) -> Sequence[Position]:
        return await self._retried(partial(self._log.append, records, self._epoch))

    async def _append_once(self, records: Sequence[Record]) -> Sequence[Position]:
        """Append a transaction; if an answer is lost, look whether the log has it.

        A log that becomes unavailable may have appended the batch (`Log.append`).

        Raises:
            ProducerFailure, ProducerFenced: as of `_append`.
        """
        if not records:
            return ()
        topics = {record.topic for record in records}
        starts = await self._retried(partial(self._log.ends, topics))
        tried = False

        async def attempt() -> Sequence[Position]:
            nonlocal tried
            if tried and (positions := await appended_since(self._log, starts, records)):
                return positions
            tried = True
            return await self._log.append(records, self._epoch)

        return await self._retried(attempt)

    async def _retried(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Return a result of the log; try again while it is unavailable (`delivery_timeout_ms`).

        Raises:
            ProducerFailure, ProducerFenced: the log refuses, or is unavailable for too long.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._limits.delivery_timeout_ms / 1_000
        pauses = backoff(self._limits.retry_first_ms, self._limits.retry_last_ms)
        while True:
            try:
                return await attempt()
            except Fenced as failure:
                raise ProducerFenced(str(failure)) from failure
            except LogUnavailable as failure:
                pause = next(pauses)
                if loop.time() + pause > deadline:
                    raise ProducerFailure(str(failure)) from failure
                await asyncio.sleep(pause)
            except LogError as failure:
                raise ProducerFailure(str(failure)) from failure

    async def _placed(self, record: ProducerRecord) -> Record:
        """Return the record with its partition and time.

        Raises:
            ProducerFailure: it is too large, or its topic or partition cannot exist.
        """
        size = len(record.key or b"") + len(record.value or b"")
        if size > self._limits.max_request_size:
            raise ProducerFailure(
                f"The message is {size} bytes when serialized which is larger than "
                f"{self._limits.max_request_size}, which is the value of the max.request.size "
                "configuration."
            )
        partitions = await self._retried(partial(self._topics.found_or_created, record.topic))
        partition = self._partition(record, partitions)
        if not 0 <= partition < partitions:
            raise ProducerFailure(
                f"Topic {record.topic} has no partition {partition}: it has {partitions}"
            )
        timestamp = self._now_ms() if record.timestamp is None else record.timestamp
        return Record(record.topic, partition, timestamp, record.key, record.value, record.headers)

    def _partition(self, record: ProducerRecord, partitions: int) -> int:
        if record.partition is not None:
            return record.partition
        if record.key is None:
            return next(self._round) % partitions
        return partition_of(record.key, partitions)

    async def _placed_offset(self, draft: Draft) -> Record:
        partition = draft.partition
        if partition is None:
            partitions = await self._retried(partial(self._topics.found_or_created, draft.topic))
            partition = partition_of(draft.key, partitions)
        return Record(draft.topic, partition, self._now_ms(), draft.key, draft.value)


def _settle(queued: _Queued, result: RecordMetadata | Exception) -> None:
    if queued.acknowledged.done():
        return
    if isinstance(result, Exception):
        queued.acknowledged.set_exception(result)
    else:
        queued.acknowledged.set_result(result)


class LogClients:
    """Makes producers and consumers on a log."""

    def __init__(
        self,
        log: Log,
        groups: LogGroups,
        epoch: Callable[[], int],
        now_ms: Callable[[], int],
        limits: ProducerLimits,
    ) -> None:
        self._log = log
        self._groups = groups
        self._epoch = epoch
        self._now_ms = now_ms
        self._limits = limits
        self._topics = LogTopics(log, limits.default_partitions)
        self._assignments = GroupAssignments(self._topics.partitions)

    @property
    def topics(self) -> LogTopics:
        """Topics of the log."""
        return self._topics

    @asynccontextmanager
    async def producer(self) -> AsyncIterator[Producer]:
        """Open a producer, and close it at the end of the block."""
        producer = LogProducer(self._log, self._topics, self._epoch(), self._now_ms, self._limits)
        try:
            yield producer
        finally:
            await producer.close()

    @asynccontextmanager
    async def consumer(
        self,
        group: str,
        subscription: TopicSubscription,
        rebalancing: Rebalancing,
        settings: ConsumerSettings,
    ) -> AsyncIterator[Consumer]:
        """Join a consumer group; leave it at the end of the block."""
        membership = Membership(self._groups, self._assignments, GroupMember(group))
        consumer = LogConsumer(self._log, membership, subscription, rebalancing, settings)
        consumer.join()
        try:
            yield consumer
        finally:
            await consumer.close()
