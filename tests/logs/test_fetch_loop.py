"""Fetch loop: a tail continues at the right offset after any answer of a broker."""

import asyncio
from contextlib import aclosing
from typing import Any, cast

import pytest
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.protocol.fetch import FetchResponse_v11

from controlplane.core.entry import Batch, TopicPartition
from controlplane.logs.kafka.cluster import Cluster
from controlplane.logs.kafka.limits import ReadLimits
from controlplane.logs.kafka.protocol.metadata import ClusterLayout
from controlplane.logs.kafka.reads.fetch_loop import FetchLoop, OwnBatch
from controlplane.logs.kafka.reads.frames import appended_frames
from controlplane.logs.log import LogUnavailable

BROKER, SESSION, END = 1, 4711, 100
UNKNOWN_SERVER_ERROR = -1
THROTTLED_MS = 5
PARTITION: TopicPartition = ("configs", 0)


class ScriptedFetches:
    """Cluster of one broker, with its answers to fetch requests in order."""

    def __init__(self, *answers: FetchResponse_v11) -> None:
        self._answers = [*answers]

    async def leaders(self, topics: set[str]) -> ClusterLayout:
        """Return a layout in which the broker leads every topic."""
        leaders = {topic: {0: BROKER} for topic in topics}
        return ClusterLayout(None, {BROKER: ("broker", 9092)}, leaders, {}, {})

    async def send(self, broker: int, request: object) -> FetchResponse_v11:
        """Return the next answer; after the last one, never answer."""
        del broker, request
        if not self._answers:
            await asyncio.Event().wait()
        return self._answers.pop(0)


def answer(throttle_ms: int, code: int, *partitions: tuple[Any, ...]) -> FetchResponse_v11:
    """Return an answer in the session."""
    topics = [(PARTITION[0], [*partitions])] if partitions else []
    return FetchResponse_v11(throttle_ms, code, SESSION, topics)


async def test_a_refused_fetch_skips_no_record() -> None:
    """A broker that fails names no partition in a session; this does not prove an empty range."""
    start = {PARTITION: 10}
    fetching = FetchLoop(start, None, "read_committed", ReadLimits(), start)
    throttled = answer(THROTTLED_MS, 0, (0, 0, END, END, 0, [], -1, b""))
    cluster = ScriptedFetches(throttled, answer(0, UNKNOWN_SERVER_ERROR), throttled)
    with pytest.raises(LogUnavailable, match=r"refuses a fetch request.*UNKNOWN_SERVER_ERROR"):
        await anext(fetching.run(cast("Cluster", cluster)))
    assert fetching.positions == start


def octets(key: str, producer: int = 1) -> bytes:
    """Return a batch of one record as its producer sends it."""
    builder = BatchBuilder(1_000, 0)
    builder.append(timestamp=1, key=key.encode(), value=b"v")
    builder._set_producer_state(producer, 0, 0)
    return bytes(builder._build())


def fetched(*batches: tuple[int, bytes]) -> FetchResponse_v11:
    """Return an answer with batches at their offsets."""
    frames = [appended_frames(PARTITION, offset, sent).frames[0].octets for offset, sent in batches]
    end = batches[-1][0] + 1
    return answer(0, 0, (0, 0, end, end, 0, [], -1, b"".join(frames)))


def records(batch: Batch) -> list[tuple[int, bytes | None]]:
    """Return offset and key of each record."""
    return [(entry.offset, entry.key) for entry in batch.entries()]


async def test_an_own_batch_needs_no_fetch() -> None:
    """A tail yields an acknowledged batch of this process once, and other records after it."""
    start = {PARTITION: 10}
    fetching = FetchLoop(start, None, "read_committed", ReadLimits(), start)
    own = octets("own")
    cluster = ScriptedFetches(fetched((10, own), (11, octets("other", 2))))
    fetching.take(OwnBatch(PARTITION, 10, own))
    async with aclosing(fetching.run(cast("Cluster", cluster))) as batches:
        assert records(await anext(batches)) == [(10, b"own")]
        assert records(await anext(batches)) == [(11, b"other")]


@pytest.mark.parametrize("offset", [9, 11])
async def test_an_own_batch_elsewhere_is_fetched(offset: int) -> None:
    """A batch is dropped if it is read already, or if other records may precede it."""
    start = {PARTITION: 10}
    fetching = FetchLoop(start, None, "read_committed", ReadLimits(), start)
    own = octets("own")
    cluster = ScriptedFetches(fetched((10, octets("other", 2)), (11, own)))
    fetching.take(OwnBatch(PARTITION, offset, own))
    async with aclosing(fetching.run(cast("Cluster", cluster))) as batches:
        assert records(await anext(batches)) == [(10, b"other"), (11, b"own")]


async def test_a_tail_goes_on_after_an_answer_with_own_batches_only() -> None:
    """Records of another writer follow an answer whose records are known already."""
    start = {PARTITION: 10}
    fetching = FetchLoop(start, None, "read_committed", ReadLimits(), start)
    own = octets("own")
    cluster = ScriptedFetches(fetched((10, own)), fetched((11, octets("other", 2))))
    fetching.take(OwnBatch(PARTITION, 10, own))
    async with aclosing(fetching.run(cast("Cluster", cluster))) as batches:
        assert records(await anext(batches)) == [(10, b"own")]
        assert records(await anext(batches)) == [(11, b"other")]
