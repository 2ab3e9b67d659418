"""Real broker with the topics of a large Connect cluster at rest."""

import random
from collections.abc import Iterator
from functools import cache

from aiokafka import AIOKafkaProducer

from benchmarks.sample_logs import CONFIG, OFFSETS, PARTITIONS, STATUS, RecordPair, offset
from controlplane.core.topics.partitioner import partition_of
from tests.kafka.producer import create_topic
from tests.kafka.real_kafka import Broker

CONNECTORS = 500
"""Number of connectors in `sample_logs.offset`. All are stopped: a worker has nothing to start."""

_PROPERTIES = (
    b'"connector.class":"org.apache.kafka.connect.file.FileStreamSourceConnector",'
    b'"file":"f","topic":"t","tasks.max":"1"'
)


async def fill(broker: Broker, offsets: int, keys: int) -> None:
    """Create and fill the three topics as Connect does."""
    for topic, partitions in PARTITIONS.items():
        await create_topic(broker, topic, partitions)
    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, linger_ms=20)
    await producer.start()
    chance = random.Random(1)
    await _write(producer, CONFIG, _configs())
    await _write(producer, STATUS, _statuses())
    await _write(
        producer, OFFSETS, (offset(chance, chance.randrange(keys)) for _ in range(offsets))
    )
    await producer.stop()


def _configs() -> Iterator[RecordPair]:
    for number in range(CONNECTORS):
        name = b"connector-%04d" % number
        yield b"connector-" + name, b'{"properties":{%s,"name":"%s"}}' % (_PROPERTIES, name)
        stopped = b'{"state":"PAUSED","state.v2":"STOPPED"}'
        yield b"target-state-" + name, stopped


def _statuses() -> Iterator[RecordPair]:
    for number in range(CONNECTORS):
        stopped = b'{"state":"STOPPED","trace":null,"worker_id":"w:8083","generation":1}'
        yield b"status-connector-connector-%04d" % number, stopped


async def _write(producer: AIOKafkaProducer, topic: str, pairs: Iterator[RecordPair]) -> None:
    """Write in producer-sized batches, to the partitions that Java would choose."""
    place = cache(partition_of)
    batches = {number: producer.create_batch() for number in range(PARTITIONS[topic])}
    for key, value in pairs:
        partition = place(key, PARTITIONS[topic])
        while batches[partition].append(timestamp=None, key=key, value=value) is None:
            await producer.send_batch(batches[partition], topic, partition=partition)
            batches[partition] = producer.create_batch()
    for partition, batch in batches.items():
        if batch.record_count():
            await producer.send_batch(batch, topic, partition=partition)
    await producer.flush()
