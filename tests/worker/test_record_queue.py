"""Queue of the records of a producer."""

import asyncio
import gc
from collections.abc import Sequence
from typing import Any

import pytest

from controlplane.connect.records import RecordMetadata
from controlplane.worker.data_topics.clients import ProducerFailure, ProducerRecord
from controlplane.worker.data_topics.record_queue import QueuedRecord, RecordQueue
from tests.worker.worker_fixture import until

POSITION = RecordMetadata("t", 0, 0, 0)


async def test_the_bytes_of_waiting_records_are_limited() -> None:
    """During an outage, large records fill the queue up to its limit, and the task waits."""
    released, batches = asyncio.Event(), list[int]()

    async def send(batch: Sequence[QueuedRecord]) -> None:
        batches.append(len(batch))
        await released.wait()
        for queued in batch:
            queued.settle(POSITION)

    queue = RecordQueue(send, queued=100, queued_bytes=25, batch=100)
    headers = (("h", b"01234"),)
    records = [ProducerRecord("t", b"01", b"012", headers=headers)] * 10
    putting = asyncio.create_task(queue.put(records))
    await until(lambda: batches)
    await asyncio.sleep(0.02)
    assert not putting.done()
    released.set()
    assert await asyncio.gather(*await putting) == [POSITION] * 10
    assert batches == [3, 3, 3, 1]
    await queue.close()


async def test_a_caller_that_leaves_loses_no_exception() -> None:
    """Records of a cancelled `put` may fail; asyncio reports no exception that nobody retrieved."""
    released, lost = asyncio.Event(), list[dict[str, Any]]()

    async def send(batch: Sequence[QueuedRecord]) -> None:
        await released.wait()
        for queued in batch:
            queued.settle(ProducerFailure("away"))

    asyncio.get_running_loop().set_exception_handler(lambda _, context: lost.append(context))
    queue = RecordQueue(send, queued=1, queued_bytes=100, batch=1)
    putting = asyncio.create_task(queue.put([ProducerRecord("t", b"k", b"v")] * 10))
    await until(lambda: len(queue._queue) == 1)  # the first record is under way
    putting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await putting
    released.set()
    await queue.close()
    del putting
    gc.collect()
    assert lost == []


@pytest.mark.parametrize("steps", range(1, 5))
async def test_a_queue_whose_close_is_cancelled_twice_ends(steps: int) -> None:
    """No caller waits for room in the queue, or for an acknowledgement, that never comes."""
    begun = asyncio.Event()

    async def send(_: Sequence[QueuedRecord]) -> None:
        begun.set()
        await asyncio.Event().wait()

    queue = RecordQueue(send, queued=1, queued_bytes=100, batch=1)
    record = ProducerRecord("t", b"k", b"v")
    await queue.put([record])
    await begun.wait()
    (waiting,) = await queue.put([record])
    putting = asyncio.create_task(queue.put([record]))
    closing = asyncio.create_task(queue.close())
    for _ in range(steps):
        await asyncio.sleep(0)
    for _ in range(2):
        closing.cancel()
        await asyncio.sleep(0)
    await asyncio.wait([closing])
    assert waiting.cancelled()
    with pytest.raises(ProducerFailure, match="is closed"):
        await putting
