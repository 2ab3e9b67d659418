"""Writers of a log on Kafka, and their producer on aiokafka, without a broker."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import InvalidTransactionTimeout, KafkaError, PolicyViolationError

from controlplane.core.entry import Position
from controlplane.core.entry import TopicPartition as Place
from controlplane.logs.kafka.appends import idempotent_appends as idempotent_module
from controlplane.logs.kafka.appends import transactions as transactions_module
from controlplane.logs.kafka.appends.append_queue import AppendQueue
from controlplane.logs.kafka.appends.coordinator import TransactionCoordinator
from controlplane.logs.kafka.appends.fenced_batches import FencedBatches
from controlplane.logs.kafka.appends.idempotent_appends import IdempotentAppends
from controlplane.logs.kafka.appends.independent_appends import IndependentAppends
from controlplane.logs.kafka.appends.producer import KafkaProducer, ProducerIdentity, SendFailed
from controlplane.logs.kafka.appends.record_batches import RecordBatch
from controlplane.logs.kafka.appends.transactions import Transactions
from controlplane.logs.kafka.cluster import Cluster, addresses
from controlplane.logs.kafka.limits import ReadLimits, WriteLimits
from controlplane.logs.kafka.protocol.error_codes import ErrorCode
from controlplane.logs.kafka.protocol.errors import start_error
from controlplane.logs.kafka.reads.read_back import ReadBackReader
from controlplane.logs.log import Fenced, LogNotUsable, LogUnavailable, Record
from controlplane.settings.security import KafkaSecurity
from tests.patience import PATIENCE_S

PLACE = TopicPartition("t", 0)


async def test_a_batch_that_is_queued_again_is_dropped_quietly() -> None:
    """Aiokafka queues a batch again while a broker is gone; its failure must raise nothing."""
    reports: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, report: reports.append(report))
    cluster = Cluster(addresses("127.0.0.1:1"), KafkaSecurity(), ReadLimits())
    producer = KafkaProducer(cluster, WriteLimits())
    producer._producer._txn_manager.set_pid_and_epoch(1, 0)
    builder = producer.new_builder()
    builder.append(key=b"k", value=b"v", timestamp=1)
    accumulator = producer._producer._message_accumulator
    sent = await accumulator.add_batch(builder, PLACE, 1)
    accumulator.reenqueue(accumulator._pop_batch(PLACE))
    await producer.drop()
    with pytest.raises(KafkaError, match="was dropped"):
        await sent
    assert reports == []


class PairBuilder:
    """Batch builder that is full after two records."""

    def __init__(self) -> None:
        self._size = 0

    def append(self, **_: object) -> object:
        """Count a record; return None if the batch is full."""
        self._size += 1
        return self if self._size <= 2 else None


class PairRefusingProducer:
    """Producer whose brokers refuse each batch of two records, and append the others at 7."""

    new_builder = PairBuilder

    async def send_each(self, batches: Sequence[RecordBatch]) -> list[int | SendFailed]:
        """Return the outcome of each batch."""
        return [
            SendFailed(batch.place, PolicyViolationError()) if len(batch.indexes) == 2 else 7
            for batch in batches
        ]

    async def drop(self) -> None:
        """Do nothing."""


class AppendsWithOutage(IndependentAppends):
    """Appends of a cluster that is away at the second start of a producer, and only then."""

    def __init__(self) -> None:
        super().__init__(
            Cluster(addresses("127.0.0.1:1"), KafkaSecurity(), ReadLimits()), WriteLimits()
        )
        self._starts: Iterator[bool] = iter([True, False, True])

    async def _running_producer(self) -> KafkaProducer:
        if self._producer is None:
            if not next(self._starts):
                raise LogUnavailable("no broker answers")
            self._producer = cast("KafkaProducer", PairRefusingProducer())
        return self._producer


async def test_an_outage_after_a_refusal_loses_no_position() -> None:
    """Written records keep their positions; the outcome of each other one is the outage."""
    topics = ["written", *["refused"] * 4]
    records = [Record(topic, 0, 1, b"k", b"v") for topic in topics]
    written, *others = await AppendsWithOutage().append(records)
    assert written == Position("written", 0, 7)
    assert [type(outcome) for outcome in others] == [LogUnavailable] * 4


class LateFailure:
    """Producer whose batch fails after its caller has gone."""

    new_builder = PairBuilder

    def __init__(self) -> None:
        self.is_sending = asyncio.Event()
        self.may_fail = asyncio.Event()
        self.is_stopped = False

    async def send(self, _: Sequence[RecordBatch]) -> list[int]:
        """Fail once the test lets it."""
        self.is_sending.set()
        await self.may_fail.wait()
        raise SendFailed(PLACE, PolicyViolationError())

    async def stop(self) -> None:
        """Note the call."""
        self.is_stopped = True


class AppendsWithLateFailure(IdempotentAppends):
    """Appends with a producer that fails late."""

    def __init__(self, late: LateFailure) -> None:
        cluster = Cluster(addresses("127.0.0.1:1"), KafkaSecurity(), ReadLimits())
        super().__init__(cluster, WriteLimits(), frozenset())
        self._producer = cast("KafkaProducer", late)


async def test_a_producer_that_fails_after_its_caller_has_gone_is_replaced() -> None:
    """A failed batch breaks the sequence numbers, so the next append needs another producer."""
    late = LateFailure()
    appends = AppendsWithLateFailure(late)
    appending = asyncio.create_task(appends.append([Record("t", 0, 1, b"k", b"v")]))
    await late.is_sending.wait()
    appending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await appending
    late.may_fail.set()
    await appends.decided()
    assert late.is_stopped


class SlowProducer(KafkaProducer):
    """Producer that starts without end."""

    is_starting = asyncio.Event()
    is_dropped = False

    async def start(self, _: ProducerIdentity | None = None) -> None:
        """Wait without end; drop the producer after a cancellation."""
        self.is_starting.set()
        try:
            await asyncio.Event().wait()
        finally:
            await self.drop()
            SlowProducer.is_dropped = True


async def test_a_close_cancels_the_start_of_a_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The waiting appends and later ones are refused, and no producer starts after the close."""

    async def layout(*_: object) -> None:
        """Do nothing."""

    monkeypatch.setattr(Cluster, "layout", layout)
    monkeypatch.setattr(idempotent_module, "KafkaProducer", SlowProducer)
    cluster = Cluster(addresses("127.0.0.1:1"), KafkaSecurity(), ReadLimits())
    appends = IdempotentAppends(cluster, WriteLimits(), frozenset())
    records = [Record("t", 0, 1, b"k", b"v")]
    waiting = [asyncio.create_task(appends.append(records)) for _ in range(2)]
    await SlowProducer.is_starting.wait()
    async with asyncio.timeout(PATIENCE_S):
        await appends.close()
        for append in (*waiting, appends.append(records)):
            with pytest.raises(LogUnavailable, match="closed"):
                await append
    assert SlowProducer.is_dropped


class WriteRefusingCoordinator(TransactionCoordinator):
    """Coordinator that renews each epoch, and refuses to write to any partition."""

    async def bump(self, identity: ProducerIdentity) -> tuple[int, ProducerIdentity]:
        """Return the next epoch."""
        return 0, identity._replace(epoch=identity.epoch + 1)

    async def end(self, _: ProducerIdentity, *, commit: bool) -> int:  # noqa: ARG002
        """Return the code of an ended transaction."""
        return ErrorCode.NONE

    async def add_partitions(
        self, _: ProducerIdentity, partitions: Iterable[Place]
    ) -> dict[Place, int]:
        """Refuse all partitions."""
        return dict.fromkeys(partitions, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


async def test_a_refused_marker_leaves_one_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each `settle` starts a producer. The one before must not go on."""
    running: set[KafkaProducer] = set()

    class OfflineProducer(KafkaProducer):
        """Producer that needs no broker."""

        async def start(self, identity: ProducerIdentity | None = None) -> None:
            """Take the identity."""
            self._producer._txn_manager.set_pid_and_epoch(*(identity or (1, 0)))
            running.add(self)

        async def drop(self) -> None:
            """Note the call."""
            running.remove(self)
            await super().drop()

        stop = drop

    monkeypatch.setattr(transactions_module, "KafkaProducer", OfflineProducer)
    cluster = Cluster(addresses("127.0.0.1:1"), KafkaSecurity(), ReadLimits())
    batches = FencedBatches(cluster, WriteLimits())
    transactions = Transactions(
        cluster, "id", WriteLimits(), batches, ReadBackReader(cluster, ReadLimits())
    )
    transactions._coordinator = WriteRefusingCoordinator(cluster, "id", WriteLimits())
    transactions._interrupted = transactions_module._OpenTransaction(
        ProducerIdentity(1, 0), committed=False
    )
    batches.unknown.add(("t", 0))
    for _ in range(3):
        with pytest.raises(LogNotUsable):
            await transactions.settle()
        assert len(running) == 1
    await transactions.close()
    assert not running


class CountedChecks:
    """Transactions that need no broker; a check takes one turn of the event loop."""

    in_doubt = False

    def __init__(self) -> None:
        self.checks = 0
        self.is_checking = asyncio.Event()

    async def claim(self) -> None:
        """Do nothing."""

    async def check(self) -> None:
        """Count the call."""
        self.checks += 1
        self.is_checking.set()
        await asyncio.sleep(0)

    async def close(self) -> None:
        """Do nothing."""


async def test_checks_that_wait_are_one_operation() -> None:
    """Many health requests delay an append by one check; a cancelled one stops no other."""
    transactions = CountedChecks()
    queue = AppendQueue(cast("Transactions", transactions), WriteLimits())
    epoch = await queue.claim()
    first, cancelled, *others = [asyncio.create_task(queue.check(epoch)) for _ in range(9)]
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.gather(first, *others)
    assert (cancelled.cancelled(), transactions.checks) == (True, 1)
    await queue.check(epoch)
    assert transactions.checks == 2
    with pytest.raises(Fenced):
        await queue.check(epoch + 1)
    await queue.close()
    with pytest.raises(LogUnavailable):
        await queue.check(epoch)


async def test_a_check_is_not_older_than_its_call() -> None:
    """A check that has begun is not shared: another writer may have claimed the id since."""
    transactions = CountedChecks()
    queue = AppendQueue(cast("Transactions", transactions), WriteLimits())
    epoch = await queue.claim()
    first = asyncio.create_task(queue.check(epoch))
    await transactions.is_checking.wait()
    await queue.check(epoch)
    await first
    assert transactions.checks == 2
    await queue.close()


def test_a_refused_transaction_timeout_names_the_keys_to_set() -> None:
    """The error has the broker's key, and those of the log and of a connector's producer."""
    error = start_error("connect-cluster-a", InvalidTransactionTimeout())
    assert isinstance(error, LogNotUsable)
    assert str(error) == (
        "transactional.id connect-cluster-a has a time-out above the brokers' "
        "transaction.max.timeout.ms: lower writer.transaction.timeout.ms, or "
        "transaction.timeout.ms of a connector's producer"
    )
