"""Reads to the end of real topics give exactly the written records."""

import asyncio
from collections.abc import Iterable

import pytest

from controlplane.core.entry import Entry
from controlplane.logs.kafka.cluster import Cluster
from controlplane.logs.kafka.limits import ReadLimits
from controlplane.logs.kafka.protocol.metadata import ClusterLayout
from controlplane.logs.kafka.reads.reader import KafkaReader
from controlplane.logs.log import LogNotUsable
from tests.kafka.producer import (
    ONE_BATCH,
    NewTopic,
    delete_topic,
    read_entries,
    reading,
    send_raw,
    settled,
    writer,
)
from tests.kafka.real_kafka import CLUSTER_ID, Broker
from tests.kafka.topic_histories import COMPACTED_SOON, compacted, removed
from tests.logs.reading_contract import by_position
from tests.logs.test_kafka_reader import batch, checked
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.java, pytest.mark.broker]

SURVIVORS = 10
"""Limit of records in a compacted topic of five keys: one per key, and uncompacted ones."""

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


async def test_an_empty_topic_has_ends_and_starts_of_0(reader: KafkaReader, topic: str) -> None:
    """A topic without entries has ends and starts of 0."""
    assert await read_entries(reader, [topic]) == []
    assert await reader.ends([topic]) == {topic: [0, 0, 0]}
    assert await reader.starts([topic]) == {topic: [0, 0, 0]}


async def test_ends_from_leaders_need_no_new_metadata(
    broker: Broker, reader: KafkaReader, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ends grow with the log without new metadata requests; a deleted topic is noticed."""
    monkeypatch.setattr("controlplane.logs.kafka.reads.reader.LAYOUT_S", PATIENCE_S)
    topic, leaders, lookups = await new_topic(2), Cluster.leaders, list[object]()

    async def counted(cluster: Cluster, topics: Iterable[str]) -> ClusterLayout:
        lookups.append(topics)
        return await leaders(cluster, topics)

    async with writer(broker) as out:
        await out.put(topic, 1, b"k", b"v")  # the leader of the new topic answers by now
        await reader.ends_from_leaders([topic])
        with monkeypatch.context() as patch:
            patch.setattr(Cluster, "leaders", counted)
            for number in range(1, 4):
                assert await reader.ends_from_leaders([topic]) == {topic: [0, number]}
                await out.put(topic, 1, b"k", b"v")
    assert lookups == []
    assert await reader.ends_from_leaders([topic]) == await reader.ends([topic])
    await delete_topic(broker, topic)
    with pytest.raises(LogNotUsable, match="does not exist"):
        await _until_refused(reader, topic)


async def _until_refused(reader: KafkaReader, topic: str) -> None:
    """Read the ends until they fail: the broker learns of a deletion after the controller."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            await reader.ends_from_leaders([topic])
            await asyncio.sleep(0.01)


async def test_topics_are_listed_and_never_made(reader: KafkaReader, topic: str) -> None:
    """A request for a missing topic does not create it, even if the broker would."""
    assert (await reader.check([f"{topic}-missing"])) != []
    topics = await reader.topics()
    assert topics[topic] == 3
    assert f"{topic}-missing" not in topics


async def test_every_field_of_a_record_is_read_as_written(
    broker: Broker, reader: KafkaReader, new_topic: NewTopic
) -> None:
    """Null and empty keys and values, repeated headers and own timestamps are read as written."""
    topic = await new_topic(2, cleanup__policy="delete")  # a compacted one refuses null keys
    async with writer(broker) as out:
        await out.put_nothing(topic, 0)
        await out.put(topic, 0, b"", b"")
        await out.put(topic, 0, b"\xff\x00", "∅".encode(), timestamp=1)
        await out.put(topic, 1, b"k", None, headers=(("a", b"1"), ("a", None), ("é", b"")))
        await out.put(topic, 1, b"k", b"v" * 100_000)
    assert await read_entries(reader, [topic]) == by_position(out.written)


@pytest.mark.parametrize("codec", CODECS)
async def test_every_codec_is_read(broker: Broker, topic: str, codec: str) -> None:
    """Batches of one and of many records are read with each codec, also step by step."""
    async with writer(broker, codec=None if codec == "none" else codec) as out:
        async with asyncio.TaskGroup() as together:
            for number in range(300):
                value = b"{" + b"x" * (number % 50) + b"}"
                together.create_task(out.put(topic, number % 3, b"key-%d" % number, value))
        await out.put(topic, 0, b"last", None)
    for limits in (ReadLimits(), ONE_BATCH):
        async with reading(broker.bootstrap, limits=limits) as reader:
            assert await read_entries(reader, [topic]) == by_position(out.written)


async def test_one_read_covers_many_partitions_and_topics(
    broker: Broker, reader: KafkaReader, new_topic: NewTopic
) -> None:
    """One read covers 25 partitions of a topic and one of another."""
    wide, narrow = await new_topic(25), await new_topic(1)
    async with writer(broker) as out, asyncio.TaskGroup() as together:
        for number in range(500):
            at = (wide, number % 25) if number % 10 else (narrow, 0)
            together.create_task(out.put(*at, b"%d" % number, b"v"))
    assert await read_entries(reader, [wide, narrow]) == by_position(out.written)


async def _interleaved(broker: Broker, topic: str) -> list[Entry]:
    """Three transactional producers take turns; returns the entries that a reader must find."""
    ids = [f"{topic}-{name}" for name in "abc"]
    expected: list[Entry] = []
    async with (
        writer(broker, transactional_id=ids[0]) as a,
        writer(broker, transactional_id=ids[1]) as b,
        writer(broker, transactional_id=ids[2]) as c,
    ):
        for turn in range(6):
            for out in (a, b, c):
                await out.producer.begin_transaction()
            for step in range(4):
                for out in (a, b, c):
                    await out.put(topic, step % 3, b"%d" % turn, b"%d" % step)
            for number, out in enumerate((c, a, b)):
                expected += await out.end(commit=(turn + number) % 2 == 0)
    await settled(broker, *ids)
    return by_position(expected)


async def test_records_of_aborted_transactions_are_marked(broker: Broker, topic: str) -> None:
    """Records of aborted transactions are marked; markers are not returned."""
    expected = await _interleaved(broker, topic)
    assert len({entry.aborted for entry in expected}) == 2
    for limits in (ReadLimits(), ONE_BATCH):
        async with reading(broker.bootstrap, limits=limits) as reader:
            assert await read_entries(reader, [topic]) == expected


async def test_a_read_may_begin_and_end_within_a_transaction(
    broker: Broker, reader: KafkaReader, topic: str
) -> None:
    """A read may begin and end anywhere, also within a transaction."""
    expected = [entry for entry in await _interleaved(broker, topic) if entry.partition == 0]
    end = (await reader.ends([topic]))[topic]
    for start, stop in [(0, 5), (1, 2), (3, end[0]), (7, 7), (10, 25), (end[0] - 1, end[0])]:
        part = await read_entries(
            reader, [topic], {topic: [start, *end[1:]]}, {topic: [stop, *end[1:]]}
        )
        assert part == [entry for entry in expected if start <= entry.offset < stop]


async def test_an_open_transaction_hides_later_records(
    broker: Broker, reader: KafkaReader, topic: str
) -> None:
    """The end is the last stable offset: later records are hidden until all transactions end."""
    async with writer(broker, transactional_id=topic) as out, writer(broker) as other:
        before = await other.put(topic, 0, b"before", b"1")
        await out.producer.begin_transaction()
        await out.put(topic, 0, b"open", b"2")
        behind = await other.put(topic, 0, b"behind", b"3")
        assert await reader.ends([topic]) == {topic: [1, 0, 0]}
        assert await read_entries(reader, [topic]) == [before]
        decided = await out.end(commit=False)
    await settled(broker, topic)
    assert await read_entries(reader, [topic]) == [before, *decided, behind]


async def test_read_uncommitted_reads_on(broker: Broker, topic: str) -> None:
    """Open records are read, as by a worker without exactly-once; known aborts are marked."""
    async with (
        reading(broker.bootstrap, isolation="read_uncommitted") as reader,
        writer(broker, transactional_id=topic) as out,
    ):
        await out.producer.begin_transaction()
        await out.put(topic, 0, b"aborted", b"1")
        aborted = await out.end(commit=False)
        await out.producer.begin_transaction()
        still_open = await out.put(topic, 0, b"open", b"2")
        assert await reader.ends([topic]) == {topic: [still_open.offset + 1, 0, 0]}
        assert await read_entries(reader, [topic]) == [*aborted, still_open]


async def test_a_read_jumps_gaps_of_compaction(
    broker: Broker, reader: KafkaReader, new_topic: NewTopic
) -> None:
    """A read jumps gaps of compaction and returns each key with its last value."""
    topic = await new_topic(1, **COMPACTED_SOON)
    async with writer(broker) as out:
        for number in range(50):
            await out.put(topic, 0, b"key-%d" % (number % 5), b"%d" % number)

        async def few_are_left() -> bool:
            return len(await read_entries(reader, [topic])) <= SURVIVORS

        await compacted(lambda: out.put(topic, 0, b"key-0", b"%d" % len(out.written)), few_are_left)
    entries = await read_entries(reader, [topic])
    assert entries[-1].offset == len(out.written) - 1
    assert set(entries) <= set(out.written)
    assert {e.key: e.value for e in entries} == {e.key: e.value for e in out.written}


async def test_deleted_records_are_a_gap(
    broker: Broker, reader: KafkaReader, new_topic: NewTopic
) -> None:
    """Reading from a removed offset starts at the beginning of the log."""
    topic = await new_topic(1, cleanup__policy="delete")
    async with writer(broker) as out:
        for number in range(10):
            await out.put(topic, 0, b"k", b"%d" % number)
    await removed(broker, topic, 0, 7)
    assert await reader.starts([topic]) == {topic: [7]}
    assert await read_entries(reader, [topic], {topic: [2]}) == out.written[7:]


async def test_a_partition_without_records_ends_a_read_at_once(
    broker: Broker, reader: KafkaReader, new_topic: NewTopic
) -> None:
    """A read of a partition without records ends at once."""
    topic = await new_topic(1, cleanup__policy="delete")
    async with writer(broker) as out:
        await out.put(topic, 0, b"k", b"v")
    await removed(broker, topic, 0, 1)
    assert await read_entries(reader, [topic]) == []


async def test_records_may_have_the_time_of_the_broker(
    broker: Broker, reader: KafkaReader, new_topic: NewTopic
) -> None:
    """Each record of a batch has the broker's time with LogAppendTime."""
    topic = await new_topic(1, message__timestamp__type="LogAppendTime")
    async with writer(broker) as out:
        written = await out.put(topic, 0, b"k", b"v", timestamp=5)
    (entry,) = await read_entries(reader, [topic])
    assert entry.timestamp == written.timestamp > 5


async def test_a_header_name_may_be_any_bytes(
    broker: Broker, reader: KafkaReader, new_topic: NewTopic
) -> None:
    """A header name may be any bytes, as brokers accept; it stops no read."""
    topic = await new_topic()
    named = batch(0, b"a", b"b", headers=(("AB", b"1"),)).replace(b"AB", b"\xffB")
    await send_raw(broker, topic, checked(bytearray(named)))
    entries = await read_entries(reader, [topic])
    assert [entry.value for entry in entries] == [b"a", b"b"]
    assert {entry.headers for entry in entries} == {(("\ufffdB", b"1"),)}


async def test_the_cluster_id_is_that_of_the_storage(reader: KafkaReader) -> None:
    """The cluster id is that of the broker's formatted storage."""
    assert reader.cluster_id == CLUSTER_ID


async def test_a_position_behind_the_end_is_refused(reader: KafkaReader, topic: str) -> None:
    """A position behind the end is refused: the topic was recreated, or is another one."""
    with pytest.raises(LogNotUsable, match="recreated"):
        await read_entries(reader, [topic], {topic: [1, 0, 0]})
