"""Sinks that consume from a broker: groups, rebalances, offsets, dead letters."""

import pytest

from controlplane.core.commands import (
    AlterOffsets,
    CreateConnector,
    OffsetChange,
    PauseConnector,
    PutConfig,
    ResetOffsets,
    ResumeConnector,
    StopConnector,
)
from controlplane.core.state import Topics
from controlplane.worker.worker import ConnectWorker
from tests.kafka.broker_worker import worker_on
from tests.kafka.conftest import NEWEST, unused_name
from tests.kafka.consumers import groups_of, has_committed, java_consumer
from tests.kafka.producer import create_topic, produce, reading, writer
from tests.kafka.real_kafka import Broker
from tests.kafka.worker_service import until as until_true
from tests.worker.failing_records import KeepingSink, Picky, forget_records, put, transformed_by
from tests.worker.worker_fixture import (
    RecordedNotices,
    config_of,
    task_trace,
    until,
    until_state,
)

pytestmark = [pytest.mark.java, pytest.mark.broker]


def sink(topic: str, **settings: str) -> dict[str, str]:
    """Config of a sink with a group of its own: groups outlive the test."""
    group = {"consumer.override.group.id": f"group-{topic}"}
    return config_of(KeepingSink) | {"topics": topic} | group | settings


@pytest.fixture(autouse=True)
def _empty() -> None:
    forget_records()


async def sink_topic(broker: Broker, partitions: int = 1) -> str:
    """Create a topic for data, which is not compacted."""
    name = unused_name()
    await create_topic(broker, name, partitions, cleanup__policy="delete")
    return name


async def until_committed(worker: ConnectWorker, group: str, *offsets: int) -> None:
    """Wait until a group has committed these offsets, by partition."""

    async def committed() -> bool:
        listed = await worker.cluster.actions.group_offsets(group)
        return [offset for *_, offset in sorted(listed)] == [*offsets]

    await until_true(committed)


@NEWEST
async def test_offsets_are_altered_and_reset_while_stopped(
    broker: Broker, own_topics: Topics
) -> None:
    """The group on the broker has the altered offset; the sink continues from there."""
    topic = await sink_topic(broker)
    await produce(broker, topic, "a", "b", "c")
    async with worker_on(broker, own_topics, KeepingSink) as worker:
        plane = worker.plane
        await plane.execute(CreateConnector("s", sink(topic)))
        await until(lambda: put.get("s") == ["a", "b", "c"])
        await until_committed(worker, f"group-{topic}", 3)
        await plane.execute(StopConnector("s"))
        await until_state(worker, "s", "STOPPED")
        place = {"kafka_topic": topic, "kafka_partition": 0}
        change = OffsetChange(place, {"kafka_offset": 1})
        await plane.execute(AlterOffsets("s", (change,)))
        await plane.execute(ResumeConnector("s"))
        await until(lambda: put["s"] == ["a", "b", "c", "b", "c"])
        await plane.execute(StopConnector("s"))
        await until_state(worker, "s", "STOPPED")
        await plane.execute(ResetOffsets("s"))
        await plane.execute(ResumeConnector("s"))
        await until(lambda: put["s"] == ["a", "b", "c", "b", "c", "a", "b", "c"])


@NEWEST
async def test_a_stricter_policy_keeps_a_sink_out_of_its_group(
    broker: Broker, own_topics: Topics
) -> None:
    """The task with a forbidden group fails, and consumes nothing (KIP-458)."""
    topic = await sink_topic(broker)
    async with worker_on(broker, own_topics, KeepingSink) as worker:
        await worker.plane.execute(CreateConnector("s", sink(topic)))
        await until_state(worker, "s", "RUNNING", "RUNNING")
    await produce(broker, topic, "a")
    async with worker_on(
        broker, own_topics, KeepingSink, connector__client__config__override__policy="None"
    ) as worker:
        await until_state(worker, "s", "RUNNING", "FAILED")
        group = f"[group.id,group-{topic},[],[The 'None' policy does not allow"
        assert f"Client Config Overrides not allowed [{group}" in task_trace(worker, "s")
        assert not put.get("s")


@NEWEST
async def test_a_sink_joins_a_group_of_java_consumers(broker: Broker, own_topics: Topics) -> None:
    """The sink shares the partitions with Java consumers: all use the range assignor."""
    topic = await sink_topic(broker, 2)
    group = f"group-{topic}"
    consumer = java_consumer(broker, topic, group)
    consumer.start()
    try:
        async with (
            worker_on(broker, own_topics, KeepingSink) as worker,
            groups_of(broker.bootstrap) as groups,
        ):
            await produce(broker, topic, "a", "b", partitions=2)
            await has_committed(groups, group)  # it is a member, and has both partitions
            await worker.plane.execute(CreateConnector("s", sink(topic)))

            async def shared() -> bool:
                await produce(broker, topic, "c", "d", partitions=2)
                return bool(put.get("s"))

            await until_true(shared)
            assert task_trace(worker, "s") == ""
    finally:
        await consumer.end()


@NEWEST
async def test_tasks_share_the_partitions_and_rebalance(broker: Broker, own_topics: Topics) -> None:
    """Two tasks get each record once, and so do three after a change of `tasks.max`."""
    topic = await sink_topic(broker, 4)
    config = sink(topic) | {"tasks.max": "2"}
    async with worker_on(broker, own_topics, KeepingSink) as worker:
        await worker.plane.execute(CreateConnector("s", config))
        await until_state(worker, "s", "RUNNING", "RUNNING", "RUNNING")
        await produce(broker, topic, *map(str, range(8)), partitions=4)
        await until(lambda: sorted(put["s"]) == sorted(map(str, range(8))))
        await until_committed(worker, f"group-{topic}", 2, 2, 2, 2)
        await worker.plane.execute(PutConfig("s", config | {"tasks.max": "3"}))
        await until_state(worker, "s", "RUNNING", "RUNNING", "RUNNING", "RUNNING")
        await produce(broker, topic, *map(str, range(8, 16)), partitions=4)
        await until(lambda: sorted(put["s"]) == sorted(map(str, range(16))))


@NEWEST
async def test_a_paused_sink_stays_in_its_group(broker: Broker, own_topics: Topics) -> None:
    """The paused sink gets nothing while others join the group, and continues when resumed."""
    topic = await sink_topic(broker, 2)
    config = sink(topic)
    async with worker_on(broker, own_topics, KeepingSink) as worker:
        await worker.plane.execute(CreateConnector("s", config))
        await until_state(worker, "s", "RUNNING", "RUNNING")
        await worker.plane.execute(PauseConnector("s"))
        await until_state(worker, "s", "PAUSED", "PAUSED")
        await worker.plane.execute(CreateConnector("other", config))
        await produce(broker, topic, "a", "b", partitions=2)
        await until(lambda: len(put.get("other", ())) == 1)  # its share: one partition
        assert put["s"] == []
        await worker.plane.execute(ResumeConnector("s"))
        await until(lambda: sorted(put["s"] + put["other"]) == ["a", "b"])


@NEWEST
async def test_a_pattern_selects_whole_names(broker: Broker, own_topics: Topics) -> None:
    """`topics.regex` matches the whole name of a topic, in Java's syntax."""
    topic = await sink_topic(broker)
    await create_topic(broker, f"{topic}-longer", 1, cleanup__policy="delete")
    await produce(broker, f"{topic}-longer", "not")
    await produce(broker, topic, "yes")
    config = sink(topic) | {"topics.regex": rf"\Q{topic}\E"}
    del config["topics"]
    async with worker_on(broker, own_topics, KeepingSink) as worker:
        await worker.plane.execute(CreateConnector("s", config))
        await until_committed(worker, f"group-{topic}", 1)
    assert put["s"] == ["yes"]


@NEWEST
async def test_isolation_is_the_consumers(broker: Broker, own_topics: Topics) -> None:
    """A sink reads uncommitted records, as Connect's does, unless its consumer overrides it."""
    topic = await sink_topic(broker)
    async with writer(broker, transactional_id=unused_name()) as out:
        for commit in (False, True):
            await out.producer.begin_transaction()
            await out.put(topic, 0, None, b"committed" if commit else b"aborted")
            await out.end(commit=commit)
    override = {
        "consumer.override.isolation.level": "read_committed",
        "consumer.override.group.id": f"other-{topic}",
    }
    async with worker_on(broker, own_topics, KeepingSink) as worker:
        await worker.plane.execute(CreateConnector("all", sink(topic)))
        await worker.plane.execute(CreateConnector("some", sink(topic) | override))
        await until(lambda: put.get("all") == ["aborted", "committed"])
        await until(lambda: put.get("some") == ["committed"])


@NEWEST
async def test_offset_reset_none_fails_the_task(broker: Broker, own_topics: Topics) -> None:
    """Without an offset, `auto.offset.reset=none` fails the task with Kafka's message."""
    topic = await sink_topic(broker)
    override = {"consumer.override.auto.offset.reset": "none"}
    async with worker_on(broker, own_topics, KeepingSink) as worker:
        await worker.plane.execute(CreateConnector("s", sink(topic) | override))
        await until_state(worker, "s", "RUNNING", "FAILED")
        assert "Undefined offset with no reset policy" in task_trace(worker, "s")


@NEWEST
async def test_bad_records_go_to_the_dead_letter_topic(broker: Broker, own_topics: Topics) -> None:
    """A bad record is in the dead-letter topic, which the task has created."""
    topic = await sink_topic(broker)
    letters = f"{topic}-letters"
    await produce(broker, topic, "good", "bad", "also good")
    config = sink(topic) | {
        **transformed_by(Picky),
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": letters,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    async with worker_on(broker, own_topics, KeepingSink, others=[Picky]) as worker:
        await worker.plane.execute(CreateConnector("s", config))
        await until(lambda: put.get("s") == ["good", "also good"])
        await until_committed(worker, f"group-{topic}", 3)
    async with reading(broker.bootstrap) as reader:
        entries = [entry async for batch in reader.read([letters]) for entry in batch.entries()]
    (letter,) = entries
    assert letter.value == b"bad"
    assert dict(letter.headers)["__connect.errors.topic"] == topic.encode()


@NEWEST
async def test_dead_letters_with_too_many_replicas_fail_the_task(
    broker: Broker, own_topics: Topics
) -> None:
    """Three replicas, the default, fail the task on one broker with Kafka's message."""
    topic = await sink_topic(broker)
    config = sink(topic) | {
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"{topic}-letters",
    }
    async with worker_on(broker, own_topics, KeepingSink) as worker:
        await worker.plane.execute(CreateConnector("s", config))
        await until_state(worker, "s", "RUNNING", "FAILED")
        words = f"Could not initialize dead letter queue with topic={topic}-letters"
        assert words in task_trace(worker, "s")


@NEWEST
async def test_settings_without_effect_are_named(broker: Broker, own_topics: Topics) -> None:
    """One warning names the consumer settings that the worker ignores; the task runs."""
    topic = await sink_topic(broker)
    notices = RecordedNotices()
    config = sink(topic) | {"consumer.override.receive.buffer.bytes": "1"}
    async with worker_on(broker, own_topics, KeepingSink, notices=notices) as worker:
        await worker.plane.execute(CreateConnector("s", config))
        await until_state(worker, "s", "RUNNING", "RUNNING")
    keys = "consumer.override.receive.buffer.bytes"
    warned = notices.of("client_settings_without_effect")
    assert warned == [{"task": "s-0", "settings": keys}]


@NEWEST
async def test_a_restarted_worker_continues(broker: Broker, own_topics: Topics) -> None:
    """A restarted worker continues after the committed offset."""
    topic = await sink_topic(broker)
    await produce(broker, topic, "a")
    async with worker_on(broker, own_topics, KeepingSink) as worker:
        await worker.plane.execute(CreateConnector("s", sink(topic)))
        await until_committed(worker, f"group-{topic}", 1)
    forget_records()
    async with worker_on(broker, own_topics, KeepingSink) as worker:
        await produce(broker, topic, "b")
        await until_committed(worker, f"group-{topic}", 2)
    assert put["s"] == ["b"]
