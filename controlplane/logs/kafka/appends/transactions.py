"""Transactions under one `transactional.id`: appended whole or not at all, and always decided."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NoReturn

import msgspec
from aiokafka.errors import KafkaError

from controlplane.clock import backoff
from controlplane.core.entry import Position
from controlplane.logs.kafka.appends.coordinator import RETRY_MAX_MS, TransactionCoordinator
from controlplane.logs.kafka.appends.producer import KafkaProducer, ProducerIdentity, SendFailed
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
"""True if the records at these positions are committed, False if they were aborted. Waits until one
of both is certain."""

_FAILURES = (SendFailed, KafkaError, AssertionError, OSError)
"""Failures of aiokafka; a `TimeoutError` of our own deadline is an `OSError`."""

_FENCED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})


class _OpenTransaction(msgspec.Struct):
    """A transaction under way, or one that was cut off."""

    identity: ProducerIdentity
    positions: list[Position] = []
    """Position of each record."""
    written: Sequence[Position] = ()
    """First position of each batch, once the commit has been asked for. Before that the transaction
    cannot be committed."""
    committed: bool | None = None
    """The decision; None: unknown yet."""


class Transactions:
    """Writer of transactions, one after the other, under one `transactional.id`.

    After any failure the producer is dropped, and `settle` decides the transaction before anything
    else is written. The coordinator is asked under the identity of that producer, so a writer that
    has taken over meanwhile is never fenced by this. One gap is left: the coordinator does not
    compare identities while a transaction of the other writer is open. Then both are fenced, and
    neither has written a wrong record.

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
        self._cluster = cluster
        self._id = transactional_id
        self._limits = limits
        self._headers_in = headers_in
        self._read_back = read_back
        self._coordinator = TransactionCoordinator(cluster, transactional_id, limits)
        self._producer: KafkaProducer | None = None
        self._interrupted: _OpenTransaction | None = None
        self._fenced = False

    @property
    def in_doubt(self) -> bool:
        """True while a transaction is under way or undecided."""
        return self._interrupted is not None and self._interrupted.committed is None

    async def claim(self) -> None:
        """Fence all other writers of this id, and what this object has written so far.

        Raises:
            LogNotUsable: this user may not use the id, or the brokers refuse the time-out.
            LogUnavailable: no coordinator answers in time.
        """
        # aiokafka hides why it cannot connect; this raises it.
        await self._cluster.layout([])
        if self._producer is not None:
            # If this claim fails, the old epoch goes on, unless the claim has reached a broker.
            self._interrupted = _OpenTransaction(self._producer.identity, committed=False)
        await self._let_go()
        await self._start(None)
        self._interrupted = None
        self._fenced = False

    async def append(self, records: Sequence[Record]) -> list[Position]:
        """Append records in one transaction; try again after a failure that has left no record.

        Raises:
            Fenced: another writer has claimed the id, or a broker has ended the transaction.
            LogNotUsable: the brokers refuse a record.
            LogUnavailable: the deadline has passed. The outcome is unknown until `settle` returns.
        """
        deadline = asyncio.get_running_loop().time() + self._limits.append_timeout_ms / 1000
        pauses = backoff(self._limits.retry_backoff_ms, RETRY_MAX_MS)
        try:
            async with asyncio.timeout_at(deadline):
                while True:
                    await self.settle()
                    cut, failure = await self._attempt(records)
                    if failure is None or await self._decide(cut):
                        return cut.positions
                    if isinstance(failure, LogNotUsable):
                        raise failure
                    await asyncio.sleep(next(pauses))
        except TimeoutError:
            raise self.too_late() from None

    async def settle(self) -> None:
        """Decide an interrupted transaction, and make the producer anew.

        Raises:
            Fenced: the id belongs to another writer.
            LogUnavailable: the coordinator does not answer; call this again.
        """
        cut = self._interrupted
        if cut is not None:
            await self._decide(cut)
        if self._fenced:
            self._interrupted = None
            self._step_down()
        if cut is not None:
            await self._renew(cut)

    async def _decide(self, cut: _OpenTransaction) -> bool:
        """End an interrupted transaction; return True if it was committed.

        Without a request for its commit it is aborted. Otherwise the request is repeated; if the
        coordinator refuses that, reading the records decides.
        """
        if cut.committed is None:
            code = await self._coordinator.end(cut.identity, commit=bool(cut.written))
            self._fenced = code in _FENCED
            cut.committed = bool(cut.written) and (not code or await self._are_in_log(cut.written))
        return cut.committed

    async def _are_in_log(self, written: Sequence[Position]) -> bool:
        try:
            return await self._read_back(written)
        except LogNotUsable:  # the topic is gone, and its records with it
            return False

    async def _renew(self, cut: _OpenTransaction) -> None:
        """Start a producer with the next epoch, unless another writer has taken the id."""
        code, identity = await self._coordinator.bump(cut.identity)
        if code in _FENCED:
            self._fenced, self._interrupted = True, None
            self._step_down()
        if is_refused_id(code):
            raise refused_id(self._id)
        if code:
            raise LogNotUsable(f"producer {self._id} cannot go on: {described(code)}")
        cut.identity = identity
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
            self._step_down()

    def too_late(self) -> LogUnavailable:
        """Build the error for a write that the brokers have not finished in time."""
        return too_late("finish a write", self._limits, self._cluster)

    async def close(self) -> None:
        """Close the producer. An interrupted transaction is left to the broker's time-out."""
        if self._producer is not None:
            producer, self._producer = self._producer, None
            await producer.stop()

    async def _attempt(self, records: Sequence[Record]) -> tuple[_OpenTransaction, LogError | None]:
        """Append once; return the transaction, and the error if it was cut off."""
        producer = self._producer
        assert producer is not None
        cut = self._interrupted = _OpenTransaction(producer.identity)
        try:
            batches = record_batches(records, producer.new_builder, self._headers_in)
            await producer.begin()
            offsets = await producer.send(batches)
            cut.positions = positions(batches, offsets, len(records))
            cut.written = [
                Position(*batch.place, offset)
                for batch, offset in zip(batches, offsets, strict=True)
            ]
            await producer.commit()
        except _FAILURES as failure:
            await self._let_go()
            if isinstance(failure, SendFailed) and is_refusal(failure.cause):
                return cut, append_error(failure.place[0], failure.cause)
            return cut, LogUnavailable(f"the transaction was cut off ({failure!r})")
        except BaseException:
            # The deadline or the end of the program: nothing more may be sent.
            await self._let_go()
            raise
        self._interrupted = None
        return cut, None

    async def _start(self, identity: ProducerIdentity | None) -> None:
        """Start a producer, within the deadline: aiokafka looks for a coordinator for ever."""
        producer = KafkaProducer(self._cluster, self._limits, self._id)
        try:
            async with asyncio.timeout(self._limits.append_timeout_ms / 1000):
                await producer.start(identity)
        except TimeoutError:
            raise self.too_late() from None
        except (KafkaError, AssertionError, OSError) as failure:
            raise start_error(self._id, failure) from failure
        self._producer = producer

    async def _let_go(self) -> None:
        if self._producer is not None:
            producer, self._producer = self._producer, None
            await producer.drop()

    def _step_down(self) -> NoReturn:
        raise Fenced(
            f"another writer has claimed {self._id}, or a transaction of this one was open for "
            f"{self._limits.transaction_timeout_ms} ms: read the log again, then claim it"
        )
