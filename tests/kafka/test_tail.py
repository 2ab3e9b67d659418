"""Tails of a real topic: later records arrive soon, and tails outlive outages."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from controlplane.core.entry import Entry
from controlplane.core.order import Ends
from controlplane.logs.kafka.limits import ReadLimits
from controlplane.logs.kafka.reads import fetch_session
from controlplane.logs.kafka.reads.reader import KafkaReader
from controlplane.logs.log import LogError, LogNotUsable, LogUnavailable
from tests.conftest import sampled
from tests.kafka.conftest import RELEASES, up
from tests.kafka.producer import (
    NewTopic,
    create_topic,
    delete_topic,
    read_entries,
    reading,
    writer,
)
from tests.kafka.real_kafka import Broker
from tests.kafka.topic_histories import removed
from tests.logs.reading_contract import by_position, until_ends
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.java, pytest.mark.broker]

IMPATIENT = ReadLimits(refusal_patience_ms=500, retry_backoff_ms=20)


class TailTask:
    """Tail in a task of its own, and its entries so far."""

    def __init__(self, reader: KafkaReader, topics: list[str], start: Ends) -> None:
        self._coming: asyncio.Queue[Entry] = asyncio.Queue()
        self._task = asyncio.create_task(self._follow(reader, topics, start))

    async def _follow(self, reader: KafkaReader, topics: list[str], start: Ends) -> None:
        async for batch in reader.tail(topics, start):
            for entry in batch.entries():
                self._coming.put_nowait(entry)

    async def take(self, count: int) -> list[Entry]:
        """The next entries, as they come."""
        async with asyncio.timeout(PATIENCE_S):
            return [await self._coming.get() for _ in range(count)]

    async def ended(self) -> None:
        """Wait until the tail ends, and raise what it ended with."""
        async with asyncio.timeout(PATIENCE_S):
            await self._task

    async def cancel(self) -> None:
        """Stop the tail; no entry may be left that the test has not taken."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        assert self._coming.empty()


@asynccontextmanager
async def following(reader: KafkaReader, topics: list[str], start: Ends) -> AsyncIterator[TailTask]:
    """Follow topics within the block; cancel the tail at its end."""
    tail = TailTask(reader, topics, start)
    try:
        yield tail
    finally:
        await tail.cancel()


async def test_a_tail_brings_old_and_new_records(
    broker: Broker, reader: KafkaReader, topic: str
) -> None:
    """A tail starts at the given offsets and brings later records as they are written."""
    async with writer(broker) as out:
        old = [await out.put(topic, 0, b"k", b"%d" % number) for number in range(3)]
        async with following(reader, [topic], {topic: [1, 0, 0]}) as tail:
            assert await tail.take(2) == old[1:]
            for number in range(5):
                entry = await out.put(topic, number % 3, b"k", b"new")
                assert await tail.take(1) == [entry]


async def test_a_broker_refuses_the_session_of_a_tail(
    broker: Broker, reader: KafkaReader, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tail begins a new session; no record is lost or comes twice."""
    monkeypatch.setattr(fetch_session, "_LAST_EPOCH", 1)  # the broker expects number 2 next
    async with writer(broker) as out, following(reader, [topic], {topic: [0, 0, 0]}) as tail:
        for number in range(8):
            entry = await out.put(topic, number % 3, b"k", b"v")
            assert await tail.take(1) == [entry]


async def test_an_idle_tail_does_not_delay_others(
    broker: Broker, reader: KafkaReader, topic: str
) -> None:
    """The reader answers other requests while its tail waits for a broker."""
    async with writer(broker) as out, following(reader, [topic], {topic: [0, 0, 0]}) as tail:
        entry = await out.put(topic, 0, b"k", b"v")
        assert await read_entries(reader, [topic]) == await tail.take(1) == [entry]
        assert await reader.ends([topic]) == {topic: [1, 0, 0]}


async def test_transactions_come_when_they_are_decided(
    broker: Broker, reader: KafkaReader, topic: str
) -> None:
    """Records of an aborted transaction arrive marked; the tail passes its markers."""
    async with (
        writer(broker, transactional_id=topic) as out,
        writer(broker) as other,
        following(reader, [topic], {topic: [0, 0, 0]}) as tail,
    ):
        await out.producer.begin_transaction()
        await out.put(topic, 0, b"k", b"aborted")
        behind = await other.put(topic, 0, b"k", b"behind")
        elsewhere = await other.put(topic, 1, b"k", b"elsewhere")
        assert await tail.take(1) == [elsewhere]
        aborted = await out.end(commit=False)
        assert await tail.take(2) == [*aborted, behind]
        await out.producer.begin_transaction()
        await out.put(topic, 2, b"k", b"committed")
        committed = await out.end(commit=True)
        assert await tail.take(1) == committed


@pytest.mark.parametrize("commit", [True, False])
async def test_a_tail_passes_markers(
    broker: Broker, reader: KafkaReader, topic: str, *, commit: bool
) -> None:
    """The tail reaches the end of a topic whose last offsets are markers."""
    async with writer(broker, transactional_id=topic) as out:
        await out.producer.begin_transaction()
        await out.put(topic, 0, b"k", b"v")
        await out.put(topic, 2, b"k", b"v")
        await out.end(commit=commit)
        async with aclosing(reader.tail([topic], {topic: [0, 0, 0]})) as tail:
            batches = await until_ends(tail, {(topic, 0): 2, (topic, 2): 2})
            assert sum(map(len, batches)) == 2
            assert dict(await reader.ends([topic])) == {topic: [2, 0, 2]}
            # Only the marker comes while the tail waits.
            await out.producer.begin_transaction()
            await out.put(topic, 1, b"k", b"v")
            await out.end(commit=commit)
            batches = await until_ends(tail, {(topic, 1): 2})
            assert sum(map(len, batches)) == 1


async def test_a_tail_passes_deleted_records(
    broker: Broker, reader: KafkaReader, new_topic: NewTopic
) -> None:
    """A tail whose start was deleted reports at once the offset at which it begins."""
    topic = await new_topic(2, cleanup__policy="delete")
    async with writer(broker) as out:
        for _ in range(3):
            await out.put(topic, 1, b"k", b"v")
    await removed(broker, topic, 1, 3)
    async with aclosing(reader.tail([topic], {})) as tail:
        batches = await until_ends(tail, {(topic, 1): 3})
        assert not any(map(len, batches))


async def test_read_uncommitted_does_not_wait(broker: Broker, topic: str) -> None:
    """Records of open transactions arrive at once, as in a worker without exactly-once support."""
    async with (
        reading(broker.bootstrap, isolation="read_uncommitted") as reader,
        writer(broker, transactional_id=topic) as out,
        following(reader, [topic], {topic: [0, 0, 0]}) as tail,
    ):
        await out.producer.begin_transaction()
        entry = await out.put(topic, 0, b"k", b"open")
        assert await tail.take(1) == [entry]
        await out.end(commit=False)
        await out.producer.begin_transaction()
        entry = await out.put(topic, 0, b"k", b"next")
        assert await tail.take(1) == [entry]


async def test_a_tail_that_is_left_gives_back_its_connections(
    broker: Broker, reader: KafkaReader, topic: str
) -> None:
    """A tail whose loop is left closes its connections; open ones would fail this run."""
    async with writer(broker) as out:
        await out.put(topic, 0, b"k", b"v")
    async with aclosing(reader.tail([topic], {topic: [0, 0, 0]})) as batches:
        async for batch in batches:
            assert len(batch) == 1
            break
        else:
            pytest.fail("the tail has ended without a record")


async def test_a_closed_reader_ends_its_tails(broker: Broker, topic: str) -> None:
    """A running tail of a closed reader raises an error instead of retrying."""
    async with (
        reading(broker.bootstrap) as reader,
        following(reader, [topic], {topic: [0, 0, 0]}) as tail,
        writer(broker) as out,
    ):
        entry = await out.put(topic, 0, b"k", b"v")
        assert await tail.take(1) == [entry]
        await reader.close()
        with pytest.raises(LogUnavailable, match="reader is closed"):
            await tail.ended()


async def test_a_deletion_of_the_topic_ends_the_tail(broker: Broker, new_topic: NewTopic) -> None:
    """The tail ends after its patience; the error says that the topic does not exist."""
    topic = await new_topic(1)
    async with (
        reading(broker.bootstrap, limits=IMPATIENT) as reader,
        following(reader, [topic], {topic: [0]}) as tail,
    ):
        async with writer(broker) as out:
            entry = await out.put(topic, 0, b"k", b"v")
        assert await tail.take(1) == [entry]
        await delete_topic(broker, topic)
        with pytest.raises(LogNotUsable, match="does not exist"):
            await tail.ended()


async def test_records_of_a_recreated_topic_are_not_taken_for_the_next_ones(
    broker: Broker, new_topic: NewTopic
) -> None:
    """The tail does not take records of a recreated topic for the next ones."""
    topic = await new_topic(1)
    async with reading(broker.bootstrap, limits=IMPATIENT) as reader, writer(broker) as out:
        for number in range(3):
            await out.put(topic, 0, b"k", b"%d" % number)
        async with following(reader, [topic], {topic: [0]}) as tail:
            assert await tail.take(3) == out.written
            await delete_topic(broker, topic)
            await create_topic(broker, topic)
            with pytest.raises(LogNotUsable, match="recreated"):
                await tail.ended()


async def test_records_of_a_longer_topic_are_not_taken_for_the_next_ones(
    broker: Broker, new_topic: NewTopic
) -> None:
    """Records of the new topic are not taken for the next ones, even at the same offsets."""
    topic = await new_topic(1)
    async with reading(broker.bootstrap, limits=IMPATIENT) as reader, writer(broker) as out:
        first = await out.put(topic, 0, b"k", b"old")
        async with following(reader, [topic], {topic: [0]}) as tail:
            assert await tail.take(1) == [first]
            await delete_topic(broker, topic)
            await create_topic(broker, topic)
            async with writer(broker) as other:
                for number in range(3):
                    await other.put(topic, 0, b"k", b"%d" % number)
            with pytest.raises(LogNotUsable, match="recreated"):
                await tail.ended()


@pytest.mark.parametrize("release", sampled(RELEASES, RELEASES[-1]))
async def test_a_tail_continues_after_a_restart_of_the_broker(release: str, tmp_path: Path) -> None:
    """The tail reports why it waits, and then continues without loss or doubles."""
    async with (
        up(release, tmp_path) as broker,
        reading(broker.bootstrap) as reader,
    ):
        await create_topic(broker, "followed", 3)
        async with following(reader, ["followed"], {"followed": [0, 0, 0]}) as tail:
            before = await _write_records(broker, "followed", 20)
            assert by_position(await tail.take(20)) == before
            assert _interruption(reader) is None
            await broker.kill9()
            with pytest.raises(LogUnavailable):
                await reader.ends(["followed"])
            # The tail notices the outage with its next fetch, and reports it in a property.
            async with asyncio.timeout(PATIENCE_S):
                while not isinstance(_interruption(reader), LogUnavailable):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            await broker.start()
            after = await _write_records(broker, "followed", 20)
            assert by_position(await tail.take(20)) == after
            assert _interruption(reader) is None
        assert await read_entries(reader, ["followed"]) == by_position(before + after)


async def _write_records(broker: Broker, topic: str, count: int) -> list[Entry]:
    async with writer(broker) as out:
        for number in range(count):
            await out.put(topic, number % 3, b"k", b"%d" % number)
    return by_position(out.written)


def _interruption(reader: KafkaReader) -> LogError | None:
    """The reader's `interruption`, read anew: type checkers take a property for constant."""
    return reader.interruption
