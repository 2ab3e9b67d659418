"""A policy that has become stricter holds for connectors that were accepted before (KIP-458)."""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from controlplane import Refusal
from controlplane.connect import Sink, Source, key
from controlplane.connect.source import SourceRun
from controlplane.core.commands import (
    AlterOffsets,
    CreateConnector,
    OffsetChange,
    ResetOffsets,
    StopConnector,
)
from controlplane.core.context import DecisionSettings
from controlplane.logs.memory import MemoryLog
from controlplane.plane import Settings
from controlplane.worker.worker import ConnectWorker
from tests.rest.served_history import client_of
from tests.worker.worker_fixture import (
    QUICK,
    config_of,
    connector_status,
    running,
    task_trace,
    until_state,
)


class RestingOverrides(Source):
    """Source that never has a record."""

    config = (key("topic", default="t"),)
    exactly_once = True

    def read(self, task: SourceRun) -> Iterator[Any]:
        """Yield no record, and never end."""
        while True:
            yield task.idle(1)


class Dropping(Sink):
    """Sink that keeps nothing."""

    def put(self, *_: Any) -> None:
        """Keep none of the records."""


SOURCE = config_of(RestingOverrides)
SINK = config_of(Dropping, topics="t")
DEAD_LETTERS = {"errors.deadletterqueue.topic.name": "dead"}
OWN_OFFSETS = {"offsets.storage.topic": "own"}
CREATION = {
    "topic.creation.default.partitions": "1",
    "topic.creation.default.replication.factor": "1",
}
PRODUCER = {"producer.override.linger.ms": "5"}
CONSUMER = {"consumer.override.group.id": "ours"}
ADMIN = {"admin.override.request.timeout.ms": "9000"}


def words(policy: str, name: str, value: str) -> str:
    """Kafka's message for one forbidden setting."""
    error = (
        f"The '{policy}' policy does not allow '{name}' to be overridden in the connector "
        "configuration."
    )
    return f"Client Config Overrides not allowed [[{name},{value},[],[{error}],true]]"


LINGER = words("None", "linger.ms", "5")
GROUP = words("None", "group.id", "ours")
TIMEOUT = words("None", "request.timeout.ms", "9000")


def settings_of(policy: str, release: str = "kip", *, exactly_once: bool = False) -> Settings:
    """Settings of a worker with this policy."""
    worker = DecisionSettings(override_policy=policy, exactly_once_source=exactly_once)
    return Settings(profile=release, worker=worker, exactly_once=exactly_once)


@asynccontextmanager
async def reopened(
    config: Mapping[str, str],
    policy: str,
    release: str = "kip",
    *,
    exactly_once: bool = False,
    stopped: bool = False,
) -> AsyncIterator[ConnectWorker]:
    """Run a connector under the policy All; then open a worker with `policy` on its log."""
    log, classes = MemoryLog(), (RestingOverrides, Dropping)
    runtime = msgspec.structs.replace(QUICK, exactly_once=exactly_once)
    before = settings_of("All", release, exactly_once=exactly_once)
    async with running(*classes, log=log, settings=before, runtime=runtime) as worker:
        await worker.plane.execute(CreateConnector("c", dict(config)))
        await until_state(worker, "c", "RUNNING", "RUNNING")
        if stopped:
            await worker.plane.execute(StopConnector("c"))
            await until_state(worker, "c", "STOPPED")
    after = settings_of(policy, release, exactly_once=exactly_once)
    async with running(*classes, log=log, settings=after, runtime=runtime) as worker:
        yield worker


@pytest.mark.parametrize(
    ("config", "trace"),
    [
        pytest.param(SINK | CONSUMER, GROUP, id="sink"),
        pytest.param(SINK | DEAD_LETTERS | PRODUCER, LINGER, id="dead-letters"),
        pytest.param(SINK | DEAD_LETTERS | ADMIN, TIMEOUT, id="topic-of-dead-letters"),
        pytest.param(SOURCE | CREATION | ADMIN, TIMEOUT, id="topic-creation"),
    ],
)
async def test_a_forbidden_override_fails_the_task(config: dict[str, str], trace: str) -> None:
    """The connector runs, and its task is FAILED with Kafka's message."""
    async with reopened(config, "None") as worker:
        await until_state(worker, "c", "RUNNING", "FAILED")
        assert trace in task_trace(worker, "c")


@pytest.mark.parametrize(
    ("config", "exactly_once", "trace"),
    [
        pytest.param(SOURCE | PRODUCER, False, LINGER, id="producer"),
        pytest.param(SOURCE | OWN_OFFSETS | CONSUMER, False, GROUP, id="own-offsets"),
        pytest.param(SOURCE | OWN_OFFSETS | ADMIN, False, TIMEOUT, id="topic-of-own-offsets"),
        pytest.param(SOURCE | CONSUMER, True, GROUP, id="exactly-once"),
    ],
)
async def test_a_forbidden_override_fails_the_source(
    config: dict[str, str], exactly_once: bool, trace: str
) -> None:
    """The connector reads offsets with its clients (KIP-618), so it is FAILED like its task."""
    async with reopened(config, "None", exactly_once=exactly_once) as worker:
        await until_state(worker, "c", "FAILED", "FAILED")
        status = connector_status(worker, "c")
        assert status is not None
        assert trace in (status.trace or "")
        assert trace in task_trace(worker, "c")


async def test_an_older_release_fails_the_task_of_a_source_only() -> None:
    """Before KIP-618 a connector has no clients."""
    async with reopened(SOURCE | PRODUCER, "None", "3.2") as worker:
        await until_state(worker, "c", "RUNNING", "FAILED")
        assert LINGER in task_trace(worker, "c")


@pytest.mark.parametrize(
    ("config", "policy"),
    [
        pytest.param(SINK | PRODUCER | ADMIN, "None", id="sink"),
        pytest.param(SOURCE | CONSUMER | ADMIN, "None", id="source"),
        pytest.param(SINK | CONSUMER, "All", id="all"),
        pytest.param(
            SINK | {"consumer.override.security.protocol": "PLAINTEXT"}, "Principal", id="login"
        ),
    ],
)
async def test_other_overrides_run(config: dict[str, str], policy: str) -> None:
    """Overrides of unused clients, and those that the policy allows, fail nothing."""
    async with reopened(config, policy) as worker:
        await until_state(worker, "c", "RUNNING", "RUNNING")
        # Its task has been started anew: a stale status would have been UNASSIGNED.
        assert task_trace(worker, "c") == ""


async def test_principal_names_each_forbidden_setting() -> None:
    """Only the forbidden settings are named, in the order of Java's map."""
    login = {"consumer.override.sasl.mechanism": "PLAIN"}
    config = SINK | CONSUMER | login | {"consumer.override.client.id": "me"}
    async with reopened(config, "Principal") as worker:
        await until_state(worker, "c", "RUNNING", "FAILED")
        trace = task_trace(worker, "c")
    start, end = "Client Config Overrides not allowed [", "]"
    entries = [
        words("Principal", name, value).removeprefix(start).removesuffix(end)
        for name, value in (("group.id", "ours"), ("client.id", "me"))
    ]
    assert f"{start}{', '.join(entries)}{end}" in trace
    assert "sasl" not in trace


async def test_a_secret_is_hidden() -> None:
    """A forbidden password appears in no trace."""
    config = SINK | {"consumer.override.sasl.jaas.config": "password='s3cret-word';"}
    async with reopened(config, "None") as worker:
        await until_state(worker, "c", "RUNNING", "FAILED")
        trace = task_trace(worker, "c")
    assert "'sasl.jaas.config'" in trace
    assert "s3cret" not in trace


# --- commands -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "change", "sentence"),
    [
        pytest.param(
            SINK | CONSUMER,
            OffsetChange({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 0}),
            GROUP,
            id="sink",
        ),
        pytest.param(
            SINK | ADMIN,
            OffsetChange({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 0}),
            TIMEOUT,
            id="admin",
        ),
        pytest.param(SOURCE | PRODUCER, OffsetChange({"a": 1}, {"b": 2}), LINGER, id="source"),
    ],
)
async def test_offsets_are_not_changed(
    config: dict[str, str], change: OffsetChange, sentence: str
) -> None:
    """Alter and reset are refused with Kafka's message."""
    async with reopened(config, "None", stopped=True) as worker:
        for command in (AlterOffsets("c", (change,)), ResetOffsets("c")):
            with pytest.raises(Refusal) as refused:
                await worker.plane.execute(command)
            assert str(refused.value) == sentence


@pytest.mark.parametrize("release", ["kip", "3.9.1"])
@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        pytest.param(SINK | CONSUMER, GROUP, id="sink"),
        pytest.param(SOURCE | PRODUCER, LINGER, id="source"),
        pytest.param(SOURCE | OWN_OFFSETS | CONSUMER, GROUP, id="own-offsets"),
    ],
)
async def test_offsets_are_not_read(config: dict[str, str], sentence: str, release: str) -> None:
    """The endpoint answers 500 with Kafka's message; the policy does not apply to `as_of=`."""
    async with (
        reopened(config, "None", release) as worker,
        client_of(worker.plane.app) as client,
    ):
        answer = await client.get("/connectors/c/offsets")
        past = await client.get("/connectors/c/offsets?as_of=config@0")
    assert answer.status_code == 500
    assert answer.json()["message"] == sentence
    assert "Overrides" not in past.text
    assert past.status_code == (
        500 if config["connector.class"] == SINK["connector.class"] else 200
    )


async def test_offsets_without_forbidden_overrides_are_read() -> None:
    """Overrides of unused clients refuse nothing."""
    async with (
        reopened(SOURCE | CONSUMER | ADMIN, "None") as worker,
        client_of(worker.plane.app) as client,
    ):
        answer = await client.get("/connectors/c/offsets")
    assert answer.status_code == 200


@pytest.mark.parametrize("config", [SOURCE, SINK])
async def test_offsets_of_a_missing_class_are_not_read(config: dict[str, str]) -> None:
    """A worker makes the connector before it reads: 500 with Kafka's words."""
    log = MemoryLog()
    async with running(RestingOverrides, Dropping, log=log) as worker:
        await worker.plane.execute(CreateConnector("c", config))
        await until_state(worker, "c", "RUNNING", "RUNNING")
    async with running(log=log) as worker, client_of(worker.plane.app) as client:
        answer = await client.get("/connectors/c/offsets")
        unknown = await client.get("/connectors/d/offsets")
    assert answer.status_code == 500
    words = "Failed to find any class that implements Connector and which name matches "
    assert answer.json()["message"].startswith(words + config["connector.class"])
    assert unknown.status_code == 404
