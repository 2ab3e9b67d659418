"""Producer of a task on a log of our own, and the topics that it writes."""

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any, NamedTuple, TypeVar

from controlplane.connect.records import RecordMetadata
from controlplane.core.entry import Entry, Position, TopicPartition
from controlplane.core.order import Ends
from controlplane.core.plan import Draft
from controlplane.core.topics.partitioner import partition_of
from controlplane.event_loop import sliced
from controlplane.logs.log import Fenced, Log, LogError, LogUnavailable, Record
from controlplane.worker.data_topics.clients import (
    DeliveryTimeout,
    ProducerFailure,
    ProducerFenced,
    ProducerRecord,
    with_place,
)
from controlplane.worker.data_topics.outage_retry import until_available
from controlplane.worker.data_topics.record_queue import QueuedRecord, RecordQueue, check_size
from controlplane.worker.data_topics.topic_rules import WantedTopic
from controlplane.worker.settings import ProducerLimits

T = TypeVar("T")


class WrittenLog(NamedTuple):
    """A log, and the epoch and clock with which this process writes it."""

    log: Log
    epoch: Callable[[], int]
    now_ms: Callable[[], int]


class LogTopics:
    """Topics of a log. A missing topic is created when a record is sent to it.

    Brokers do the same by default (`auto.create.topics.enable`).
    """

    def __init__(self, log: Log, default_partitions: int) -> None:
        self._log = log
        self._default = default_partitions
        self._partitions: dict[str, int] = {}
        self._creating = asyncio.Lock()

    async def partitions(self, topic: str) -> int | None:
        """Return the number of partitions; None: there is no such topic."""
        if topic not in self._partitions:
            await self.refresh()
        return self._partitions.get(topic)

    async def refresh(self) -> Mapping[str, int]:
        """Ask the log for all topics, each with its number of partitions, and return them."""
        self._partitions = dict(await self._log.topics())
        return self._partitions

    async def create(self, topic: str, partitions: int) -> None:
        """Create a topic; no effect if it exists."""
        async with self._creating:
            if await self.partitions(topic) is None:
                await self._log.create_topic(topic, partitions)
                self._partitions[topic] = partitions

    async def found_or_created(self, topic: str) -> int:
        """Return the number of partitions of a topic, which is created if it is missing."""
        partitions = await self.partitions(topic)
        if partitions is None:
            await self.create(topic, self._default)
            partitions = self._partitions[topic]
        return partitions


class LogProducer:
    """Producer on a log (`clients.Producer`).

    It appends with the epoch of its process, so records of a process that was replaced are refused.
    """

    def __init__(
        self,
        written: WrittenLog,
        topics: LogTopics,
        limits: ProducerLimits,
    ) -> None:
        self._log, self._now_ms = written.log, written.now_ms
        self._epoch = written.epoch()
        self._topics = topics
        self._limits = limits
        self._round = count()  # chooses partitions for records without a key
        self._queue = RecordQueue(
            self._send_batch,
            queued=limits.queued_records,
            queued_bytes=limits.queued_bytes,
            batch=limits.batch_records,
        )

    async def send(
        self, records: Sequence[ProducerRecord]
    ) -> Sequence["asyncio.Future[RecordMetadata]"]:
        """Queue records, waiting for room; return the acknowledgement of each."""
        return await self._queue.put(records)

    async def ensure_topic(self, topic: WantedTopic) -> None:
        """Create a topic unless it exists.

        Without a number of partitions, the topic is created when a record is sent to it.

        Raises:
            ProducerFailure, ProducerFenced: see `_retried`.
        """
        if topic.partitions > 0:
            await self._retried(partial(self._topics.create, topic.name, topic.partitions))

    async def transact(
        self, records: Sequence[ProducerRecord], offsets: Sequence[Draft]
    ) -> Sequence[RecordMetadata]:
        """Append records and offsets in one batch; return the positions of the records."""
        placed = [
            await with_place(record, self._placed(record)) async for record in sliced(records)
        ]
        placed += [await self._placed_offset(draft) async for draft in sliced(offsets)]
        positions = await self._append_once(placed)
        written = zip(positions, placed[: len(records)], strict=False)
        return [
            RecordMetadata(*position, record.timestamp)
            async for position, record in sliced(written)
        ]

    async def write_offsets(self, offsets: Sequence[Draft]) -> None:
        """Append offsets; durable when this returns."""
        if offsets:
            await self._append(
                [await self._placed_offset(draft) async for draft in sliced(offsets)]
            )

    async def close(self, *, abandoned: bool = False) -> None:
        """Send the queued records, then end. `abandoned`: drop them."""
        await (self._queue.drop() if abandoned else self._queue.close())

    async def _send_batch(self, batch: Sequence[QueuedRecord]) -> None:
        """Append a batch. During an outage, each record fails at the end of its own time limit."""
        while batch:
            try:
                await self._append_batch(batch)
            except DeliveryTimeout as timeout:
                late = self._late_records(batch)
                for queued in batch[:late]:
                    queued.settle(timeout)
                batch = batch[late:]
            else:
                return

    def _late_records(self, batch: Sequence[QueuedRecord]) -> int:
        """Return the number of records whose time limit has ended.

        The oldest records always count: their limit has caused the `DeliveryTimeout`.
        """
        limit_s = self._limits.delivery_timeout_ms / 1_000
        newest_s = max(batch[0].queued_s, asyncio.get_running_loop().time() - limit_s)
        return bisect_right(batch, newest_s, key=lambda queued: queued.queued_s)

    async def _append_batch(self, batch: Sequence[QueuedRecord]) -> None:
        """Append a batch; if that is refused, append its records singly: one may be the cause.

        Raises:
            DeliveryTimeout: the time limit of the oldest record has ended.
        """
        since_s = batch[0].queued_s
        try:
            records = [await self._placed(queued.record, since_s) async for queued in sliced(batch)]
            positions = await self._append(records, since_s)
        except DeliveryTimeout:
            raise
        except ProducerFailure as failure:
            if len(batch) == 1:
                batch[0].settle(failure)
                return
            for queued in batch:
                await self._send_batch([queued])
        except ProducerFenced as failure:
            for queued in batch:
                queued.settle(failure)
        else:
            for queued, position, record in zip(batch, positions, records, strict=True):
                queued.settle(RecordMetadata(*position, record.timestamp))

    async def _append(
        self, records: Sequence[Record], since_s: float | None = None
    ) -> Sequence[Position]:
        return await self._retried(partial(self._log.append, records, self._epoch), since_s)

    async def _append_once(self, records: Sequence[Record]) -> Sequence[Position]:
        """Append a transaction; after a lost answer, look for its records in the log.

        A log that becomes unavailable may have appended the batch (`Log.append`).

        Raises:
            ProducerFailure, ProducerFenced: see `_retried`.
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

    async def _retried(
        self, attempt: Callable[[], Awaitable[T]], since_s: float | None = None
    ) -> T:
        """Return the result of an attempt; retry while the log is unavailable.

        `since_s`: time of the event loop from which `delivery_timeout_ms` counts. None: now.

        Raises:
            DeliveryTimeout: the log is unavailable for longer than `delivery_timeout_ms`.
            ProducerFailure, ProducerFenced: the log refuses.
        """
        limits = self._limits
        pauses_ms = limits.retry_first_ms, limits.retry_last_ms
        past_s = 0 if since_s is None else asyncio.get_running_loop().time() - since_s
        patience_ms = limits.delivery_timeout_ms - past_s * 1_000
        try:
            return await until_available(attempt, pauses_ms, patience_ms)
        except LogUnavailable as failure:
            raise DeliveryTimeout(str(failure)) from failure
        except Fenced as failure:
            raise ProducerFenced(str(failure)) from failure
        except LogError as failure:
            raise ProducerFailure(str(failure)) from failure

    async def _placed(self, record: ProducerRecord, since_s: float | None = None) -> Record:
        """Return the record with its partition and time; `since_s` is that of `_retried`.

        Raises:
            ProducerFailure: it is too large, or its topic or partition cannot exist.
        """
        check_size(record, self._limits.max_request_size)
        partitions = await self._retried(
            partial(self._topics.found_or_created, record.topic), since_s
        )
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


async def appended_since(
    log: Log, starts: Ends, records: Sequence[Record]
) -> Sequence[Position] | None:
    """Return the positions of a batch that was appended after `starts`; None if it was not.

    The records of a batch are contiguous in each of their partitions.

    Raises:
        LogError: the log cannot be read.
    """
    by_place: dict[TopicPartition, list[Record]] = {}
    for record in records:
        by_place.setdefault((record.topic, record.partition), []).append(record)
    present: dict[TopicPartition, list[Entry]] = {place: [] for place in by_place}
    async for batch in log.read(starts, starts):  # the topics are the keys of `starts`
        if (batch.topic, batch.partition) in present:
            present[batch.topic, batch.partition] += batch.entries()
    places: dict[TopicPartition, deque[Position]] = {}
    for place, batch_records in by_place.items():
        entries = await _run_of(batch_records, present[place])
        if entries is None:
            return None
        places[place] = deque(entry.position for entry in entries)
    return [places[record.topic, record.partition].popleft() for record in records]


async def _run_of(records: Sequence[Record], entries: Sequence[Entry]) -> Sequence[Entry] | None:
    """Return the first consecutive entries with the contents of these records.

    Only a run whose first entry fits is compared as a whole: other tasks may have written very many
    entries.
    """
    contents = [*map(_content, records)]
    async for first in sliced(range(len(entries) - len(records) + 1)):
        if _content(entries[first]) == contents[0]:
            run = entries[first : first + len(records)]
            if contents == [*map(_content, run)]:
                return run
    return None


def _content(record: Record | Entry) -> tuple[Any, ...]:
    return record.timestamp, record.key, record.value, record.headers
