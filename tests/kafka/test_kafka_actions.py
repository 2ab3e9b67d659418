"""Control plane whose sinks have real consumer groups: offsets are set, altered and reset."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio

from controlplane.controller.external import ExternalActionFailed
from controlplane.controller.kafka_actions import KafkaActions
from controlplane.core.commands import (
    AlterOffsets,
    CreateConnector,
    OffsetChange,
    ResetOffsets,
    StopConnector,
)
from controlplane.core.plan import AlterGroup, DeleteGroup, FenceProducers, RestartInstances
from controlplane.core.records import Target
from controlplane.logs.kafka.connector_clusters import ConnectorClusters
from controlplane.plane import ControlPlane, Refusal
from controlplane.settings import Configuration, SourcedValue, ValueSource
from controlplane.settings.providers import Providers
from controlplane.worker.config_resolver import ConfigResolver
from controlplane.worker.connector_classes import ConnectorClasses
from controlplane.worker.external_actions import WorkerActions
from tests.controller.scene import plane_on
from tests.kafka.conftest import unused_name
from tests.kafka.consumers import consuming, groups_of
from tests.kafka.producer import writer
from tests.kafka.real_kafka import USERS, Broker
from tests.ports import free_ports

pytestmark = [pytest.mark.java, pytest.mark.broker]

SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
ENVIRONMENT = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
IMPATIENT = {"reader__admin__patience__ms": "500"}
"""Settings for requests that fail: this limit is too short for a success on a busy machine."""


def configuration(settings: dict[str, str]) -> Configuration:
    """Settings of a worker, as from its file."""
    file = ValueSource("file", "worker.properties", 1)
    return Configuration({key: SourcedValue(value, file) for key, value in settings.items()})


@asynccontextmanager
async def actions_on(bootstrap: str, **settings: str) -> AsyncIterator[KafkaActions]:
    """Actions as in a worker of a cluster; `__` in a setting's name is a dot."""
    dotted = {key.replace("__", "."): value for key, value in settings.items()}
    clusters = ConnectorClusters(bootstrap, configuration(dotted))
    try:
        yield KafkaActions(clusters)
    finally:
        await clusters.close()


@pytest_asyncio.fixture
async def plane(broker: Broker) -> AsyncIterator[ControlPlane]:
    """Control plane beside the shared broker, with its own log in memory."""
    async with (
        actions_on(broker.bootstrap) as outside,
        plane_on("memory:", outside=outside) as opened,
    ):
        yield opened


def sink_offset(topic: str, partition: int, offset: int | None) -> OffsetChange:
    """A change of a sink's offset; None removes it."""
    where = {"kafka_topic": topic, "kafka_partition": partition}
    return OffsetChange(where, None if offset is None else {"kafka_offset": offset})


async def test_the_group_follows_the_commands_of_a_sink(
    plane: ControlPlane, broker: Broker, topic: str
) -> None:
    """The group follows the commands of a sink: a creation with offsets, then each change twice."""
    name = unused_name()
    first = (sink_offset(topic, 0, 5), sink_offset(topic, 1, 6))
    config = {"connector.class": SINK, "topics": topic}
    await plane.execute(
        CreateConnector(name, config, initial_offsets=first, initial_state=Target.STOPPED)
    )
    assert await plane.group_offsets(name) == ((topic, 0, 5), (topic, 1, 6))
    change = AlterOffsets(name, (sink_offset(topic, 0, 9), sink_offset(topic, 1, None)))
    for _ in range(2):
        await plane.execute(change)
        assert await plane.group_offsets(name) == ((topic, 0, 9),)
    for _ in range(2):
        await plane.execute(ResetOffsets(name))
        assert await plane.group_offsets(name) == ()


async def test_a_group_that_is_still_active_refuses_in_kafkas_words(
    plane: ControlPlane, broker: Broker, topic: str
) -> None:
    """The refusals are Kafka's, word for word; once the group is empty, the commands succeed."""
    name = unused_name()
    await plane.execute(CreateConnector(name, {"connector.class": SINK, "topics": topic}))
    await plane.execute(StopConnector(name))
    alter = AlterOffsets(name, (sink_offset(topic, 0, 1),))
    async with consuming(broker, topic, f"connect-{name}"):
        for command, verb in ((alter, "alter"), (ResetOffsets(name), "reset")):
            with pytest.raises(Refusal) as caught:
                await plane.execute(command)
            assert str(caught.value) == (
                f"Failed to {verb} consumer group offsets for connector {name} either because its "
                "tasks haven't stopped completely yet or the connector was resumed before the "
                f"request to {verb} its offsets could be successfully completed. If the connector "
                "is in a stopped state, this operation can be safely retried. If it doesn't "
                "eventually succeed, the Connect cluster may need to be restarted to get rid of "
                "the zombie sink tasks."
            )
    await plane.execute(alter)
    await plane.execute(ResetOffsets(name))


async def test_an_unknown_partition_is_refused_alone(plane: ControlPlane, topic: str) -> None:
    """The error is Kafka's with the reason; the valid part is applied, as by a worker."""
    name = unused_name()
    await plane.execute(CreateConnector(name, {"connector.class": SINK, "topics": topic}))
    await plane.execute(StopConnector(name))
    alter = AlterOffsets(name, (sink_offset(topic, 0, 1), sink_offset(topic, 77, 1)))
    words = rf"^Failed to alter consumer group offsets for connector {name}: .*{topic}-77 .*code 3"
    with pytest.raises(Refusal, match=words):
        await plane.execute(alter)
    assert await plane.group_offsets(name) == ((topic, 0, 1),)


async def test_overrides_select_the_cluster(broker: Broker, topic: str) -> None:
    """The worker's `admin.*` win over its keys without a prefix.

    The connector's `admin.override.*` win over both.
    """
    (nowhere,) = free_ports(1)
    dead, group = f"127.0.0.1:{nowhere}", unused_name()
    override = {"bootstrap.servers": broker.bootstrap}
    async with groups_of(broker.bootstrap) as groups:
        await groups.commit(group, {(topic, 0): 4})
    async with actions_on(dead) as outside:
        assert await outside.group_offsets(group, override) == ((topic, 0, 4),)
    async with actions_on(dead, **IMPATIENT) as outside:
        with pytest.raises(ExternalActionFailed, match=f"no broker listens at {dead}"):
            await outside.group_offsets(group)
    admin = {"admin__bootstrap__servers": broker.bootstrap}
    async with actions_on(dead, **admin) as outside:
        assert await outside.group_offsets(group) == ((topic, 0, 4),)
    async with actions_on(dead, **admin, **IMPATIENT) as outside:
        with pytest.raises(ExternalActionFailed, match=f"no broker listens at {dead}"):
            await outside.group_offsets(group, {"bootstrap.servers": dead})
    async with actions_on("", bootstrap__servers=broker.bootstrap) as outside:
        assert await outside.group_offsets(group) == ((topic, 0, 4),)


async def test_an_override_may_use_another_login(broker: Broker, topic: str) -> None:
    """An override may use another login; wrong logins and settings give one sentence."""
    group = unused_name()
    async with groups_of(broker.bootstrap) as groups:
        await groups.commit(group, {(topic, 0): 4})
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    secured = {
        "bootstrap.servers": broker.address("SASL_PLAINTEXT"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
    }

    def of(user: str, password: str) -> dict[str, str]:
        return secured | {"sasl.jaas.config": f'{login} username="{user}" password="{password}";'}

    async with actions_on(broker.bootstrap) as outside:
        alice = of("alice", USERS["alice"])
        assert await outside.group_offsets(group, alice) == ((topic, 0, 4),)
        for overrides, words in (
            (of("alice", "wrong"), "refuses the name or the password"),
            (of("bob", USERS["bob"]), f"allow this user DESCRIBE on group {group}"),
            (secured, "sasl.jaas.config names no username"),
            ({"security.protocol": "TLS"}, r"admin\.override\.\*.* security\.protocol"),
        ):
            with pytest.raises(ExternalActionFailed, match=words):
                await outside.group_offsets(group, overrides)
    async with actions_on(broker.bootstrap, **IMPATIENT) as outside:
        with pytest.raises(ExternalActionFailed, match="does not resolve"):
            await outside.group_offsets(group, {"bootstrap.servers": "nobody"})


async def test_a_worker_resolves_the_login_of_an_override(broker: Broker, topic: str) -> None:
    """Plans contain the reference; the worker's actions use its value and do not show it."""
    name, group = unused_name(), unused_name()
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    overrides = {
        "bootstrap.servers": broker.address("SASL_PLAINTEXT"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{login} username="alice" password="${{env:PASSWORD}}";',
    }
    for password, is_right in ((USERS["alice"], True), ("s3cret", False)):
        resolver = ConfigResolver(Providers({"env": ENVIRONMENT}, {"PASSWORD": password}))
        limits = {} if is_right else IMPATIENT
        async with actions_on(broker.bootstrap, **limits) as clients:
            outside = WorkerActions(clients, resolver, ConnectorClasses())
            if is_right:
                await outside.perform(AlterGroup(name, group, ((topic, 0, 5),), (), overrides))
                assert await outside.group_offsets(group, overrides) == ((topic, 0, 5),)
                ends = await outside.log_ends([(topic, 0)], overrides)
                assert ends[topic, 0].offset == 0
                await outside.perform(DeleteGroup(name, group, overrides))
                assert await outside.group_offsets(group, overrides) == ()
                continue
            with pytest.raises(ExternalActionFailed, match="refuses the name or the password"):
                await outside.group_offsets(group, overrides)
            nowhere = {"bootstrap.servers": "${env:PASSWORD}:9092"}
            words = r"\[hidden\]:9092 does not resolve"
            with pytest.raises(ExternalActionFailed, match=words) as failure:
                await outside.group_offsets(group, nowhere)
            assert password not in str(failure.value)


async def test_actions_can_be_repeated(broker: Broker, topic: str) -> None:
    """Each action succeeds again; restarts of tasks that run elsewhere do nothing."""
    name, transactional_id = unused_name(), unused_name()
    group = f"connect-{name}"
    async with (
        writer(broker, transactional_id=transactional_id),
        actions_on(broker.bootstrap) as outside,
    ):
        for _ in range(2):
            await outside.perform(
                AlterGroup(name, group, ((topic, 0, 5),), ((topic, 1),), {"client.id": "x"})
            )
            assert await outside.group_offsets(group) == ((topic, 0, 5),)
        for _ in range(2):
            await outside.perform(AlterGroup(name, group, (), ((topic, 0),)))
        for action in (
            DeleteGroup(name, group),
            FenceProducers(name, (transactional_id, unused_name())),
            RestartInstances(name, (None, 0)),
        ):
            await outside.perform(action)
            await outside.perform(action)
        ends = await outside.log_ends([(topic, 0)])
        assert ends[topic, 0].offset == 0
