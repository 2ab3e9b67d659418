"""Transactions under one `transactional.id`: all records or none, decided after each failure."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NoReturn

import msgspec
from aiokafka.errors import KafkaError

from controlplane.core.entry import Position
from controlplane.event_loop import backoff
from controlplane.logs.kafka.appends.coordinator import RETRY_MAX_MS, TransactionCoordinator
from controlplane.logs.kafka.appends.producer import (
    KafkaProducer,
    ProducerIdentity,
    ProducerOwner,
    SendFailed,
)
from controlplane.logs.kafka.appends.record_batches import positions, record_batches
from controlplane.logs.kafka.cluster import Cluster, too_late
from controlplane.logs.kafka.limits import WriteLimits
from controlplane.logs.kafka.protocol.error_codes import ErrorCode, described
from controlplane.logs.kafka.protocol.errors import (
    append_error,
    is_refusal,
    is_refused_id,
    refused_id,
    start_error,
)
from controlplane.logs.log import Fenced, LogError, LogNotUsable, LogUnavailable, Record

ReadBack = Callable[[Sequence[Position]], Awaitable[bool]]
"""Reads records back: True if they are committed, False if they were aborted.

The call waits until the outcome is certain. Raises `LogNotUsable` if the topic is gone.
"""

_FAILURES = (SendFailed, KafkaError, AssertionError, OSError)
"""Failures of aiokafka; a `TimeoutError` of our own deadline is an `OSError`."""

_FENCED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})


class _OpenTransaction(msgspec.Struct):
    """A transaction that is under way or was interrupted."""

    identity: ProducerIdentity
    positions: list[Position] = []
    """Position of each record, in the order of the append."""
    batch_starts: Sequence[Position] = ()
    """First position of each batch; set just before the commit request. Empty: no commit was
    requested, so the transaction is not committed."""
    committed: bool | None = None
    """True: committed; False: aborted; None: undecided."""


class Transactions(ProducerOwner):
    """Writer of transactions, one after the other, under one `transactional.id`.

    After any failure the producer is dropped. `settle` decides its transaction before the next
    write. Requests to the coordinator carry the identity of the dropped producer, so they do not
    fence a writer that has taken over. One gap remains: while that writer has an open transaction,
    the coordinator does not compare identities. The coordinator then fences both writers; neither
    has written a wrong record. After `close` a broker aborts an interrupted transaction when its
    time-out has passed.

    `settle` needs brokers that refuse a late batch of an ended transaction (KIP-890, Kafka 3.6).
    """

    def __init__(
        self,
        cluster: Cluster,
        transactional_id: str,
        limits: WriteLimits,
        headers_in: frozenset[str] | None,
        read_back: ReadBack,
    ) -> None:
        super().__init__()
        self._cluster = cluster
        self._id = transactional_id
        self._limits = limits
        self._headers_in = headers_in
        self._read_back = read_back
        self._coordinator = TransactionCoordinator(cluster, transactional_id, limits)
        self._interrupted: _OpenTransaction | None = None
        self._fenced = False

    @property
    def in_doubt(self) -> bool:
        """True while a transaction is under way or undecided."""
        return self._interrupted is not None and self._interrupted.committed is None

    async def claim(self) -> None:
        """Request a new epoch: it fences all other writers and ends an open transaction.

        Raises:
            LogNotUsable: this user may not use the id, or the brokers refuse the time-out.
            LogUnavailable: no coordinator answers in time.
        """
        # Raises the reason if no broker can be reached; aiokafka hides it.
        await self._cluster.layout([])
        if self._producer is not None:
            # If this claim fails, `settle` renews the old epoch. The coordinator refuses that if
            # the claim has reached it.
            self._interrupted = _OpenTransaction(self._producer.identity, committed=False)
        await self._drop_producer()
        await self._start(None)
        self._interrupted = None
        self._fenced = False

    async def append(self, records: Sequence[Record]) -> list[Position]:
        """Append records in one transaction; retry after an attempt that was aborted.

        Raises:
            Fenced: another writer has claimed the id, or a transaction was open for too long.
            LogNotUsable: the brokers refuse a record.
            LogUnavailable: `append_timeout_ms` has passed. The outcome is unknown until `settle`
                returns.
        """
        deadline = asyncio.get_running_loop().time() + self._limits.append_timeout_ms / 1000
        pauses = backoff(self._limits.retry_backoff_ms, RETRY_MAX_MS)
        try:
            async with asyncio.timeout_at(deadline):
                while True:
                    await self.settle()
                    transaction, failure = await self._attempt(records)
                    if failure is None or await self._decide(transaction):
                        return transaction.positions
                    if isinstance(failure, LogNotUsable):
                        raise failure
                    await asyncio.sleep(next(pauses))
        except TimeoutError:
            raise self.too_late() from None

    async def settle(self) -> None:
        """Decide an interrupted transaction, and start a new producer.

        Raises:
            Fenced: the id belongs to another writer.
            LogUnavailable: the coordinator does not answer; call this again.
        """
        interrupted = self._interrupted
        if interrupted is not None:
            await self._decide(interrupted)
        if self._fenced:
            self._interrupted = None
            self._raise_fenced()
        if interrupted is not None:
            await self._renew(interrupted)

    async def _decide(self, interrupted: _OpenTransaction) -> bool:
        """End an interrupted transaction; return True if it was committed.

        A transaction without a requested commit is aborted. Otherwise the commit request is
        repeated. If the coordinator refuses it, the records are read back: they tell the outcome.
        """
        if interrupted.committed is None:
            code = await self._coordinator.end(
                interrupted.identity, commit=bool(interrupted.batch_starts)
            )
            self._fenced = code in _FENCED
            interrupted.committed = bool(interrupted.batch_starts) and (
                not code or await self._are_in_log(interrupted.batch_starts)
            )
        return interrupted.committed

    async def _are_in_log(self, batch_starts: Sequence[Position]) -> bool:
        try:
            return await self._read_back(batch_starts)
        except LogNotUsable:  # the topic is gone, and its records with it
            return False

    async def _renew(self, interrupted: _OpenTransaction) -> None:
        """Start a producer with the next epoch, unless another writer has taken the id."""
        code, identity = await self._coordinator.bump(interrupted.identity)
        if code in _FENCED:
            self._fenced, self._interrupted = True, None
            self._raise_fenced()
        if is_refused_id(code):
            raise refused_id(self._id)
        if code:
            raise LogNotUsable(f"producer {self._id} cannot go on: {described(code)}")
        interrupted.identity = identity
        await self._start(identity)
        self._interrupted = None

    async def check(self) -> None:
        """Raise an error unless this producer could write now. Writes nothing.

        Ending a transaction while none is open changes nothing, but the coordinator compares the
        epoch first.

        Raises:
            Fenced: another writer has claimed the id.
            LogNotUsable: this user may not use the id any more.
        """
        await self.settle()
        assert self._producer is not None
        code = await self._coordinator.end(self._producer.identity, commit=False)
        if is_refused_id(code):
            raise refused_id(self._id)
        if code in _FENCED:
            self._fenced = True
            self._raise_fenced()

    def too_late(self) -> LogUnavailable:
        """Build the error for a write that the brokers have not finished in time."""
        return too_late("finish a write", self._limits, self._cluster)

    async def _attempt(self, records: Sequence[Record]) -> tuple[_OpenTransaction, LogError | None]:
        """Append once; return the transaction, and the error that interrupted it."""
        producer = self._producer
        assert producer is not None
        transaction = self._interrupted = _OpenTransaction(producer.identity)
        try:
            batches = record_batches(records, producer.new_builder, self._headers_in)
            await producer.begin()
            offsets = await producer.send(batches)
            transaction.positions = positions(batches, offsets, len(records))
            # Before the commit: an interrupted commit request may have reached the coordinator.
            transaction.batch_starts = [
                Position(*batch.place, offset)
                for batch, offset in zip(batches, offsets, strict=True)
            ]
            await producer.commit()
        except _FAILURES as failure:
            await self._drop_producer()
            if isinstance(failure, SendFailed) and is_refusal(failure.cause):
                return transaction, append_error(failure.place[0], failure.cause)
            return transaction, LogUnavailable(f"the transaction was cut off ({failure!r})")
        except BaseException:
            # Cancelled by a deadline or a shutdown: nothing more may be sent.
            await self._drop_producer()
            raise
        self._interrupted = None
        return transaction, None

    async def _start(self, identity: ProducerIdentity | None) -> None:
        """Start a producer, with a deadline: aiokafka looks for a coordinator without end."""
        producer = KafkaProducer(self._cluster, self._limits, self._id)
        try:
            async with asyncio.timeout(self._limits.append_timeout_ms / 1000):
                await producer.start(identity)
        except TimeoutError:
            raise self.too_late() from None
        except (KafkaError, AssertionError, OSError) as failure:
            raise start_error(self._id, failure) from failure
        self._producer = producer

    async def _drop_producer(self) -> None:
        if self._producer is not None:
            producer, self._producer = self._producer, None
            await producer.drop()

    def _raise_fenced(self) -> NoReturn:
        raise Fenced(
            f"another writer has claimed {self._id}, or a transaction of this one was open for "
            f"{self._limits.transaction_timeout_ms} ms: read the log again, then claim it"
        )
