"""Queue of the records of a producer, which is filled while a batch is being sent."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple, Protocol

from controlplane.connect.records import RecordMetadata
from controlplane.event_loop import cancel_all, retrieve_exception
from controlplane.worker.data_topics.clients import ProducerFailure, ProducerRecord


class QueuedRecord(NamedTuple):
    """A record in the queue, and the future of its acknowledgement."""

    record: ProducerRecord
    acknowledged: "asyncio.Future[RecordMetadata]"
    queued_s: float
    """Time of the event loop when the record entered the queue. The queue is sorted by it."""

    def settle(self, result: RecordMetadata | Exception) -> None:
        """Acknowledge the record, or let it fail."""
        if self.acknowledged.done():
            return
        if isinstance(result, Exception):
            self.acknowledged.set_exception(result)
        else:
            self.acknowledged.set_result(result)


class RecordQueue:
    """Gives records to `send_batch` in order, one batch after the other.

    `send_batch` settles each record. `put` waits while the queue has `queued` records or
    `queued_bytes`. `batch`: maximum records of a batch. `linger_ms`: wait for further records
    before a batch.
    """

    def __init__(
        self,
        send_batch: Callable[[Sequence[QueuedRecord]], Awaitable[None]],
        *,
        queued: int,
        queued_bytes: int,
        batch: int,
        linger_ms: int = 0,
    ) -> None:
        self._send_batch = send_batch
        self._queued_max = queued
        self._bytes_max = queued_bytes
        self._bytes = 0
        """Size of the records in the queue."""
        self._batch_max = batch
        self._linger_s = linger_ms / 1_000
        self._queue: deque[QueuedRecord] = deque()
        self._room = asyncio.Condition()
        self._filled = asyncio.Event()
        self._closing = asyncio.Event()
        self._ended = False
        """True once nothing more is sent."""
        self._sender = asyncio.create_task(self._send_queued(), name="producer")

    async def put(
        self, records: Sequence[ProducerRecord]
    ) -> Sequence["asyncio.Future[RecordMetadata]"]:
        """Queue records, waiting for room; return the acknowledgement of each.

        Raises:
            ProducerFailure: the queue was closed or dropped, perhaps meanwhile.
        """
        acknowledged: list[asyncio.Future[RecordMetadata]] = []
        try:
            for record in records:
                await self._until_room()
                acknowledged.append(self._queued(record))
        except BaseException:
            for left in acknowledged:  # nobody will await them
                left.add_done_callback(retrieve_exception)
            raise
        return acknowledged

    async def _until_room(self) -> None:
        if not self._has_room():
            async with self._room:
                await self._room.wait_for(lambda: self._ended or self._has_room())
        if self._ended:
            raise ProducerFailure("The producer of the task is closed")

    def _queued(self, record: ProducerRecord) -> "asyncio.Future[RecordMetadata]":
        loop = asyncio.get_running_loop()
        acknowledged: asyncio.Future[RecordMetadata] = loop.create_future()
        self._queue.append(QueuedRecord(record, acknowledged, loop.time()))
        self._bytes += record_size(record)
        self._filled.set()
        return acknowledged

    def _has_room(self) -> bool:
        return len(self._queue) < self._queued_max and self._bytes < self._bytes_max

    async def close(self, timeout_s: float | None = None) -> None:
        """Send what is queued, then end; after the time-out drop the rest."""
        self._closing.set()
        self._filled.set()
        try:
            await asyncio.wait([self._sender], timeout=timeout_s)
        finally:
            await self.drop()

    async def drop(self) -> None:
        """End, and send nothing more."""
        try:
            await cancel_all([self._sender])
        finally:  # also if the caller is cancelled again meanwhile
            await self._end()

    async def _end(self) -> None:
        """Cancel what is queued, and refuse further records."""
        self._ended = True
        for queued in self._queue:
            queued.acknowledged.cancel()
        async with self._room:
            self._room.notify_all()

    async def _send_queued(self) -> None:
        while True:
            await self._filled.wait()
            await self._linger()
            self._filled.clear()  # before sending: `put` may set it again meanwhile
            while self._queue:
                size = min(len(self._queue), self._batch_max)
                batch = [self._queue.popleft() for _ in range(size)]
                self._bytes -= sum(record_size(queued.record) for queued in batch)
                await self._send(batch)
            if self._closing.is_set():
                return

    async def _linger(self) -> None:
        if self._linger_s and len(self._queue) < self._batch_max:
            closing = asyncio.ensure_future(self._closing.wait())
            try:
                await asyncio.wait([closing], timeout=self._linger_s)
            finally:  # also if `drop` cancels the sender meanwhile
                closing.cancel()

    async def _send(self, batch: Sequence[QueuedRecord]) -> None:
        async with self._room:
            self._room.notify_all()
        try:
            await self._send_batch(batch)
        except Exception as defect:  # noqa: BLE001 - each record fails with it
            for queued in batch:
                queued.settle(ProducerFailure(repr(defect)))
        except asyncio.CancelledError:
            for queued in batch:
                queued.acknowledged.cancel()
            raise


class ClosableProducer(Protocol):
    """Producer whose queue is sent or dropped when its task ends."""

    async def close(self, *, abandoned: bool = False) -> None:
        """Send the queued records, then end. `abandoned`: drop them."""
        ...


@asynccontextmanager
async def closing_producer(producer: ClosableProducer) -> AsyncIterator[None]:
    """Close a producer at the end of the block.

    A task that is abandoned is cancelled. Its queue is dropped: another process may run the task.
    """
    is_abandoned = False
    try:
        yield
    except asyncio.CancelledError:
        is_abandoned = True
        raise
    finally:
        await producer.close(abandoned=is_abandoned)


def record_size(record: ProducerRecord) -> int:
    """Bytes of a record in memory: dead letters may have large headers."""
    headers = sum(len(value or b"") for _, value in record.headers) if record.headers else 0
    return _content_size(record) + headers


def _content_size(record: ProducerRecord) -> int:
    """Bytes of key and value."""
    return len(record.key or b"") + len(record.value or b"")


def check_size(record: ProducerRecord, max_request_size: int) -> None:
    """Raise `ProducerFailure` for a record that is larger than `max.request.size`."""
    size = _content_size(record)
    if size > max_request_size:
        raise ProducerFailure(
            f"The message is {size} bytes when serialized which is larger than "
            f"{max_request_size}, which is the value of the max.request.size configuration."
        )
