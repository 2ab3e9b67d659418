"""Appends of one record batch without a transaction: atomic, written once, never fenced."""

import asyncio
from collections.abc import Sequence

from controlplane.core.entry import Position
from controlplane.logs.kafka.appends.producer import (
    BatchListener,
    KafkaProducer,
    ProducerOwner,
    SendFailed,
)
from controlplane.logs.kafka.appends.record_batches import RecordBatch, positions, record_batches
from controlplane.logs.kafka.cluster import Cluster, too_late
from controlplane.logs.kafka.limits import CLOSED, WriteLimits
from controlplane.logs.kafka.protocol.errors import append_error, is_refusal
from controlplane.logs.log import LogError, LogUnavailable, Record


class IdempotentAppends(ProducerOwner):
    """Appends single record batches with an idempotent producer.

    A broker appends a batch whole or not at all, and recognizes a duplicate. So an unacknowledged
    batch is resent until the broker answers, even after its caller has gone; `decided` waits for
    it. A failed batch breaks the sequence numbers of its producer, so the producer is replaced.
    """

    def __init__(
        self,
        cluster: Cluster,
        limits: WriteLimits,
        headers_in: frozenset[str] | None,
        appended: BatchListener | None = None,
    ) -> None:
        """`appended`: see `KafkaProducer`."""
        super().__init__()
        self._appended = appended
        self._cluster = cluster
        self._limits = limits
        self._headers_in = headers_in
        self._starting = asyncio.Lock()
        self._start: asyncio.Timeout | None = None
        """Set while a producer starts; `close` lets it expire."""
        self._closed = False
        self._sending: set[asyncio.Task[list[int]]] = set()
        self._abandoned: set[asyncio.Task[list[int]]] = set()
        """Batches under way whose caller has gone."""

    async def append(self, records: Sequence[Record]) -> list[Position] | None:
        """Append records as one record batch; None: they need several, and nothing was written.

        Raises:
            LogNotUsable: the broker refuses a record.
            LogUnavailable: `close` was called, or the outcome is unknown until `decided` returns.
        """
        try:
            async with asyncio.timeout(self._limits.append_timeout_ms / 1000):
                producer = await self._running_producer()
                batches = record_batches(records, producer.new_builder, self._headers_in)
                if len(batches) != 1:
                    return None
                return positions(batches, await self._send(producer, batches), len(records))
        except TimeoutError:
            raise self._too_late() from None

    async def decided(self) -> None:
        """Wait until the broker has answered every batch whose caller has gone.

        Raises:
            LogUnavailable: an answer is still missing after `append_timeout_ms`.
        """
        if not self._abandoned:
            return
        timeout_s = self._limits.append_timeout_ms / 1000
        _, unknown = await asyncio.wait([*self._abandoned], timeout=timeout_s)
        if unknown:
            raise self._too_late()

    async def close(self) -> None:
        """Wait up to `close_timeout_ms` for the batches under way, then cancel the rest.

        A start of a producer is cancelled at once. Later appends raise `LogUnavailable`.
        """
        self._closed = True
        if self._start is not None and not self._start.expired():
            self._start.reschedule(asyncio.get_running_loop().time())
        if self._sending:
            await asyncio.wait([*self._sending], timeout=self._limits.close_timeout_ms / 1000)
        for task in [*self._sending]:
            task.cancel()
        await super().close()

    async def _send(self, producer: KafkaProducer, batches: list[RecordBatch]) -> list[int]:
        """Send a batch in its own task, which outlives a cancelled caller."""
        task = asyncio.create_task(self._send_or_discard(producer, batches))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)
        try:
            return await asyncio.shield(task)
        except SendFailed as failure:
            raise _append_failure(failure) from failure
        except asyncio.CancelledError:
            if task.cancelled():  # by `close`, not by the caller
                raise LogUnavailable(CLOSED) from None
            self._abandoned.add(task)
            task.add_done_callback(self._forget)
            raise

    async def _send_or_discard(
        self, producer: KafkaProducer, batches: list[RecordBatch]
    ) -> list[int]:
        try:
            return await producer.send(batches)
        except SendFailed:
            await self._discard(producer)
            raise

    def _too_late(self) -> LogUnavailable:
        return too_late("acknowledge a batch", self._limits, self._cluster)

    def _forget(self, task: "asyncio.Task[list[int]]") -> None:
        self._abandoned.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved here: no caller is left

    async def _running_producer(self) -> KafkaProducer:
        async with self._starting:
            if self._closed:
                raise LogUnavailable(CLOSED)
            if self._producer is None:
                self._producer = await self._started()
            return self._producer

    async def _started(self) -> KafkaProducer:
        """Start a producer, unless `close` is called meanwhile."""
        try:
            async with asyncio.timeout(None) as self._start:
                # Raises the reason of a failure, which aiokafka hides.
                await self._cluster.layout([])
                producer = KafkaProducer(self._cluster, self._limits, appended=self._appended)
                await producer.start()
        except TimeoutError:
            raise LogUnavailable(CLOSED) from None
        finally:
            self._start = None
        return producer

    async def _discard(self, producer: KafkaProducer) -> None:
        """Stop a broken producer; its other batches have `close_timeout_ms` to be answered."""
        if self._producer is producer:
            self._producer = None
            await producer.stop()


def _append_failure(failure: SendFailed) -> LogError:
    topic, partition = failure.place
    if is_refusal(failure.cause):
        return append_error(topic, failure.cause)
    return LogUnavailable(
        f"topic {topic}, partition {partition}: the batch was not acknowledged "
        f"({failure.cause!r}): try again"
    )
