"""Wrapper of aiokafka's producer: it awaits every future, and a broken producer is dropped.

aiokafka retries without end, commits a transaction even if its sends failed, and cannot stop while
a broker is gone. So callers set deadlines, and `send` awaits every batch. After any failure callers
drop the producer. A failed batch leaves a gap in the sequence numbers, so the next one would fail.
Only this file uses private attributes of aiokafka's producer.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial, wraps
from typing import Any, NamedTuple

import aiokafka.producer.message_accumulator as _accumulator
import aiokafka.producer.sender as _sender
from aiokafka import AIOKafkaProducer
from aiokafka import TopicPartition as _Place
from aiokafka.errors import IllegalOperation, KafkaError
from aiokafka.protocol.metadata import MetadataRequest

from controlplane.core.entry import TopicPartition
from controlplane.event_loop import run_to_end
from controlplane.logs.kafka.appends.record_batches import RecordBatch
from controlplane.logs.kafka.cluster import Cluster, close_if_cancelled
from controlplane.logs.kafka.limits import WriteLimits
from controlplane.logs.kafka.protocol.errors import start_error
from controlplane.logs.log import LogError

# A broker answers a commit before it has written the markers, and refuses the next transaction
# until then. aiokafka retries after 20 ms; markers take 1-2 ms. Measured for consecutive
# transactions: p50 26 ms with a pause of 20 ms, 3-7 ms with 2 ms.
_sender.BACKOFF_OVERRIDE = 0.002

_TRACKED = ("_send_produce_req", "_do_add_partitions_to_txn", "_do_txn_commit")
"""Coroutine methods of aiokafka's sender that run as separate tasks."""

_CREATE_TIME = 0
"""Type of the timestamp in an answer if the records keep the times of their writer."""

_NO_LEADER = -1
"""Leader of a partition that has none at the moment, in aiokafka's metadata."""


class ProducerIdentity(NamedTuple):
    """Id and epoch that identify a producer to brokers."""

    producer_id: int
    epoch: int


class SendFailed(Exception):
    """A batch was not appended, or it is unknown whether it was.

    `cause` is aiokafka's error. If the batch was `resent`, this is only the last failure. An
    earlier request without an answer may have appended it.
    """

    def __init__(
        self, place: TopicPartition, cause: BaseException, *, resent: bool = False
    ) -> None:
        super().__init__(f"{place}: {cause!r}")
        self.place = place
        self.cause = cause
        self.resent = resent


BatchListener = Callable[[TopicPartition, int, bytes], None]
"""Receives the partition and first offset of an appended batch, and its bytes."""


class KafkaProducer:
    """Idempotent producer, transactional with a `transactional.id`. It never creates a topic."""

    def __init__(
        self,
        cluster: Cluster,
        limits: WriteLimits,
        transactional_id: str | None = None,
        appended: BatchListener | None = None,
    ) -> None:
        """`appended`: gets each batch whose records keep the times of this writer."""
        self._appended = appended
        compression = None if limits.compression in (None, "none") else limits.compression
        self._limits = limits
        self._id = transactional_id
        self._producer = AIOKafkaProducer(
            **cluster.client_options,
            enable_idempotence=True,
            acks="all",
            transactional_id=transactional_id,
            transaction_timeout_ms=limits.transaction_timeout_ms,
            compression_type=compression,
            max_batch_size=limits.batch_max_bytes,
            request_timeout_ms=limits.request_timeout_ms,
            retry_backoff_ms=limits.retry_backoff_ms,
        )
        self._request_tasks: set[asyncio.Task[Any]] = set()
        self._queue_locks: defaultdict[TopicPartition, asyncio.Lock] = defaultdict(asyncio.Lock)
        client = self._producer.client
        close_if_cancelled(client)
        client._metadata_update = partial(_metadata_update, cluster)  # noqa: SLF001
        self._produce = self._producer._sender._send_produce_req  # noqa: SLF001
        for name in _TRACKED:
            method = getattr(self._producer._sender, name)  # noqa: SLF001
            setattr(self._producer._sender, name, _tracked(method, self._request_tasks))  # noqa: SLF001

    @property
    def identity(self) -> ProducerIdentity:
        """Id and epoch; valid after `start`."""
        transactions = self._producer._txn_manager  # noqa: SLF001
        return ProducerIdentity(transactions.producer_id, transactions.producer_epoch)

    async def start(self, identity: ProducerIdentity | None = None) -> None:
        """Connect under the given identity, or request a new one.

        A new identity of a transactional producer fences all other producers of its id.

        Raises:
            LogNotUsable: the brokers refuse the producer.
            LogUnavailable: it cannot start now.
        """
        try:
            if identity is not None:
                self._producer._txn_manager.set_pid_and_epoch(*identity)  # noqa: SLF001
            await self._producer.start()
        except BaseException as failure:
            await self.drop()
            if isinstance(failure, SEND_FAILURES):
                raise start_error(self._id, failure) from failure
            raise

    async def start_beside(self, other: "KafkaProducer") -> None:
        """Connect under the identity of another producer, and continue its sequence numbers.

        The two must take turns: brokers see one producer.
        """
        sequence_numbers = other._producer._txn_manager._sequence_numbers  # noqa: SLF001
        self._producer._txn_manager._sequence_numbers = sequence_numbers  # noqa: SLF001
        await self.start(other.identity)

    def new_builder(self) -> Any:
        """Return an empty batch builder."""
        return self._producer.create_batch()

    async def begin(self) -> None:
        """Begin a transaction; no request is sent before its first batch."""
        await self._producer.begin_transaction()

    async def commit(self) -> None:
        """Commit the transaction. Call it only after `send` has returned."""
        await self._producer.commit_transaction()

    async def send(self, batches: Sequence[RecordBatch]) -> list[int]:
        """Send batches and wait for all; return the first offset of each.

        Raises:
            SendFailed: at least one batch failed; no batch is under way any more.
        """
        outcomes = await self.send_each(batches)
        for outcome in outcomes:
            if isinstance(outcome, SendFailed):
                raise outcome
        return [outcome for outcome in outcomes if isinstance(outcome, int)]

    async def send_each(self, batches: Sequence[RecordBatch]) -> list[int | SendFailed]:
        """Send batches and wait for all; return the first offset of each, or its failure."""
        indexes_by_partition: dict[TopicPartition, list[int]] = {}
        for index, batch in enumerate(batches):
            indexes_by_partition.setdefault(batch.place, []).append(index)
        self._track({topic for topic, _ in indexes_by_partition})
        if len(batches) == 1 and (leader := self._idle_leader(batches[0].place)) is not None:
            return [await self._send_at_once(batches[0], leader)]
        outcomes: list[int | SendFailed] = [-1] * len(batches)
        sending = [
            self._send_in_order(batches, indexes, outcomes)
            for indexes in indexes_by_partition.values()
        ]
        if len(sending) == 1:  # without a task, which takes time
            await sending[0]
            return outcomes
        for result in await asyncio.gather(*sending, return_exceptions=True):
            if isinstance(result, BaseException):  # a defect or a cancellation
                raise result
        return outcomes

    def _track(self, topics: set[str]) -> None:
        """Let aiokafka refresh the leaders of these topics.

        By itself, aiokafka refreshes only topics that it did not know at its start. So the first
        request about a new topic would drop the leaders of all known ones. Batches for the known
        topics would then wait for the time-out.
        """
        client = self._producer.client
        if new := topics - client._topics:  # noqa: SLF001
            client._topics |= new & client.cluster.topics()  # noqa: SLF001

    def _idle_leader(self, place: TopicPartition) -> int | None:
        """Return the leader that can get a batch without aiokafka's queue; None: use the queue.

        No batch may wait in the queue or be under way to the leader. After a change of leader, a
        batch of the partition may be under way to the earlier one. Transactions use the queue.
        """
        sender, accumulator = self._producer._sender, self._producer._message_accumulator  # noqa: SLF001
        task = sender.sender_task
        runs = task is not None and not task.done()
        failed = accumulator._closed or accumulator._exception is not None  # noqa: SLF001
        if self._id is not None or not runs or failed or accumulator._batches:  # noqa: SLF001
            return None
        if place in sender._muted_partitions:  # noqa: SLF001
            return None
        leader = accumulator._cluster.leader_for_partition(_Place(*place))  # noqa: SLF001
        if leader in {None, _NO_LEADER} or leader in sender._in_flight:  # noqa: SLF001
            return None
        return int(leader)

    async def _send_at_once(self, batch: RecordBatch, leader: int) -> int | SendFailed:
        """Send a batch without aiokafka's queue: two wake-ups of its task take 0.1 ms.

        Only a batch that must be sent again goes to the queue. After a cancelled call, the producer
        must be dropped or stopped.
        """
        sender, accumulator = self._producer._sender, self._producer._message_accumulator  # noqa: SLF001
        place = _Place(*batch.place)
        queued = _accumulator.MessageBatch(
            place,
            batch.builder,
            accumulator._batch_ttl,  # noqa: SLF001
            accumulator._linger_time,  # noqa: SLF001
        )
        accumulator._batches[place].append(queued)  # noqa: SLF001
        accumulator._pop_batch(place)  # numbers the batch  # noqa: SLF001
        sender._in_flight.add(leader)  # noqa: SLF001
        sender._muted_partitions.add(place)  # noqa: SLF001
        try:
            await self._produce(leader, {place: queued})
            self._wake_sender()  # the batch may have to be sent again, and others may wait
            answer = await asyncio.shield(queued.future)
        except asyncio.CancelledError:
            # `drop` or `stop` follows, and must not wait for the batch.
            self._end_batch(queued, KafkaError("the call was cancelled"))
            raise
        except Exception as failure:  # noqa: BLE001 - as `_answers` returns it
            # Another task may have called `drop`, which ends the batch and breaks this call.
            if not queued.future.done():
                is_known = isinstance(failure, SEND_FAILURES)
                self._end_batch(queued, failure if is_known else KafkaError(repr(failure)))
                sender._in_flight.discard(leader)  # noqa: SLF001
                sender._muted_partitions.discard(place)  # noqa: SLF001
                self._wake_sender()
            answer = queued.future.exception() or queued.future.result()
        return self._outcome(batch, answer, resent=queued.retry_count > 1)

    def _end_batch(self, queued: Any, failure: Exception) -> None:
        """Let a batch fail that was not queued, or waits for a retry.

        aiokafka removes an ended batch from its pending ones, and fails if it is missing there.
        """
        self._producer._message_accumulator._pending_batches.add(queued)  # noqa: SLF001
        queued.failure(failure)
        _retrieve_exceptions(queued.future)

    def _wake_sender(self) -> None:
        """Wake aiokafka's task if a batch waits in its queue."""
        accumulator = self._producer._message_accumulator  # noqa: SLF001
        waiter = accumulator.waiter()
        if accumulator._batches and not waiter.done():  # noqa: SLF001
            waiter.set_result(None)

    async def _send_in_order(
        self, batches: Sequence[RecordBatch], indexes: list[int], outcomes: list[int | SendFailed]
    ) -> None:
        """Send the batches of one partition, in order.

        aiokafka queues one batch per partition; further callers wait for the free slot. One of them
        takes it, and the others wait again. After this second wait, aiokafka has subtracted the
        first wait from their time-out twice: they fail too early. So only one caller at a time may
        wait (`_queue_locks`).
        """
        (topic, partition) = topic_partition = batches[indexes[0]].place
        sent: list[asyncio.Future[Any]] = []
        queue = self._producer._message_accumulator._batches  # noqa: SLF001
        tracked: list[Any] = []
        refusal: Exception = KafkaError("an earlier batch of the partition was not sent")
        try:
            for index in indexes:
                builder = batches[index].builder
                async with self._queue_locks[topic_partition]:
                    queued = self._producer.send_batch(builder, topic, partition=partition)
                    sent.append(await queued)
                    # No other task has run since, so the batch is still in the queue.
                    tracked.append(queue[topic_partition][-1])
        except SEND_FAILURES as failure:
            refusal = failure
        # Batches that were queued before the failure may still be written.
        answers = await _answers(sent)
        answers += [refusal] * (len(indexes) - len(sent))
        counts = [batch.retry_count for batch in tracked] + [0] * (len(indexes) - len(sent))
        for index, answer, count in zip(indexes, answers, counts, strict=True):
            outcomes[index] = self._outcome(batches[index], answer, resent=count > 1)

    def _outcome(self, batch: RecordBatch, answer: Any, *, resent: bool) -> int | SendFailed:
        """Return the first offset of a batch, or its failure; pass an appended one on."""
        outcome = _outcome(batch.place, answer, resent=resent)
        keeps_times = getattr(answer, "timestamp_type", None) == _CREATE_TIME
        if self._appended is not None and keeps_times and isinstance(outcome, int):
            self._appended(batch.place, outcome, bytes(batch.builder._build()))  # noqa: SLF001
        return outcome

    async def stop(self) -> None:
        """Send queued batches and close the connections.

        After `close_timeout_ms`, or if the call is cancelled, the producer is dropped.
        """
        try:
            async with asyncio.timeout(self._limits.close_timeout_ms / 1000):
                await self._producer.stop()
        except (TimeoutError, KafkaError, OSError, AssertionError):
            await self.drop()
        except asyncio.CancelledError:
            await self.drop()
            raise

    async def drop(self) -> None:
        """Stop at once: send nothing more, fail the queued batches, close the connections.

        aiokafka's own `stop` sends them first, and waits as long as a broker is gone. A cancelled
        call still drops the producer: nobody else could close it.
        """
        await run_to_end(self._drop())

    async def _drop(self) -> None:
        producer = self._producer
        producer._closed = True  # noqa: SLF001
        sender = producer._sender._sender_task  # noqa: SLF001
        ending = {*self._request_tasks} if sender is None else {*self._request_tasks, sender}
        for task in ending:
            task.cancel()
        if ending:
            await asyncio.wait(ending, timeout=self._limits.close_timeout_ms / 1000)
        accumulator = producer._message_accumulator  # noqa: SLF001
        batches = [*accumulator._pending_batches]  # noqa: SLF001
        for queued in accumulator._batches.values():  # noqa: SLF001
            batches += queued
        # `_pending_batches` lacks batches that are queued for a retry. When a batch ends, aiokafka
        # removes it from this set, and fails if it is missing. So add all batches.
        accumulator._pending_batches.update(batches)  # noqa: SLF001
        accumulator.fail_all(KafkaError("the producer was dropped"))
        for batch in batches:
            _retrieve_exceptions(batch.future, batch._drain_waiter)  # noqa: SLF001
        waiter = producer._txn_manager._transaction_waiter  # noqa: SLF001
        _retrieve_exceptions(*([] if waiter is None else [waiter]))
        await producer.client.close()
        # `close` ends the task that would set this future: a batch of `_send_at_once` may await it.
        metadata = producer.client._md_update_fut  # noqa: SLF001
        if metadata is not None and not metadata.done():
            metadata.set_result(False)


class ProducerOwner:
    """Base of writers that have one producer at a time, and start a new one after a failure."""

    def __init__(self) -> None:
        self._producer: KafkaProducer | None = None

    async def close(self) -> None:
        """Stop the producer; it sends queued batches first."""
        if self._producer is not None:
            producer, self._producer = self._producer, None
            await producer.stop()

    async def _drop_producer(self) -> None:
        """Drop the producer, if any; it sends nothing more."""
        if self._producer is not None:
            producer, self._producer = self._producer, None
            await producer.drop()


SEND_FAILURES = (KafkaError, IllegalOperation, AssertionError, OSError)
"""Failures of aiokafka to queue or append a batch. `IllegalOperation`: another batch has failed."""


async def _answers(sent: "Sequence[asyncio.Future[Any]]") -> list[Any]:
    """Wait for all futures; return the result or the error of each."""
    if len(sent) != 1:
        return await asyncio.gather(*sent, return_exceptions=True)
    try:
        return [await sent[0]]
    except Exception as failure:  # noqa: BLE001 - as `gather` returns it, in less time
        return [failure]


def _outcome(topic_partition: TopicPartition, answer: Any, *, resent: bool) -> int | SendFailed:
    """Return the first offset of a batch, or its failure."""
    if isinstance(answer, SEND_FAILURES):
        failed = SendFailed(topic_partition, answer, resent=resent)
        failed.__cause__ = answer
        return failed
    if isinstance(answer, BaseException):
        raise answer
    if answer.offset < 0:
        message = "the broker has the batch already, and does not return its offset"
        return SendFailed(topic_partition, KafkaError(message))
    return int(answer.offset)


async def _metadata_update(cluster: Cluster, metadata: Any, topics: Iterable[str]) -> bool:
    """Update aiokafka's metadata; return False if no broker answers.

    aiokafka's own request would let brokers create missing topics.
    """
    try:
        response = await cluster.ask(MetadataRequest([*topics] or None, False))
    except LogError as failure:
        metadata.failed_update(failure)
        return False
    if not response.brokers:
        return False
    metadata.update_metadata(response)
    return True


def _tracked(method: Any, tasks: "set[asyncio.Task[Any]]") -> Any:
    """Wrap a coroutine method: `tasks` holds its task while it runs, so `drop` can cancel it."""

    @wraps(method)
    async def run(*arguments: Any) -> Any:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            return await method(*arguments)
        finally:
            tasks.discard(task)

    return run


def _retrieve_exceptions(*futures: "asyncio.Future[Any]") -> None:
    """Mark the exceptions of futures as retrieved; asyncio logs them otherwise."""
    for future in futures:
        if future.done() and not future.cancelled():
            future.exception()
