"""Writes of a source's offsets under the claim of their process, and after another one's claim."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio

from controlplane.core.commands import CreateConnector
from controlplane.core.entry import Entry, Position
from controlplane.core.plan import Draft
from controlplane.core.state import Topics
from controlplane.logs.kafka.connector_clusters import ConnectorClusters
from controlplane.logs.kafka.log import KafkaLog
from controlplane.logs.log import Fenced, LogUnavailable, Record
from controlplane.logs.log_factory import open_kafka_log
from controlplane.plane import ControlPlane
from controlplane.plane_settings import plane_settings, with_brokers
from controlplane.settings import Configuration
from controlplane.settings.sources import flag_values
from controlplane.worker.data_topics import kafka_offsets
from controlplane.worker.data_topics.clients import OffsetWriter, ProducerFailure, ProducerFenced
from controlplane.worker.data_topics.kafka_clients import BrokerCluster
from tests.kafka.claimed_logs import Send, committed, interrupt
from tests.kafka.own_service import own_settings
from tests.kafka.producer import NewTopic, writer
from tests.kafka.real_kafka import Broker

pytestmark = [pytest.mark.java, pytest.mark.broker]

FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
PARTITIONS = 5
KEYS = 12
"""Keys of offsets. They lie in all partitions of the worker's offsets topic."""


@pytest.fixture
def configuration(own_topics: Topics) -> Configuration:
    """Settings of all processes of a test."""
    texts = own_settings(own_topics)
    return Configuration(flag_values((key, key, text) for key, text in texts.items()))


@asynccontextmanager
async def _opened(broker: Broker, configuration: Configuration) -> AsyncIterator[KafkaLog]:
    log = await open_kafka_log(f"kafka://{broker.bootstrap}", configuration)
    try:
        yield log
    finally:
        await log.close()


@pytest_asyncio.fixture
async def plane(broker: Broker, configuration: Configuration) -> AsyncIterator[ControlPlane]:
    """Control plane of a process that will hang."""
    settings = with_brokers(plane_settings(configuration, on_kafka=True), broker.bootstrap)
    async with (
        _opened(broker, configuration) as log,
        ControlPlane.open(log, settings) as plane,
    ):
        yield plane


@pytest_asyncio.fixture
async def offset_writer(
    broker: Broker, configuration: Configuration, plane: ControlPlane
) -> AsyncIterator[OffsetWriter]:
    """Writer of the offsets of a task that runs under this control plane."""
    clusters = ConnectorClusters(broker.bootstrap, configuration)
    try:
        async with (
            BrokerCluster(broker.bootstrap, configuration, clusters).clients(plane) as clients,
            clients.offsets.writer() as opened,
        ):
            yield opened
    finally:
        await clusters.close()


@pytest_asyncio.fixture
async def successor(
    broker: Broker, configuration: Configuration, plane: ControlPlane
) -> AsyncIterator[KafkaLog]:
    """Log of a process that takes over."""
    del plane  # it has created the topics
    async with _opened(broker, configuration) as log:
        yield log


def _offsets(topic: str, count: int) -> list[Draft]:
    """Ascending offsets of `KEYS` source partitions."""
    return [
        Draft(topic, f'["source",{{"part":{number % KEYS}}}]'.encode(), b'{"n":%d}' % number)
        for number in range(count)
    ]


async def _values(log: KafkaLog, topic: str) -> dict[bytes, list[int]]:
    """Offsets of each key, in their order."""
    values: dict[bytes, list[int]] = {}
    for entry in sorted(await committed(log, topic), key=_place):
        values.setdefault(entry.key or b"", []).append(json.loads(entry.value or b"")["n"])
    return values


def _place(entry: Entry) -> tuple[int, int]:
    return entry.partition, entry.offset


async def test_a_process_that_hangs_before_its_append_appends_nothing(
    plane: ControlPlane, offset_writer: OffsetWriter, successor: KafkaLog
) -> None:
    """Another process claims the log after the check, and just before the append."""
    topic = plane.state.topics.offsets
    await offset_writer.write_offsets(_offsets(topic, KEYS))
    before = await _values(successor, topic)
    with pytest.MonkeyPatch.context() as patch:

        async def claimed_first(send: Send) -> Any:
            await successor.claim()
            return await send()

        interrupt(patch, claimed_first)
        with pytest.raises(ProducerFenced):
            await offset_writer.write_offsets(_offsets(topic, 2 * KEYS))
    with pytest.raises(ProducerFenced):
        await offset_writer.write_offsets(_offsets(topic, 1))
    assert await _values(successor, topic) == before
    assert isinstance(await plane.trouble(), Fenced)


@pytest.mark.parametrize("has_own_topic", [False, True])
async def test_a_claim_before_the_check_is_noticed(
    offset_writer: OffsetWriter,
    plane: ControlPlane,
    successor: KafkaLog,
    new_topic: NewTopic,
    has_own_topic: bool,
) -> None:
    """No offset is sent, not even to a connector's own topic, which the claim does not include."""
    topic = await new_topic(PARTITIONS) if has_own_topic else plane.state.topics.offsets
    await offset_writer.write_offsets(_offsets(topic, 1))
    await successor.claim()
    with pytest.raises(ProducerFenced):
        await offset_writer.write_offsets(_offsets(topic, 2))
    assert [*(await _values(successor, topic)).values()] == [[0]]


async def test_a_java_worker_that_claims_the_id_is_noticed(
    broker: Broker, offset_writer: OffsetWriter, plane: ControlPlane, successor: KafkaLog
) -> None:
    """The leader of Java workers claims the same id, but writes no markers to the partitions."""
    topic = plane.state.topics.offsets
    async with writer(broker, transactional_id=f"connect-cluster-{plane.state.topics.config}"):
        with pytest.raises(ProducerFenced):
            await offset_writer.write_offsets(_offsets(topic, KEYS))
    assert await _values(successor, topic) == {}


async def test_a_command_overtakes_a_large_commit(
    plane: ControlPlane, offset_writer: OffsetWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Offsets are appended in turns, and a command waits for one turn; keys keep their order."""
    monkeypatch.setattr(kafka_offsets, "OFFSETS_PER_TURN", 2)
    monkeypatch.setattr(kafka_offsets, "TURNS_MAX", 1_000)
    topic, count = plane.state.topics.offsets, 100 * KEYS
    commit = asyncio.create_task(offset_writer.write_offsets(_offsets(topic, count)))
    await plane.execute(CreateConnector("s", {"connector.class": FILE_SOURCE, "topic": "t"}))
    assert not commit.done()
    await commit
    assert isinstance(plane.log, KafkaLog)
    assert await _values(plane.log, topic) == {
        draft.key: [*range(number, count, KEYS)]
        for number, draft in enumerate(_offsets(topic, KEYS))
    }


async def test_the_turns_of_a_commit_are_limited(
    plane: ControlPlane, offset_writer: OffsetWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A very large commit has larger turns, so that slow brokers finish it in time."""
    monkeypatch.setattr(kafka_offsets, "OFFSETS_PER_TURN", 2)
    append, attempts = KafkaLog.append, list[int]()

    async def noted(
        log: KafkaLog, records: Sequence[Record], epoch: int | None = None
    ) -> Sequence[Position]:
        attempts.append(len(records))
        return await append(log, records, epoch)

    monkeypatch.setattr(KafkaLog, "append", noted)
    count = 100 * KEYS
    await offset_writer.write_offsets(_offsets(plane.state.topics.offsets, count))
    assert sum(attempts) == count
    assert len(attempts) == kafka_offsets.TURNS_MAX * PARTITIONS


async def test_only_the_partitions_that_failed_are_appended_again(
    plane: ControlPlane, offset_writer: OffsetWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partition that is away is tried again; offsets of the others are appended once."""
    append, attempts = KafkaLog.append, list[int]()

    async def unavailable_once(
        log: KafkaLog, records: Sequence[Record], epoch: int | None = None
    ) -> Sequence[Position]:
        attempts.append(records[0].partition)
        if records[0].partition == 2 and attempts.count(2) == 1:
            raise LogUnavailable("no leader")
        return await append(log, records, epoch)

    monkeypatch.setattr(KafkaLog, "append", unavailable_once)
    await offset_writer.write_offsets(_offsets(plane.state.topics.offsets, 2 * KEYS))
    assert sorted(attempts) == [0, 1, 2, 2, 3, 4]
    assert isinstance(plane.log, KafkaLog)
    values = await _values(plane.log, plane.state.topics.offsets)
    assert sorted(values.values()) == [[number, number + KEYS] for number in range(KEYS)]


@pytest.mark.parametrize("per_turn", [100, 2])
async def test_an_offset_that_is_too_large_stops_no_other_one(
    plane: ControlPlane,
    offset_writer: OffsetWriter,
    monkeypatch: pytest.MonkeyPatch,
    per_turn: int,
) -> None:
    """The commit fails, but the other offsets are written, and so is each later commit."""
    monkeypatch.setattr(kafka_offsets, "OFFSETS_PER_TURN", per_turn)
    topic = plane.state.topics.offsets
    drafts = _offsets(topic, 2 * KEYS)
    drafts[KEYS] = Draft(topic, drafts[KEYS].key, bytes(2 << 20))
    with pytest.raises(ProducerFailure, match=r"larger than its max\.message\.bytes"):
        await offset_writer.write_offsets(drafts)
    assert isinstance(plane.log, KafkaLog)
    numbers = [
        number for numbers in (await _values(plane.log, topic)).values() for number in numbers
    ]
    assert sorted(numbers) == [number for number in range(2 * KEYS) if number != KEYS]
    await offset_writer.write_offsets(_offsets(topic, 1))
