"""Exactly-once delivery: records and their offsets in one transaction (KIP-618).

Kafka: `ExactlyOnceWorkerSourceTask`. A transaction is one append here, so its records wait in
memory until it ends.
"""

import asyncio
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any

from controlplane.connect.records import OffsetPair, SourceRecord
from controlplane.connect.source import Mark, TransactionAbort, TransactionCommit
from controlplane.core.codec.offsets import frozen
from controlplane.core.java.java_library import trim
from controlplane.core.topics.source_partitions import cluster_name
from controlplane.event_loop import sliced
from controlplane.worker.data_topics.clients import (
    ProducerFailure,
    ProducerFenced,
    ProducerRecord,
    TransactionalProducer,
)
from controlplane.worker.data_topics.record_queue import record_size
from controlplane.worker.drivers.source_drivers import Acknowledged
from controlplane.worker.offsets.source_offsets import write_copy
from controlplane.worker.offsets.submitted_records import SourcePartitionId
from controlplane.worker.tasks.source_task import (
    EMPTY_POLL_S,
    DispatchItem,
    LoadedSourceTask,
    SentRecord,
    record_failure,
)

INTERVAL_RECORDS = 100_000
"""Number of records at which a transaction is committed although the interval has not ended.

A record takes about a kilobyte of memory, even if it is small.
"""


class TransactionBoundary(Enum):
    """Setting `transaction.boundary` of a connector: what ends a transaction."""

    POLL = "poll"
    INTERVAL = "interval"
    CONNECTOR = "connector"

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "TransactionBoundary":
        """Read the setting of a connector's config, as Kafka does: without case and outer blanks.

        Raises:
            ValueError: there is no such boundary.
        """
        return cls(trim(str(config.get("transaction.boundary") or "")).lower() or "poll")


class ExactlyOnce:
    """Gathers the records of a transaction, and appends them with their offsets."""

    def __init__(self, loaded: LoadedSourceTask, producer: TransactionalProducer) -> None:
        self._loaded = loaded
        self._producer = producer
        self._boundary = TransactionBoundary.of(loaded.config)
        self._interval_s = self._interval_ms() / 1_000
        self._records: list[ProducerRecord] = []
        self._bytes = 0
        self._sent: list[SourceRecord] = []
        """The author's record for each of `_records`, in the same order."""
        self._dropped: list[Acknowledged] = []
        """Filtered, dropped or aborted records that the task has not been told of yet."""
        self._offsets: dict[SourcePartitionId, OffsetPair] = {}
        self._committed_at = asyncio.get_running_loop().time()
        self._failed = False

    def _interval_ms(self) -> int:
        configured = self._loaded.config.get("transaction.boundary.interval.ms")
        default = self._loaded.settings.offset_flush_interval_ms
        return default if configured is None else int(configured)

    def started(self) -> None:
        """Begin the first interval between commits."""
        self._committed_at = asyncio.get_running_loop().time()

    async def begin_iteration(self) -> None:
        """Do nothing: no record is sent before the commit, so no send has failed."""

    async def before_poll(self) -> None:
        """Do nothing: `update_offsets` belongs to the commit of a transaction."""

    async def dispatch(self, items: Sequence[DispatchItem], *, complete: bool = True) -> None:
        """Add the items to the transaction; the connector may end it between two of them."""
        left = sum(isinstance(item, SentRecord) for item in items) + (not complete)
        async for item in sliced(items):
            match item:
                case Mark(offsets):
                    self._add_offsets(offsets)
                case SentRecord():
                    self._add(item)
                    left -= 1
                case TransactionCommit() | TransactionAbort():
                    abort = isinstance(item, TransactionAbort)
                    await self._end_if_requested(abort=abort, last=not left)

    async def _end_if_requested(self, *, abort: bool, last: bool) -> None:
        """End the transaction here, if the connector sets the boundaries.

        `last`: no record of the poll follows. Otherwise, the hook `update_offsets` is not called:
        its offsets could cover records that follow, which are not in this transaction.
        """
        if self._boundary is not TransactionBoundary.CONNECTOR:
            return
        if abort:
            self._drop_records()
        if not last:
            await self._commit()
            return
        # The generator has yielded this boundary, and goes on only at the next poll. So the hook
        # can be called soon, and then the loop ends.
        while True:
            if await self._ask_and_commit():
                return
            await asyncio.sleep(EMPTY_POLL_S)

    def _add(self, sent: SentRecord) -> None:
        """Add a record; a dropped one registers no offset."""
        record, converted = sent
        if converted is None:
            self._loaded.metrics.dropped += 1
            self._dropped.append((record, None))
            return
        # The transaction writes offsets to the first of `offsets.topics`: the connector's own
        # offsets topic, if any, else the worker's. As in Kafka, records must not go to that topic.
        if converted.topic == cluster_name(self._loaded.offsets.topics[0]):
            raise record_failure(
                f"Source connector {self._loaded.identity.connector} cannot produce to its own "
                f"offsets topic {converted.topic}",
                converted.place,
            )
        self._bytes += record_size(converted)
        if self._bytes > self._loaded.settings.transaction_max_bytes:
            raise record_failure(
                f"The transaction exceeds {self._loaded.settings.transaction_max_bytes} bytes: "
                "commit more often",
                converted.place,
            )
        self._records.append(converted)
        self._sent.append(record)
        if record.source_partition is not None:
            self._add_offsets([(record.source_partition, record.source_offset)])

    def _add_offsets(self, offsets: Sequence[OffsetPair]) -> None:
        self._offsets |= {frozen(partition): (partition, offset) for partition, offset in offsets}

    async def batch_dispatched(self) -> None:
        """Tell the task of `_dropped` records; commit if the transaction ends here."""
        dropped, self._dropped = self._dropped, []
        await self._loaded.tell_acknowledged(dropped)
        if self._boundary is TransactionBoundary.POLL or (
            self._boundary is TransactionBoundary.INTERVAL and self._is_due()
        ):
            await self._ask_and_commit()

    def _is_due(self) -> bool:
        """True if the interval has ended, or the transaction's records take much memory."""
        passed_s = asyncio.get_running_loop().time() - self._committed_at
        half = self._loaded.settings.transaction_max_bytes // 2
        is_large = self._bytes >= half or len(self._records) >= INTERVAL_RECORDS
        return is_large or passed_s >= self._interval_s

    async def pausing(self) -> None:
        """Commit, unless the connector sets the boundaries.

        The hook `update_offsets` is not called, because `finish` calls this method, too. At a stop,
        the hook's offsets could cover records of a cancelled poll.
        """
        if self._boundary is not TransactionBoundary.CONNECTOR:
            await self._commit()

    async def finish(self, *, failed: bool) -> None:
        """Commit, unless the task has failed or the connector sets the boundaries."""
        if not failed and not self._failed:
            await self.pausing()

    def abandon(self) -> None:
        """Drop the records in memory: no later commit appends them."""
        self._records.clear()

    async def _ask_and_commit(self) -> bool:
        """Call `update_offsets` with the offsets of this transaction (KIP-910), then commit.

        False: the hook cannot be called now, so the transaction goes on.
        """
        if self._loaded.updates_offsets:
            further = await self._loaded.ask_for_offsets(self._offsets.values)
            if further is None:
                return False
            self._add_offsets(further)
        await self._commit()
        return True

    async def _commit(self) -> None:
        """Append the records and offsets in one transaction, and tell the task."""
        try:
            if self._records or self._offsets:
                await self._append()
        except (ProducerFailure, ProducerFenced) as failure:
            self._failed = True
            place = failure.place if isinstance(failure, ProducerFailure) else ""
            text = f"The transaction could not be committed: {failure}"
            raise record_failure(text, place) from failure
        self._committed_at = asyncio.get_running_loop().time()
        await self._loaded.tell_committed()

    async def _append(self) -> None:
        loaded, pairs = self._loaded, [*self._offsets.values()]
        topics = {record.topic for record in self._records}
        await loaded.topics.ensure(self._producer, topics)
        with loaded.metrics.commit():
            # If the connector has an offsets topic of its own, the worker's topic has a copy.
            # Removals from the copy precede the transaction (`OffsetBatches`): a crash between the
            # two revives no old offset.
            batches = await loaded.offsets.batches(pairs)
            await self._producer.write_offsets(batches.removals_of_copy)
            places = await self._producer.transact(self._records, batches.primary)
        loaded.metrics.written += len(self._records)
        loaded.metrics.transaction_records.record(len(self._records))
        # Only now: the task must not read offsets of a transaction that is not committed.
        loaded.offsets.committed(batches)
        await write_copy(self._producer, batches.values_of_copy, loaded.notices)
        for topic in dict.fromkeys(record.topic for record in self._records):
            loaded.note_topic(topic)
        sent: list[Acknowledged] = [*zip(self._sent, places, strict=True)]
        self._clear()
        await loaded.tell_acknowledged(sent)

    def _drop_records(self) -> None:
        """Drop the records; their offsets are committed, so that they are not read again."""
        self._loaded.metrics.dropped += len(self._records)
        self._dropped += [(record, None) for record in self._sent]
        self._records.clear()
        self._sent.clear()
        self._bytes = 0  # `_offsets` stay: the commit writes them

    def _clear(self) -> None:
        self._records.clear()
        self._sent.clear()
        self._offsets.clear()
        self._bytes = 0
