"""Producers of source tasks on brokers: at least once, and in transactions."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from functools import partial
from itertools import count

from controlplane.connect.records import RecordMetadata
from controlplane.core.entry import Position
from controlplane.core.plan import Draft
from controlplane.core.text.safe_text import utf8_text
from controlplane.core.topics.partitioner import partition_of
from controlplane.core.topics.source_partitions import cluster_name
from controlplane.event_loop import backoff, sliced
from controlplane.logs.kafka.admin.client_topics import ClientTopics
from controlplane.logs.kafka.appends.independent_appends import IndependentAppends
from controlplane.logs.kafka.appends.transactions import Transactions
from controlplane.logs.log import Fenced, LogError, LogUnavailable, Record
from controlplane.worker.data_topics.client_settings import INT_MAX, ProducerSettings
from controlplane.worker.data_topics.clients import (
    OffsetWriter,
    ProducerFailure,
    ProducerFenced,
    ProducerRecord,
    TopicCreator,
    with_place,
)
from controlplane.worker.data_topics.outage_retry import (
    RETRY_MS,
    until_available,
)
from controlplane.worker.data_topics.record_queue import QueuedRecord, RecordQueue, check_size
from controlplane.worker.data_topics.topic_rules import WantedTopic
from controlplane.worker.settings import ProducerLimits

CLOSE_S = 1.0
"""Longest time to send what is queued when a producer is closed. The task has already waited for
its records."""

FENCED = (
    "There is a newer producer with the same transactionalId which fences the current one. "
    "It belongs to another run of this task, or its transaction was open for longer than "
    "transaction.timeout.ms."
)
"""Kafka's words for a fenced producer (`ProducerFencedException`), and its two causes."""


class RecordPlacer:
    """Chooses partition and time of records, as Kafka's producer does."""

    def __init__(
        self, topics: ClientTopics, settings: ProducerSettings, now_ms: Callable[[], int]
    ) -> None:
        self._topics = topics
        self._settings = settings
        self._now_ms = now_ms
        self._turns = count()
        self._turn = 0

    def next_turn(self) -> None:
        """Choose another partition for records without a key: those of a batch share one."""
        self._turn = next(self._turns)

    async def placed(self, record: ProducerRecord) -> Record:
        """Return the record with its partition and time. A missing topic is waited for.

        Raises:
            ProducerFailure: it is too large, or its topic or partition does not exist.
        """
        check_size(record, self._settings.max_request_size)
        partitions = await self.partitions(record.topic)
        partition = record.partition
        if partition is None:
            turn = self._turn % partitions
            partition = turn if record.key is None else partition_of(record.key, partitions)
        if not 0 <= partition < partitions:
            raise ProducerFailure(
                f"Invalid partition given with record: {partition} is not in the range "
                f"[0...{partitions})."
            )
        timestamp = self._now_ms() if record.timestamp is None else record.timestamp
        return Record(record.topic, partition, timestamp, record.key, record.value, record.headers)

    async def placed_offset(self, draft: Draft) -> Record:
        """Return the record of an offset, for the cluster of this placer.

        Raises:
            ProducerFailure: its topic does not exist.
        """
        topic, partition = cluster_name(draft.topic), draft.partition
        if partition is None:
            partition = partition_of(draft.key, await self.partitions(topic))
        return Record(topic, partition, self._now_ms(), draft.key, draft.value)

    async def partitions(self, topic: str) -> int:
        """Return the number of partitions, as soon as the topic exists (`max.block.ms`).

        Raises:
            ProducerFailure: it does not exist in time, cannot be written, or has an invalid name.
        """
        if utf8_text(topic) != topic:  # no request to a broker can hold it
            raise ProducerFailure(f"topic {topic!r} has a name that no topic can have: check it")
        pauses = backoff(*RETRY_MS)
        ask = partial(self._topics.partitions, topic, auto_create=True)
        longest_ms = self._settings.max_block_ms
        try:
            async with asyncio.timeout(None if longest_ms >= INT_MAX else longest_ms / 1_000):
                while (partitions := await until_available(ask)) is None:  # noqa: ASYNC110 - others create it
                    await asyncio.sleep(next(pauses))
        except TimeoutError:
            late = f"Topic {topic} not present in metadata after {longest_ms} ms."
            raise ProducerFailure(late) from None
        except LogError as failure:
            raise ProducerFailure(str(failure)) from failure
        return partitions


async def appended(
    appends: IndependentAppends, records: Sequence[Record]
) -> AsyncGenerator[tuple[int, Position | LogError], None]:
    """Append records, and retry while brokers are away; yield the index and outcome of each.

    An outcome is the position of the record, or the refusal of the brokers.

    Raises:
        LogError: the brokers refuse the producer. Some records without an outcome may have been
            appended.
    """
    pauses = backoff(*RETRY_MS)
    pending = [*range(len(records))]
    while pending:
        attempt = partial(appends.append, [records[index] for index in pending])
        unsent = []
        for index, outcome in zip(pending, await until_available(attempt), strict=True):
            if isinstance(outcome, LogUnavailable):
                unsent.append(index)
            else:
                yield index, outcome
        if len(unsent) == len(pending):
            await asyncio.sleep(next(pauses))
        pending = unsent


class IdempotentTaskProducer:
    """Producer of a task with delivery at least once (`clients.Producer`)."""

    def __init__(
        self,
        appends: IndependentAppends,
        placer: RecordPlacer,
        creator: TopicCreator,
        offsets: OffsetWriter,
        settings: ProducerSettings,
    ) -> None:
        limits = ProducerLimits()
        self._appends = appends
        self._placer = placer
        self._creator = creator
        self._offsets = offsets
        self._delivery_timeout_ms = settings.delivery_timeout_ms
        self._queue = RecordQueue(
            self._send_batch,
            queued=limits.queued_records,
            queued_bytes=limits.queued_bytes,
            batch=limits.batch_records,
            linger_ms=settings.linger_ms,
        )

    async def send(
        self, records: Sequence[ProducerRecord]
    ) -> Sequence["asyncio.Future[RecordMetadata]"]:
        """Queue records, waiting for room; return the acknowledgement of each."""
        return await self._queue.put(records)

    async def ensure_topic(self, topic: WantedTopic) -> None:
        """Create a topic unless it exists."""
        await self._creator.ensure_topic(topic)

    async def write_offsets(self, offsets: Sequence[Draft]) -> None:
        """Append offsets; durable when this returns."""
        await self._offsets.write_offsets(offsets)

    async def close(self, *, abandoned: bool = False) -> None:
        """Send what is queued within `CLOSE_S`, and close the connections.

        The producer of an abandoned task drops what is queued.
        """
        try:
            await (self._queue.drop() if abandoned else self._queue.close(CLOSE_S))
        finally:  # also if abandoning the task cancels this call
            await self._appends.close()

    async def _send_batch(self, batch: Sequence[QueuedRecord]) -> None:
        self._placer.next_turn()
        pending: list[tuple[QueuedRecord, Record]] = []
        for queued in batch:
            try:
                pending.append((queued, await self._placer.placed(queued.record)))
            except ProducerFailure as failure:
                queued.settle(failure)
        timeout_ms = self._delivery_timeout_ms
        try:
            async with asyncio.timeout(None if timeout_ms >= INT_MAX else timeout_ms / 1_000):
                await self._deliver(pending)
        except TimeoutError:
            for queued, record in pending:
                place = f"{record.topic}-{record.partition}"
                late = f"Expiring 1 record(s) for {place}:{timeout_ms} ms has passed"
                queued.settle(ProducerFailure(f"{late} since batch creation"))

    async def _deliver(self, pending: Sequence[tuple[QueuedRecord, Record]]) -> None:
        """Append records until each has been acknowledged or refused."""
        try:
            outcomes = appended(self._appends, [record for _, record in pending])
            async for index, outcome in outcomes:
                queued, record = pending[index]
                if isinstance(outcome, LogError):
                    queued.settle(ProducerFailure(str(outcome)))
                else:
                    queued.settle(RecordMetadata(*outcome, record.timestamp))
        except LogError as failure:
            for queued, _ in pending:
                queued.settle(ProducerFailure(str(failure)))  # no effect if it is settled already


class TransactionalTaskProducer:
    """Producer of a task with exactly-once support (`clients.TransactionalProducer`).

    A claim of its transactional id fences every other producer of the task (KIP-618).
    """

    def __init__(
        self,
        transactions: Transactions,
        placer: RecordPlacer,
        creator: TopicCreator,
        check_claim: Callable[[], Awaitable[None]],
        copies: OffsetWriter | None = None,
    ) -> None:
        """`check_claim` raises `Fenced` if another process has claimed the plane's log.

        `copies` writes to the worker's offsets topic, if the producer uses another cluster.
        """
        self._copies = copies
        self._transactions = transactions
        self._placer = placer
        self._creator = creator
        self._check_claim = check_claim

    async def claim(self) -> None:
        """Fence the predecessors, whose open transactions are aborted. Brokers are waited for.

        The brokers know only the order of the claims of the transactional id. So a process that was
        replaced could fence the newer task. `check_claim` before the claim prevents that, unless
        the process hangs right after the check. `check_claim` after the claim then ends the older
        task before it writes.

        Raises:
            Fenced: another process has claimed the plane's log.
            LogNotUsable: this user may not use the transactional id.
        """
        await until_available(self._check_claim)
        await until_available(self._transactions.claim)
        await until_available(self._check_claim)

    async def ensure_topic(self, topic: WantedTopic) -> None:
        """Create a topic unless it exists."""
        await self._creator.ensure_topic(topic)

    async def transact(
        self, records: Sequence[ProducerRecord], offsets: Sequence[Draft]
    ) -> Sequence[RecordMetadata]:
        """Append records and offsets in one transaction; return the positions of the records."""
        self._placer.next_turn()
        placed = [
            await with_place(record, self._placer.placed(record))
            async for record in sliced(records)
        ]
        written = [await self._placer.placed_offset(draft) async for draft in sliced(offsets)]
        try:
            positions = await self._transactions.append([*placed, *written])
        except Fenced as failure:
            raise ProducerFenced(FENCED) from failure
        except LogError as failure:
            raise ProducerFailure(str(failure)) from failure
        return [
            RecordMetadata(*position, record.timestamp)
            async for position, record in sliced(zip(positions, placed, strict=False))
        ]

    async def write_offsets(self, offsets: Sequence[Draft]) -> None:
        """Append offsets by `copies`, if it is set; otherwise in a transaction of their own."""
        if self._copies is not None:
            await self._copies.write_offsets(offsets)
        elif offsets:
            await self.transact([], offsets)

    async def close(self) -> None:
        """Close the producer. A transaction under way is left to the broker's time-out."""
        await self._transactions.close()
