"""No task writes records to the topics with the state of the control plane."""

from collections.abc import Mapping
from typing import Any, cast

import pytest

from controlplane.connect import SourceRecord
from controlplane.connect.transforms import ConnectRecord, Transformation, replaced
from controlplane.core.commands import CreateConnector
from controlplane.core.context import DecisionSettings
from controlplane.core.state import Topics
from controlplane.core.topic_names import GROUPS_TOPIC
from controlplane.core.topics.remote_offsets import has_other_brokers
from controlplane.plane import Settings
from controlplane.worker.data_topics.clients import OffsetTopics
from controlplane.worker.data_topics.kafka_clients import KafkaClients
from controlplane.worker.worker import ConnectWorker
from tests.worker.failing_records import (
    DEAD_LETTERS,
    TOLERANT,
    KeepingSink,
    Picky,
    create_sink,
    transformed_by,
)
from tests.worker.numbered_records import CountingSource
from tests.worker.test_exactly_once import EXACTLY_ONCE, SETTINGS
from tests.worker.worker_fixture import (
    config_of,
    entries_in,
    offsets,
    produce,
    running,
    task_trace,
    until_state,
    until_values,
)

NAMES = Topics()
STATE_TOPICS = [NAMES.config, NAMES.offsets, NAMES.status, NAMES.commands, GROUPS_TOPIC]


def refusal(connector: str, topic: str) -> str:
    """Error of a task that would write records to a state topic."""
    return (
        f"Connector {connector} cannot write records to topic {topic}, which has the state of the "
        "control plane: choose another topic"
    )


async def written_by_tasks(worker: ConnectWorker, topic: str) -> list[bytes | None]:
    """Values in a topic that come from a `CountingSource` or from a dead letter."""
    if topic not in await worker.plane.log.topics():
        return []
    values = [entry.value for entry in await entries_in(worker.plane.log, topic)]
    return [value for value in values if value in {b"1", b"2", b"3", b"bad"}]


@pytest.mark.parametrize("topic", STATE_TOPICS)
async def test_a_source_cannot_write_state(topic: str) -> None:
    """The task is FAILED, although it tolerates errors of records; no record is written."""
    async with running(CountingSource) as worker:
        config = config_of(CountingSource, topic=topic) | TOLERANT
        await worker.plane.execute(CreateConnector("c", config))
        await until_state(worker, "c", "RUNNING", "FAILED")
        assert refusal("c", topic) in task_trace(worker, "c")
        assert await written_by_tasks(worker, topic) == []
        assert offsets(worker, "c") == {}


async def test_a_transaction_cannot_write_state() -> None:
    """A task with exactly-once support fails, too."""
    async with running(CountingSource, runtime=EXACTLY_ONCE, settings=SETTINGS) as worker:
        config = config_of(CountingSource, topic=NAMES.config)
        await worker.plane.execute(CreateConnector("c", config))
        await until_state(worker, "c", "RUNNING", "FAILED")
        assert refusal("c", NAMES.config) in task_trace(worker, "c")
        assert await written_by_tasks(worker, NAMES.config) == []


class ToStatuses(Transformation):
    """Routes record 2 to the status topic."""

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        """Change the topic of record 2."""
        assert isinstance(record, SourceRecord)
        return replaced(record, topic=NAMES.status) if record.value == "2" else record


async def test_a_transformation_cannot_route_records_to_state() -> None:
    """The worker checks the topic that a record has after its transformations."""
    async with running(CountingSource, others=[ToStatuses]) as worker:
        config = config_of(CountingSource, topic="t") | transformed_by(ToStatuses)
        await worker.plane.execute(CreateConnector("c", config))
        await until_state(worker, "c", "RUNNING", "FAILED")
        assert refusal("c", NAMES.status) in task_trace(worker, "c")
        assert await written_by_tasks(worker, NAMES.status) == []


async def test_renamed_topics_count() -> None:
    """A worker's settings name its state topics; other names are free for records."""
    renamed = Settings(topics=Topics(config="ours"))
    async with running(CountingSource, settings=renamed) as worker:
        await worker.plane.execute(CreateConnector("c", config_of(CountingSource, topic="ours")))
        await until_state(worker, "c", "RUNNING", "FAILED")
        config = config_of(CountingSource, topic=NAMES.config)
        await worker.plane.execute(CreateConnector("d", config))
        await until_values(worker.plane.log, NAMES.config, [b"1", b"2", b"3"])


@pytest.mark.parametrize("topic", STATE_TOPICS)
async def test_a_dead_letter_queue_cannot_be_a_state_topic(topic: str) -> None:
    """The task of the sink is FAILED at its start, before a record fails."""
    async with running(KeepingSink, others=[Picky]) as worker:
        await produce(worker.plane.log, "t", "bad")
        letters = DEAD_LETTERS | {"errors.deadletterqueue.topic.name": topic}
        await create_sink(worker, KeepingSink, **transformed_by(Picky), **letters)
        await until_state(worker, "s", "RUNNING", "FAILED")
        assert refusal("s", topic) in task_trace(worker, "s")
        assert await written_by_tasks(worker, topic) == []


OWN = "broker:9092"


class _Offsets:
    """Place of the offsets topics: on the brokers of the records, or in another log."""

    def __init__(self, *, on_brokers: bool) -> None:
        self.on_brokers = on_brokers


@pytest.mark.parametrize(
    ("config", "on_brokers", "refuses"),
    [
        ({}, True, True),
        ({"producer.override.bootstrap.servers": OWN}, True, True),
        ({"producer.override.bootstrap.servers": "elsewhere:9092"}, True, False),
        ({}, False, False),
    ],
)
async def test_topics_of_another_cluster_are_free(
    config: Mapping[str, str], *, on_brokers: bool, refuses: bool
) -> None:
    """On brokers without the control plane's log, the names of its topics mean nothing."""
    settings = Settings(worker=DecisionSettings(bootstrap_servers=OWN))
    async with running(CountingSource, settings=settings) as worker:
        places = cast(OffsetTopics, _Offsets(on_brokers=on_brokers))
        clients = KafkaClients(cast(Any, None), places, worker.plane)
        assert clients.state_topics(config) == ({*STATE_TOPICS[:4]} if refuses else set())
    assert has_other_brokers(config, settings.worker) == ("elsewhere:9092" in config.values())
