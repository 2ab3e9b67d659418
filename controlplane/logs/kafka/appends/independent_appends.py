"""Appends of independent records without a transaction: each at least once, in order."""

import asyncio
from collections.abc import Sequence

from controlplane.core.entry import Position
from controlplane.logs.kafka.appends.producer import KafkaProducer, ProducerOwner, SendFailed
from controlplane.logs.kafka.appends.record_batches import RecordBatch, record_batches
from controlplane.logs.kafka.cluster import Cluster
from controlplane.logs.kafka.limits import WriteLimits
from controlplane.logs.kafka.protocol.errors import append_error, is_refusal, start_error
from controlplane.logs.log import LogError, LogUnavailable, Record

AppendOutcome = Position | LogError
"""Position of a record; `LogNotUsable`: brokers refuse it; `LogUnavailable`: append it again."""


class IndependentAppends(ProducerOwner):
    """Appends records with an idempotent producer; each has an outcome of its own.

    A failed batch breaks the sequence numbers of its producer, so the producer is replaced. Later
    batches of the same partition fail, too; the caller appends them again, in order. The records of
    a refused batch are appended one by one: a broker does not tell which record it refuses.
    """

    def __init__(self, cluster: Cluster, limits: WriteLimits) -> None:
        super().__init__()
        self._cluster = cluster
        self._limits = limits

    async def append(self, records: Sequence[Record]) -> list[AppendOutcome]:
        """Append records; return the outcome of each, in their order.

        Calls must not overlap. A call waits without end while a broker is away.

        Raises:
            LogUnavailable: the producer cannot start. Nothing was appended.
            LogNotUsable: the brokers refuse the producer. Some records may have been appended.
        """
        producer = await self._running_producer()
        batches = record_batches(records, producer.new_builder, None)
        try:
            sent = await producer.send_each(batches)
        except BaseException:  # cancelled: batches under way have an unknown outcome
            self._producer = None
            await producer.drop()
            raise
        if any(isinstance(outcome, SendFailed) for outcome in sent):
            self._producer = None
            await producer.drop()
        outcomes: list[AppendOutcome] = [LogUnavailable("not sent")] * len(records)
        refused: list[int] = []
        for batch, outcome in zip(batches, sent, strict=True):
            if len(batch.indexes) > 1 and _is_refused(outcome):
                refused += batch.indexes
                continue
            for number, index in enumerate(batch.indexes):
                outcomes[index] = _outcome(batch, outcome, number)
        await self._append_singly(records, refused, outcomes)
        return outcomes

    async def _append_singly(
        self, records: Sequence[Record], indexes: Sequence[int], outcomes: list[AppendOutcome]
    ) -> None:
        """Append records one by one, and set their outcomes.

        After an outage the remaining records keep `LogUnavailable`: the caller appends them again.
        """
        for index in indexes:
            try:
                (outcomes[index],) = await self.append([records[index]])
            except LogUnavailable as outage:
                outcomes[index] = outage
            if isinstance(outcomes[index], LogUnavailable):
                return

    async def _running_producer(self) -> KafkaProducer:
        if self._producer is None:
            await self._cluster.layout([])  # raises the reason of a failure, which aiokafka hides
            producer = KafkaProducer(self._cluster, self._limits)
            try:
                async with asyncio.timeout(self._limits.request_timeout_ms / 1_000):
                    await producer.start()
            except TimeoutError as failure:
                raise start_error(None, failure) from failure
            self._producer = producer
        return self._producer


def _is_refused(sent: int | SendFailed) -> bool:
    return isinstance(sent, SendFailed) and is_refusal(sent.cause)


def _outcome(batch: RecordBatch, sent: int | SendFailed, number: int) -> AppendOutcome:
    if isinstance(sent, int):
        return Position(*batch.place, sent + number)
    topic, partition = batch.place
    if _is_refused(sent):
        return append_error(topic, sent.cause)
    return LogUnavailable(f"{topic}-{partition} cannot be written just now ({sent.cause!r})")
