"""Producers of sources on a broker: topic creation, settings, refusals, fencing."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import msgspec
import pytest
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from controlplane.connect import Source, key
from controlplane.connect.source import SourceRun
from controlplane.core.commands import CreateConnector, StopConnector
from controlplane.core.plan import Draft
from controlplane.core.state import Topics
from controlplane.logs.log import Record
from controlplane.worker.data_topics.clients import ProducerFenced, ProducerRecord
from controlplane.worker.data_topics.kafka_producer import FENCED, RecordPlacer
from controlplane.worker.task_identity import TaskIdentity
from tests.kafka.broker_worker import worker_on
from tests.kafka.conftest import NEWEST, unused_name
from tests.kafka.producer import admin, create_topic, reading, writer
from tests.kafka.real_kafka import Broker
from tests.kafka.worker_service import records_in, until_values, values_in
from tests.kafka.worker_service import until as until_true
from tests.worker.numbered_records import CountingSource
from tests.worker.worker_fixture import (
    QUICK,
    RecordedNotices,
    config_of,
    offsets,
    task_trace,
    until,
    until_state,
)

pytestmark = [pytest.mark.java, pytest.mark.broker]


class Spreading(Source):
    """Yields a record for each topic of its config, with a value of the configured size."""

    config = (key("topics.out"), key("sizes", default="1"))

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Yield one record for each topic and size."""
        number = 0
        for topic in task.config["topics.out"].split(","):
            for size in task.config["sizes"].split(","):
                number += 1
                value = str(number) * int(size)
                yield task.record(value, {"p": 1}, {"at": number}, topic=topic)
        while True:
            yield task.idle(0.01)


YIELD = f"{__file__}:{Spreading.read.__code__.co_firstlineno + 7}"
"""File and line of the `yield`."""

exactly_once = partial(worker_on, exactly__once__source__support="enabled")
"""Open a worker that supports exactly-once delivery."""


async def until_offset(worker: Any, name: str, at: int) -> None:
    """Wait until a Spreading source has committed this number of records."""
    await until(lambda: offsets(worker, name) == {"{'p': 1}": {"at": at}})


# --- topics (KIP-158) -----------------------------------------------------------------------------


async def partitions_of(broker: Broker, *topics: str) -> list[int]:
    """Number of partitions of each topic."""
    async with reading(broker.bootstrap) as reader:
        counts = await reader.topics()
    return [counts[topic] for topic in topics]


@NEWEST
async def test_topics_are_created_by_group(broker: Broker, own_topics: Topics) -> None:
    """The first group whose patterns match a topic gives its partitions and configs."""
    name = unused_name()
    fast, slow, other = (f"{name}-{kind}" for kind in ("fast", "fast-not", "other"))
    config = config_of(Spreading) | {
        "topics.out": f"{fast},{slow},{other}",
        "topic.creation.default.partitions": "2",
        "topic.creation.default.replication.factor": "-1",
        "topic.creation.groups": "quick",
        "topic.creation.quick.include": f"{name}-fast.*",
        "topic.creation.quick.exclude": ".*-not",
        "topic.creation.quick.partitions": "5",
        "topic.creation.quick.retention.ms": "12345",
    }
    async with worker_on(broker, own_topics, Spreading) as worker:
        await worker.plane.execute(CreateConnector("s", config))
        await until_offset(worker, "s", 3)
    assert await partitions_of(broker, fast, slow, other) == [5, 2, 2]
    async with admin(broker) as client:
        described = await client.describe_configs([ConfigResource(ConfigResourceType.TOPIC, fast)])
        configs = {name: value for name, value, *_ in described[0].resources[0][4]}
    assert configs["retention.ms"] == "12345"


@NEWEST
async def test_state_topics_get_no_records(broker: Broker, own_topics: Topics) -> None:
    """A task that would write to the topic of configs is FAILED; the topic has no such record."""
    async with worker_on(broker, own_topics, Spreading) as worker:
        config = config_of(Spreading) | {"topics.out": own_topics.config}
        await worker.plane.execute(CreateConnector("s", config))
        await until_state(worker, "s", "RUNNING", "FAILED")
        refusal = f"Connector s cannot write records to topic {own_topics.config}, which has"
        assert refusal in task_trace(worker, "s")
        assert "1" not in await values_in(broker, own_topics.config)


@NEWEST
async def test_without_creation_the_brokers_create(broker: Broker, own_topics: Topics) -> None:
    """With `topic.creation.enable=false` the brokers' default applies."""
    name = unused_name()
    config = config_of(Spreading) | {
        "topics.out": name,
        "topic.creation.default.partitions": "2",
        "topic.creation.default.replication.factor": "1",
    }
    async with worker_on(broker, own_topics, Spreading, topic__creation__enable="false") as worker:
        await worker.plane.execute(CreateConnector("s", config))
        await until_offset(worker, "s", 1)
    assert await partitions_of(broker, name) == [1]


@NEWEST
async def test_a_refused_topic_fails_the_task(broker: Broker, own_topics: Topics) -> None:
    """More replicas than brokers: the trace has Kafka's words and the topic."""
    name = unused_name()
    config = config_of(Spreading) | {
        "topics.out": name,
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "3",
        "errors.tolerance": "all",
    }
    async with worker_on(broker, own_topics, Spreading) as worker:
        await worker.plane.execute(CreateConnector("s", config))
        await until_state(worker, "s", "RUNNING", "FAILED")
        trace = task_trace(worker, "s")
        assert f"Error while attempting to create/find topic(s) '{name}'" in trace


@NEWEST
async def test_an_own_offsets_topic_is_created_and_read(broker: Broker, own_topics: Topics) -> None:
    """The topic has the worker's number of partitions and the offsets; a restart reads them."""
    name = unused_name()
    config = config_of(CountingSource, topic=name) | {"offsets.storage.topic": f"{name}-own"}
    async with worker_on(broker, own_topics, CountingSource) as worker:
        await worker.plane.execute(CreateConnector("s", config))
        await until(lambda: offsets(worker, "s") == {"{'source': 'numbers'}": {"at": 3}})
    assert await partitions_of(broker, f"{name}-own") == [5]
    assert await records_in(broker, f"{name}-own")
    async with worker_on(broker, own_topics, CountingSource) as worker:
        await until_state(worker, "s", "RUNNING", "RUNNING")
        assert offsets(worker, "s") == {"{'source': 'numbers'}": {"at": 3}}
    assert await values_in(broker, name) == ["1", "2", "3"]


@NEWEST
async def test_a_blocked_offsets_topic_delays_no_other_task(
    broker: Broker, own_topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that cannot write its offsets waits alone; the others commit."""
    name, held = unused_name(), asyncio.Event()
    placed = RecordPlacer.placed_offset

    async def holding(placer: RecordPlacer, draft: Draft) -> Record:
        if draft.topic == f"{name}-own":
            held.set()
            await asyncio.Event().wait()
        return await placed(placer, draft)

    monkeypatch.setattr(RecordPlacer, "placed_offset", holding)
    config = config_of(CountingSource, topic=name)
    rarely = msgspec.structs.replace(QUICK, offset_flush_timeout_ms=60_000)
    async with worker_on(broker, own_topics, CountingSource, limits=rarely) as worker:
        own = {"offsets.storage.topic": f"{name}-own"}
        await worker.plane.execute(CreateConnector("held", config | own))
        await until(held.is_set)
        await worker.plane.execute(CreateConnector("s", config))
        await until(lambda: offsets(worker, "s") == {"{'source': 'numbers'}": {"at": 3}})
        assert offsets(worker, "held") == {}


# --- settings -------------------------------------------------------------------------------------


@NEWEST
async def test_overrides_reach_the_producer(broker: Broker, own_topics: Topics) -> None:
    """The connector's `max.request.size` wins over the worker's in its producer."""
    config = config_of(Spreading) | {
        "topics.out": unused_name(),
        "sizes": "30",
        "producer.override.max.request.size": "20",
        "producer.override.compression.type": "gzip",
        "producer.override.linger.ms": "5",
    }
    async with worker_on(
        broker, own_topics, Spreading, producer__max__request__size=1_000
    ) as worker:
        await worker.plane.execute(CreateConnector("s", config))
        await until_state(worker, "s", "RUNNING", "FAILED")
        assert "larger than 20, which is the value of the max.request.size" in task_trace(
            worker, "s"
        )


@NEWEST
async def test_settings_without_effect_are_named(broker: Broker, own_topics: Topics) -> None:
    """One warning per task names the ignored keys of connector and worker."""
    notices = RecordedNotices()
    config = config_of(CountingSource, topic=unused_name()) | {
        "producer.override.linger.ms": "1",
        "producer.override.receive.buffer.bytes": "1024",
    }
    async with worker_on(
        broker,
        own_topics,
        CountingSource,
        notices=notices,
        producer__send__buffer__bytes=1_024,
    ) as worker:
        await worker.plane.execute(CreateConnector("s", config))
        await until_state(worker, "s", "RUNNING", "RUNNING")
    keys = "producer.override.receive.buffer.bytes, producer.send.buffer.bytes"
    warned = notices.of("client_settings_without_effect")
    assert warned == [{"task": "s-0", "settings": keys}]


# --- refusals -------------------------------------------------------------------------------------


@NEWEST
@pytest.mark.parametrize("tolerance", ["none", "all"])
async def test_a_record_that_the_broker_refuses_fails_the_task_or_is_dropped(
    broker: Broker, own_topics: Topics, tolerance: str
) -> None:
    """The refused record fails the task, or is dropped alone; the others arrive in order."""
    name = unused_name()
    await create_topic(broker, name, 1, cleanup__policy="delete", max__message__bytes=300)
    config = config_of(Spreading) | {
        "topics.out": name,
        "sizes": "1,1,900,1,1",
        "errors.tolerance": tolerance,
    }
    async with worker_on(broker, own_topics, Spreading) as worker:
        await worker.plane.execute(CreateConnector("s", config))
        if tolerance == "none":
            await until_state(worker, "s", "RUNNING", "FAILED")
            trace = task_trace(worker, "s")
            assert "Unrecoverable exception from producer send callback" in trace
            assert trace.endswith(f"The record comes from {YIELD}")
            return
        await until_offset(worker, "s", 5)
    assert await values_in(broker, name) == ["1", "2", "4", "5"]


@NEWEST
async def test_a_transaction_names_the_yield_of_its_refused_record(
    broker: Broker, own_topics: Topics
) -> None:
    """One of a transaction's records exceeds `max.request.size`: the trace names its `yield`."""
    config = config_of(Spreading) | {"topics.out": unused_name(), "sizes": "1,2000000"}
    async with exactly_once(broker, own_topics, Spreading) as worker:
        await worker.plane.execute(CreateConnector("s", config))
        await until_state(worker, "s", "RUNNING", "FAILED")
        trace = task_trace(worker, "s")
    assert trace.endswith(f"max.request.size configuration.\nThe record comes from {YIELD}")


# --- exactly once ---------------------------------------------------------------------------------


@NEWEST
async def test_a_newer_producer_fences_the_older(broker: Broker, own_topics: Topics) -> None:
    """The old producer's transaction is refused with Kafka's message, and leaves no record."""
    name, task = unused_name(), TaskIdentity("s", 0)
    await create_topic(broker, name, 1, cleanup__policy="delete")
    async with exactly_once(broker, own_topics, CountingSource) as worker:
        opened = worker.clients.transactional_producer
        async with opened(task, {}) as zombie, opened(task, {}) as newer:
            with pytest.raises(ProducerFenced) as fenced:
                await zombie.transact([ProducerRecord(name, None, b"zombie")], [])
            await newer.transact([ProducerRecord(name, None, b"newer")], [])
    assert str(fenced.value) == FENCED
    await until_values(broker, name, ["newer"])  # the marker follows the commit


@NEWEST
async def test_transactional_ids_equal_javas(broker: Broker, own_topics: Topics) -> None:
    """A producer with a Java worker's id for the task fences it: the task fails."""
    name = unused_name()
    async with exactly_once(broker, own_topics, CountingSource) as worker:
        config = config_of(CountingSource, topic=name, count="1000000")
        await worker.plane.execute(CreateConnector("s", config))
        await until(lambda: offsets(worker, "s"))
        async with writer(broker, transactional_id=f"{own_topics.config}-s-0"):
            await until_state(worker, "s", "RUNNING", "FAILED")
        assert "There is a newer producer with the same transactionalId" in task_trace(worker, "s")
        await worker.plane.execute(StopConnector("s"))
        await until_state(worker, "s", "STOPPED")
        committed = offsets(worker, "s")["{'source': 'numbers'}"]["at"]

    async def counted() -> bool:
        return await values_in(broker, name) == [str(at + 1) for at in range(committed)]

    await until_true(counted)
