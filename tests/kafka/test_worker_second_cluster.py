"""Connectors whose records lie on another cluster, behind TLS and a login."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from controlplane.core.commands import (
    AlterOffsets,
    CreateConnector,
    OffsetChange,
    ResetOffsets,
    ResumeConnector,
    StopConnector,
)
from controlplane.core.state import Topics
from controlplane.worker.worker import ConnectWorker
from tests.kafka.broker_worker import worker_on
from tests.kafka.conftest import NEWEST, RELEASES, unused_name, up
from tests.kafka.consumers import groups_of
from tests.kafka.producer import reading
from tests.kafka.real_kafka import USERS, Broker
from tests.kafka.worker_service import until as until_true
from tests.kafka.worker_service import values_in
from tests.worker.failing_records import KeepingSink, Picky, forget_records, put, transformed_by
from tests.worker.numbered_records import CountingSource
from tests.worker.worker_fixture import config_of, offsets, task_trace, until, until_state

pytestmark = [pytest.mark.java, pytest.mark.broker, NEWEST]

CLIENTS = ("producer", "consumer", "admin")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Broker]:
    """Second cluster, with a SASL_SSL listener beside the plain one."""
    folder = tmp_path_factory.mktemp("elsewhere")
    async with up(RELEASES[0], folder, listeners=("SASL_SSL",)) as broker:
        yield broker


def access_to(broker: Broker, password: str = USERS["alice"]) -> dict[str, str]:
    """Settings of a client that logs in as alice, over TLS."""
    login = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    return {
        "bootstrap.servers": broker.address("SASL_SSL"),
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(broker.certificates.authority),
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": f'{login} username="alice" password="{password}";',
    }


def prefixed(middle: str, access: dict[str, str]) -> dict[str, str]:
    """Client settings under the prefix of each kind of client."""
    return {f"{client}{middle}{key}": text for client in CLIENTS for key, text in access.items()}


def pipeline(name: str) -> dict[str, dict[str, str]]:
    """Configs of a source of a topic and its sink, which refuses only bad records."""
    creation = {
        "topic.creation.default.partitions": "2",
        "topic.creation.default.replication.factor": "1",
    }
    letters = {
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"{name}-letters",
        "errors.deadletterqueue.topic.replication.factor": "1",
    }
    return {
        f"{name}-source": config_of(CountingSource, topic=name) | creation,
        f"{name}-sink": config_of(KeepingSink, topics=name) | transformed_by(Picky) | letters,
    }


async def until_delivered(worker: ConnectWorker, name: str) -> None:
    """Wait until all records have gone through the topic, and the source's offset is committed."""
    await until(lambda: sorted(put.get(f"{name}-sink", ())) == ["1", "2", "3"])
    committed = {"{'source': 'numbers'}": {"at": 3}}
    await until(lambda: offsets(worker, f"{name}-source") == committed)


async def check_only_elsewhere(home: Broker, elsewhere: Broker, name: str) -> None:
    """Check that topics and group are on the second cluster only."""
    topics = {name: 2, f"{name}-letters": 1}
    async with reading(elsewhere.bootstrap) as far_reader, reading(home.bootstrap) as home_reader:
        partition_counts = await far_reader.topics()
        assert {topic: partition_counts.get(topic) for topic in topics} == topics
        assert not {*topics} & {*await home_reader.topics()}
    group = f"connect-{name}-sink"
    async with groups_of(elsewhere.bootstrap) as theirs, groups_of(home.bootstrap) as ours:

        async def committed() -> bool:
            return sum((await theirs.committed(group)).values()) == 3

        await until_true(committed)
        assert not await ours.committed(group)


@pytest.mark.parametrize("settings_of", ["connector", "worker"])
async def test_records_and_groups_lie_on_the_other_cluster(
    broker: Broker, own_topics: Topics, elsewhere: Broker, settings_of: str
) -> None:
    """The second cluster has records, dead letters and group; the first has the source offsets."""
    forget_records()
    name, access = unused_name(), access_to(elsewhere)
    overrides = prefixed(".override.", access) if settings_of == "connector" else {}
    settings: dict[str, Any] = prefixed(".", access) if settings_of == "worker" else {}
    classes = (CountingSource, KeepingSink)
    async with worker_on(broker, own_topics, *classes, others=[Picky], **settings) as worker:
        for connector, config in pipeline(name).items():
            await worker.plane.execute(CreateConnector(connector, config | overrides))
        await until_delivered(worker, name)
        await check_only_elsewhere(broker, elsewhere, name)
    assert await values_in(elsewhere, name)


async def test_a_source_continues_from_altered_offsets(
    broker: Broker, own_topics: Topics, elsewhere: Broker
) -> None:
    """After an alteration the source repeats a record there; after a reset the sink reads all."""
    forget_records()
    name = unused_name()
    source, sink = f"{name}-source", f"{name}-sink"
    overrides = prefixed(".override.", access_to(elsewhere))
    classes = (CountingSource, KeepingSink)
    async with worker_on(broker, own_topics, *classes, others=[Picky]) as worker:
        for connector, config in pipeline(name).items():
            await worker.plane.execute(CreateConnector(connector, config | overrides))
        await until_delivered(worker, name)
        for connector in (source, sink):
            await worker.plane.execute(StopConnector(connector))
            await until_state(worker, connector, "STOPPED")
        change = OffsetChange({"source": "numbers"}, {"at": 2})
        await worker.plane.execute(AlterOffsets(source, (change,)))
        await worker.plane.execute(ResetOffsets(sink))
        put[sink].clear()
        for connector in (source, sink):
            await worker.plane.execute(ResumeConnector(connector))
        await until(lambda: sorted(put[sink]) == ["1", "2", "3", "3"])
    assert sorted(await values_in(elsewhere, name)) == ["1", "2", "3", "3"]


async def test_a_relative_path_survives_a_change_of_the_directory(
    broker: Broker,
    own_topics: Topics,
    elsewhere: Broker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A relative path of a trust store still fits after a change of the directory."""
    forget_records()
    name, authority = unused_name(), elsewhere.certificates.authority
    access = access_to(elsewhere) | {"ssl.truststore.location": authority.name}
    overrides = prefixed(".override.", access)
    monkeypatch.chdir(authority.parent)
    classes = (CountingSource, KeepingSink)
    async with worker_on(broker, own_topics, *classes, others=[Picky]) as worker:
        monkeypatch.chdir(tmp_path)
        for connector, config in pipeline(name).items():
            await worker.plane.execute(CreateConnector(connector, config | overrides))
        await until_delivered(worker, name)


async def test_a_wrong_password_fails_the_task(
    broker: Broker, own_topics: Topics, elsewhere: Broker
) -> None:
    """The trace says that the brokers refuse the login, and has no password."""
    forget_records()
    name = unused_name()
    overrides = prefixed(".override.", access_to(elsewhere, "not-hers"))
    async with worker_on(broker, own_topics, CountingSource, KeepingSink) as worker:
        for connector, config in pipeline(name).items():
            plain = {key: text for key, text in config.items() if "transforms" not in key}
            await worker.plane.execute(CreateConnector(connector, plain | overrides))
            await until_state(worker, connector, "RUNNING", "FAILED")
            trace = task_trace(worker, connector)
            assert "refuses the name or the password" in trace
            assert "not-hers" not in trace
