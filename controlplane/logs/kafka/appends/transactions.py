"""Appends under one `transactional.id`: all records or none, decided after each failure."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import NoReturn

import msgspec

from controlplane.core.entry import Position, TopicPartition
from controlplane.event_loop import backoff
from controlplane.logs.kafka.appends.coordinator import RETRY_MAX_MS, TransactionCoordinator
from controlplane.logs.kafka.appends.fenced_batches import (
    BatchOutcome,
    FencedBatches,
    NotAppended,
    Unknown,
)
from controlplane.logs.kafka.appends.producer import (
    SEND_FAILURES,
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
    OLD_EPOCH,
    EpochChanged,
    append_error,
    is_refusal,
    is_refused_id,
    refused_id,
    write_error,
)
from controlplane.logs.kafka.reads.read_back import ReadBackReader
from controlplane.logs.log import Fenced, LogError, LogNotUsable, LogUnavailable, Record

_FAILURES = (SendFailed, *SEND_FAILURES)
"""Failures of aiokafka. A deadline of `_in_time` is not among them: it cancels the attempt."""

_MISSING = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_UNTRIED = frozenset({ErrorCode.NONE, _MISSING, ErrorCode.OPERATION_NOT_ATTEMPTED})
"""Codes of a partition that do not mean a refusal of the producer."""


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
    """Writer of transactions and single batches, one after the other, of one `transactional.id`.

    An append is a batch if `FencedBatches` accepts it, else a transaction. After any failure the
    producers are dropped. `settle` decides the interrupted append before the next write. Its
    requests to the coordinator carry the identity of the dropped producer. The coordinator refuses
    them if a newer writer has claimed the id, so they do not fence that writer.

    There is one exception: the request for the next epoch (`_renew`). The coordinator does not
    compare the epoch of this request while the newer writer has an open transaction. In this case,
    the coordinator aborts that transaction and fences both writers. Their appends raise `Fenced`,
    so no wrong record is committed.

    After `close` a broker aborts an interrupted transaction when its time-out has passed.

    `settle` needs brokers that refuse a late batch of an ended transaction (KIP-890, Kafka 3.6).
    """

    def __init__(
        self,
        cluster: Cluster,
        transactional_id: str,
        limits: WriteLimits,
        batches: FencedBatches,
        read_back: ReadBackReader,
    ) -> None:
        super().__init__()
        self._cluster = cluster
        self._id = transactional_id
        self._limits = limits
        self._read_back = read_back
        self._coordinator = TransactionCoordinator(cluster, transactional_id, limits)
        self._batches = batches
        self._interrupted: _OpenTransaction | None = None
        self._has_markers = True
        """False after a commit, until its markers are known to be written."""
        self._fenced = False

    @property
    def in_doubt(self) -> bool:
        """True while a transaction or a batch is under way or undecided."""
        interrupted = self._interrupted
        undecided = interrupted is not None and interrupted.committed is None
        return undecided or bool(self._batches.unknown)

    async def claim(self) -> None:
        """Request a new epoch: it fences all other writers and ends an open transaction.

        Raises:
            Fenced: another writer has claimed the id meanwhile.
            LogNotUsable: this user may not use the id, or the brokers refuse the time-out.
            LogUnavailable: no coordinator answers in time, or a partition takes no marker in time.
        """
        # Raises the reason if no broker can be reached; aiokafka hides it.
        await self._cluster.layout([])
        if self._producer is not None:
            # If this claim fails, this writer may still hold its old epoch. So keep its identity:
            # with it, the next append requests the following epoch (`settle`), and goes on. If the
            # failed claim has changed the epoch, the coordinator refuses this request (`Fenced`).
            self._interrupted = _OpenTransaction(self._producer.identity, committed=False)
        await self._drop_producers()
        await self._start(None)
        self._interrupted = None
        # Partitions without a new marker still accept batches of another writer. So if the claim is
        # cut off now, this writer counts as fenced until its next claim.
        self._fenced = True
        await self._establish_all()
        self._fenced = False

    async def append(self, records: Sequence[Record]) -> list[Position]:
        """Append records in one batch or one transaction; retry after an aborted attempt.

        Raises:
            Fenced: another writer has claimed the id, or a transaction was open for too long.
            LogNotUsable: the brokers refuse a record.
            LogUnavailable: `append_timeout_ms` has passed. The outcome is unknown until `settle`
                returns.
        """
        async with self._in_time():
            for pause in backoff(self._limits.retry_backoff_ms, RETRY_MAX_MS):
                outcomes = await self._append_batches([records])
                outcome = outcomes[0] if outcomes else await self._transact(records)
                if isinstance(outcome, list):
                    return outcome
                if not isinstance(outcome, NotAppended):
                    raise outcome
                await asyncio.sleep(pause)
        raise AssertionError("backoff never ends")

    async def append_batches(
        self, appends: Sequence[Sequence[Record]]
    ) -> list[BatchOutcome] | None:
        """Append the records of each append as one batch, all at once; return their outcomes.

        None: they need a transaction, and nothing was written. Raises the same as `append`.
        """
        async with self._in_time():
            return await self._append_batches(appends)

    async def _append_batches(
        self, appends: Sequence[Sequence[Record]]
    ) -> list[BatchOutcome] | None:
        await self.settle()
        assert self._producer is not None
        identity = self._producer.identity
        if not self._batches.accept(appends, identity.epoch):
            return None
        if not self._has_markers:
            self._check_epoch(await self._coordinator.end(identity, commit=True))
            self._has_markers = True
        outcomes = await self._send_batches(appends, self._producer)
        if outcomes is None:
            return None
        return [
            await self._decided(records, outcome)
            for records, outcome in zip(appends, outcomes, strict=True)
        ]

    async def _send_batches(
        self, appends: Sequence[Sequence[Record]], producer: KafkaProducer
    ) -> list[BatchOutcome] | None:
        """Send batches; after a failure, drop the producers, for `settle` to renew the epoch."""
        self._interrupted = _OpenTransaction(producer.identity, committed=False)
        try:
            outcomes = await self._batches.append(appends, producer)
        except BaseException:
            # Cancelled by a deadline or a shutdown: nothing more may be sent.
            await self._drop_producers()
            raise
        failures = [outcome for outcome in outcomes or () if isinstance(outcome, LogError)]
        if failures:  # a failed batch leaves a gap in the sequence numbers
            self._fenced |= any(isinstance(failure, Fenced) for failure in failures)
            await self._drop_producers()
        else:
            self._interrupted = None
        return outcomes

    async def _decided(self, records: Sequence[Record], outcome: BatchOutcome) -> BatchOutcome:
        """Return the outcome of a batch, after a search for its records if it may be in the log."""
        if isinstance(outcome, Fenced):
            return self._fenced_error()
        if not isinstance(outcome, Unknown):
            return outcome
        try:
            with suppress(Fenced):  # the markers of the other writer refuse the batch
                await self.settle()
            written = await self._read_back.positions(records, outcome.start_offset)
        except LogError:
            return outcome
        if written:
            return written
        return self._fenced_error() if self._fenced else NotAppended(str(outcome))

    async def settle(self) -> None:
        """Decide an interrupted transaction or batch, and start a new producer if needed.

        Raises:
            Fenced: the id belongs to another writer.
            LogUnavailable: the coordinator does not answer; call this again.
        """
        interrupted = self._interrupted
        if interrupted is not None:
            await self._decide(interrupted)
        if self._fenced:
            self._interrupted = None
            self._batches.unknown.clear()  # the epoch of the other writer refuses the batches
            self._raise_fenced()
        if interrupted is not None:
            await self._renew(interrupted)
        if self._batches.unknown:
            await self._establish({*self._batches.unknown})

    async def _decide(self, interrupted: _OpenTransaction) -> bool:
        """End an interrupted transaction; return True if it was committed.

        A transaction without a requested commit is aborted. Otherwise the commit request is
        repeated. If the coordinator refuses it, the records are read back: they tell the outcome.
        """
        if interrupted.committed is None:
            code = await self._coordinator.end(
                interrupted.identity, commit=bool(interrupted.batch_starts)
            )
            self._fenced |= code in OLD_EPOCH
            interrupted.committed = bool(interrupted.batch_starts) and (
                not code or await self._are_in_log(interrupted.batch_starts)
            )
        return interrupted.committed

    async def _are_in_log(self, batch_starts: Sequence[Position]) -> bool:
        try:
            return await self._read_back.committed(batch_starts)
        except LogNotUsable:  # the topic is gone, and its records with it
            return False

    async def _renew(self, interrupted: _OpenTransaction) -> None:
        """Start a producer with the next epoch, unless another writer has taken the id."""
        code, identity = await self._coordinator.bump(interrupted.identity)
        if code in OLD_EPOCH:
            self._fenced, self._interrupted = True, None
            self._raise_fenced()
        if is_refused_id(code):
            raise refused_id(self._id)
        if code:
            raise LogNotUsable(f"producer {self._id} cannot go on: {described(code)}")
        interrupted.identity = identity
        await self._drop_producer()  # still running after a failed `_establish`
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
        self._check_epoch(await self._coordinator.end(self._producer.identity, commit=False))

    def too_late(self) -> LogUnavailable:
        """Build the error for a write that the brokers have not finished in time."""
        return too_late("finish a write", self._limits, self._cluster)

    async def _establish_all(self) -> None:
        """Establish all partitions, also those that the coordinator does not know at first."""
        pauses = backoff(self._limits.retry_backoff_ms, RETRY_MAX_MS)
        async with self._in_time():
            while missing := await self._batches.missing_partitions():
                if not await self._establish(missing):
                    await asyncio.sleep(next(pauses))

    async def _establish(self, partitions: set[TopicPartition]) -> bool:
        """Write a marker of the present epoch to each partition.

        A partition with this marker refuses batches of older epochs. The end of an empty
        transaction writes markers. Missing topics are left out; return False if there are any.

        Raises:
            Fenced: another writer has claimed the id.
            LogUnavailable: the coordinator does not confirm that the markers are written.
        """
        assert self._producer is not None
        identity = self._producer.identity
        # If this call is cut off, `settle` ends the transaction.
        self._interrupted = _OpenTransaction(identity)
        present = await self._begin_in(partitions, identity)
        ends: Mapping[TopicPartition, int] = {}
        if present:
            await self._coordinator.end(identity, commit=False)
            code = await self._coordinator.end(identity, commit=False)
            self._check_epoch(code)
            if code:
                raise LogUnavailable(f"{self._id} cannot write its markers: {described(code)}")
            ends = await self._read_back.ends(present)
        self._interrupted = None
        self._has_markers = True
        self._batches.establish(ends)
        self._batches.unknown -= partitions
        return present == partitions

    async def _begin_in(
        self, partitions: set[TopicPartition], identity: ProducerIdentity
    ) -> set[TopicPartition]:
        """Begin a transaction in these partitions; return those that exist."""
        while partitions:
            codes = await self._coordinator.add_partitions(identity, partitions)
            for (topic, _), code in codes.items():
                if code not in _UNTRIED:
                    self._check_epoch(code)
                    raise write_error(topic, code)
            missing = {place for place, code in codes.items() if code == _MISSING}
            if not missing:
                break
            partitions = partitions - missing
        return partitions

    def _check_epoch(self, code: int) -> None:
        """Raise the error of a coordinator's answer that refuses this producer."""
        if is_refused_id(code):
            raise refused_id(self._id)
        if code in OLD_EPOCH:
            self._fenced = True
            self._raise_fenced()

    async def _transact(self, records: Sequence[Record]) -> BatchOutcome:
        """Append in one transaction, once; `NotAppended`: it was aborted."""
        transaction, failure = await self._attempt(records)
        if failure is not None and not await self._decide(transaction):
            return failure
        self._batches.establish(
            {(topic, number): offset + 1 for topic, number, offset in transaction.positions}
        )
        return transaction.positions

    async def _attempt(self, records: Sequence[Record]) -> tuple[_OpenTransaction, LogError | None]:
        """Append once; return the transaction, and the error that interrupted it."""
        producer = self._producer
        assert producer is not None
        transaction = self._interrupted = _OpenTransaction(producer.identity)
        try:
            batches = record_batches(records, producer.new_builder, self._batches.headers_in)
            await producer.begin()
            offsets = await producer.send(batches)
            transaction.positions = positions(batches, offsets, len(records))
            # Before the commit: an interrupted commit request may have reached the coordinator.
            transaction.batch_starts = [
                Position(*batch.place, offset)
                for batch, offset in zip(batches, offsets, strict=True)
            ]
            self._has_markers = False
            await producer.commit()
        except _FAILURES as failure:
            await self._drop_producers()
            if isinstance(failure, SendFailed) and is_refusal(failure.cause):
                return transaction, append_error(failure.place[0], failure.cause)
            return transaction, NotAppended(f"the transaction was cut off ({failure!r})")
        except BaseException:
            # Cancelled by a deadline or a shutdown: nothing more may be sent.
            await self._drop_producers()
            raise
        self._interrupted = None
        return transaction, None

    async def _start(self, identity: ProducerIdentity | None) -> None:
        """Start a producer, with a deadline: aiokafka looks for a coordinator without end.

        The coordinator refuses a request for a new identity if another writer's request changes the
        epoch at that moment. Then the request is repeated, and gets a newer epoch than that writer.
        """
        pauses = backoff(self._limits.retry_backoff_ms, RETRY_MAX_MS)
        async with self._in_time():
            while True:
                producer = KafkaProducer(self._cluster, self._limits, self._id)
                try:
                    await producer.start(identity)
                    break
                except EpochChanged:
                    await asyncio.sleep(next(pauses))
        self._producer = producer

    @asynccontextmanager
    async def _in_time(self) -> AsyncIterator[None]:
        """Cancel the block after `append_timeout_ms`, and raise `LogUnavailable`."""
        try:
            async with asyncio.timeout(self._limits.append_timeout_ms / 1000):
                yield
        except TimeoutError:
            raise self.too_late() from None

    async def close(self) -> None:
        """Stop the producers; they send queued batches first."""
        try:
            await self._batches.close()
        finally:  # also if the call is cancelled
            await super().close()

    async def _drop_producers(self) -> None:
        try:
            await self._batches.drop()
        finally:  # also if the call is cancelled
            await self._drop_producer()

    def _raise_fenced(self) -> NoReturn:
        raise self._fenced_error()

    def _fenced_error(self) -> Fenced:
        return Fenced(
            f"another writer has claimed {self._id}, or a transaction was open for "
            f"{self._limits.transaction_timeout_ms} ms"
        )
