"""Batches that are sent without aiokafka's queue: failures, and a producer that is dropped."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka.errors import NodeNotReadyError

from controlplane.core.entry import Position
from controlplane.logs.kafka.appends.idempotent_appends import IdempotentAppends
from controlplane.logs.kafka.appends.producer import KafkaProducer, SendFailed
from controlplane.logs.kafka.appends.record_batches import RecordBatch, record_batches
from controlplane.logs.kafka.cluster import Cluster, addresses
from controlplane.logs.kafka.limits import ReadLimits, WriteLimits
from controlplane.logs.log import LogNotUsable, LogUnavailable
from controlplane.settings.security import KafkaSecurity
from tests.kafka.claimed_logs import put
from tests.kafka.conftest import NEWEST
from tests.kafka.real_kafka import Broker
from tests.kafka.worker_service import until

pytestmark = [pytest.mark.java, pytest.mark.broker, NEWEST]


@asynccontextmanager
async def cluster_of(broker: Broker) -> AsyncIterator[Cluster]:
    """Connections to a broker."""
    cluster = Cluster(addresses(broker.bootstrap), KafkaSecurity(), ReadLimits())
    try:
        yield cluster
    finally:
        await cluster.close()


def batches_in(producer: KafkaProducer, topic: str) -> list[RecordBatch]:
    """One batch of one record."""
    return record_batches([put(topic, "k")], producer.new_builder, None)


def lose_brokers(producer: KafkaProducer) -> None:
    """Let the next requests of a producer fail, and let no metadata request be answered."""
    client = producer._producer.client

    async def fail(*_: Any, **__: Any) -> None:
        client.force_metadata_update()
        raise NodeNotReadyError("away")

    async def wait(*_: Any) -> None:
        await asyncio.Event().wait()

    client.send, client._metadata_update = fail, wait


async def until_queued_again(producer: KafkaProducer) -> None:
    """Wait until a failed batch is in the queue of aiokafka."""

    async def is_queued() -> bool:
        return bool(producer._producer._message_accumulator._batches)

    await until(is_queued)


async def waiting_for_a_leader(
    cluster: Cluster, topic: str
) -> tuple[KafkaProducer, asyncio.Task[list[int | SendFailed]]]:
    """Producer without brokers, and the call whose batch is in its queue for a retry."""
    producer = KafkaProducer(cluster, WriteLimits())
    await producer.start()
    await producer.send(batches_in(producer, topic))
    lose_brokers(producer)
    sending = asyncio.create_task(producer.send_each(batches_in(producer, topic)))
    await until_queued_again(producer)
    return producer, sending


async def test_an_unexpected_failure_replaces_the_producer(broker: Broker, topic: str) -> None:
    """A login without a token fails with an error that aiokafka does not know."""
    async with cluster_of(broker) as cluster:
        appends = IdempotentAppends(cluster, WriteLimits(), None)
        await appends.append([put(topic, "first")])
        assert appends._producer is not None
        client = appends._producer._producer.client
        send = client.send

        async def fail_once(*_: Any, **__: Any) -> None:
            client.send = send
            raise LogNotUsable("there is no token for the login")

        client.send = fail_once
        with pytest.raises(LogUnavailable, match="there is no token"):
            await appends.append([put(topic, "second")])
        assert await appends.append([put(topic, "third")]) == [Position(topic, 0, 1)]
        await appends.decided()
        await appends.close()


async def test_a_drop_ends_a_batch_that_awaits_a_leader(broker: Broker, topic: str) -> None:
    """Another append has failed, so the producer is dropped while this batch waits."""
    async with cluster_of(broker) as cluster:
        producer, sending = await waiting_for_a_leader(cluster, topic)
        await producer.drop()
        (outcome,) = await sending
        assert isinstance(outcome, SendFailed)


async def test_a_cancelled_batch_that_awaits_a_leader_logs_nothing(
    broker: Broker, topic: str
) -> None:
    """The batch is in aiokafka's queue for a retry when the call is cancelled."""
    defects: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: defects.append(context))
    async with cluster_of(broker) as cluster:
        producer, sending = await waiting_for_a_leader(cluster, topic)
        sending.cancel()
        await asyncio.wait([sending])
        await producer.drop()
    assert defects == []
