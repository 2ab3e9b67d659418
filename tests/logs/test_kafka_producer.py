"""The producer on aiokafka, without a broker."""

import asyncio
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from controlplane.logs.kafka.appends.producer import KafkaProducer
from controlplane.logs.kafka.cluster import Cluster, addresses
from controlplane.logs.kafka.limits import ReadLimits, WriteLimits
from controlplane.settings.security import KafkaSecurity

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
