"""Catalogues harvested from real workers give the worker's answers about plugins."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from controlplane import ControlPlane
from controlplane.core.state import Topics
from controlplane.observe import silent
from controlplane.plane import Settings, Surroundings
from tests.cli.command_calls import CommandResult, shell
from tests.kafka.live_cluster import CATALOGUE
from tests.kafka.real_kafka import Broker, KafkaWorker, cluster_settings
from tests.oracle.kafka import harness
from tests.rest.served_history import client_of
from tests.validation import class_cases
from tests.validation.answers import WORKER
from tests.validation.cases import (
    CHECKPOINT,
    HEARTBEAT,
    MIRROR,
    SINK,
    SOURCE,
    TRANSFORM,
    ConfigBody,
)

pytestmark = [pytest.mark.java, pytest.mark.broker]

PARTS = ("runtime", "file", "json", "mirror")
OLD = "2.8.2"
"""Release that lists connectors only, and documents settings only when it validates."""

UNDEFINED = "lab.Converters$Undefined"
"""Class without a definition: workers fail on requests about it."""

TRANSFORMED = {
    "transforms": "a,b",
    "transforms.a.type": f"{TRANSFORM}Cast$Value",
    "transforms.b.type": f"{TRANSFORM}ReplaceField$Key",
    "transforms.b.predicate": "p",
    "predicates": "p",
    "predicates.p.type": f"{TRANSFORM}predicates.TopicNameMatches",
}
OVERRIDDEN = {
    "producer.override.linger.ms": "5",
    "producer.override.compression.type": "zstd",
    "consumer.override.max.poll.records": "7",
    "admin.override.retries": "2",
    "topic.creation.default.partitions": "1",
    "errors.deadletterqueue.topic.name": "dead",
}
CONFIGS: tuple[ConfigBody, ...] = (
    *(SOURCE, SINK, MIRROR, CHECKPOINT, HEARTBEAT),
    *(SOURCE | TRANSFORMED, SINK | TRANSFORMED),
    *(SOURCE | OVERRIDDEN, SINK | OVERRIDDEN),
)


async def harvested(worker: KafkaWorker, file: Path, *options: str) -> CommandResult:
    """Run `plugins harvest` as a process."""
    command = ("plugins", "harvest", "--worker", worker.url, "--file", file, *options)
    return await asyncio.to_thread(shell, *command)


def _validate(config: ConfigBody) -> str:
    """Path that validates a config."""
    return f"/connector-plugins/{config['connector.class']}/config/validate"


async def differing(
    worker: KafkaWorker, catalogue: Path, configs: tuple[ConfigBody, ...]
) -> list[str]:
    """Paths whose answers differ from the worker's, compared byte for byte."""
    listed: list[dict[str, str]] = (await worker.rest.get(CATALOGUE)).json()
    paths = [CATALOGUE, "/connector-plugins"]
    if worker.release != OLD:
        names = {plugin["class"]: None for plugin in listed if plugin["class"] != UNDEFINED}
        paths += [f"/connector-plugins/{name}/config" for name in names]
    requests: list[tuple[str, str, Any]] = [("GET", path, None) for path in paths]
    requests += [("PUT", _validate(config), config) for config in configs]
    settings = Settings(profile=worker.release, worker=WORKER, catalogue=str(catalogue))
    around = Surroundings(notices=silent())
    async with (
        ControlPlane.open("memory:", settings, around) as plane,
        client_of(plane.app) as ours,
    ):
        differences = []
        for method, path, body in requests:
            theirs = await worker.rest.request(method, path, json=body)
            own = await ours.request(method, f"/compat/{worker.release}{path}", json=body)
            if (theirs.status_code, theirs.content) != (own.status_code, own.content):
                differences.append(f"{path} {json.dumps(body)}")
        return differences


@pytest.mark.prove
async def test_answers_about_plugins_are_a_workers_to_the_byte(
    broker: Broker, own_topics: Topics, tmp_path: Path
) -> None:
    """Lists, settings and validation of Kafka's own plugins and of others are equal."""
    file = tmp_path / "catalogue.json"
    classes = harness(class_cases.JAVA, "3.9.1")
    async with KafkaWorker(
        broker.release,
        broker,
        parts=PARTS,
        classes=classes,
        plugin__discovery="hybrid_warn",
        **cluster_settings(own_topics),
    ) as worker:
        result = await harvested(worker, file)
        assert file.exists(), result.err
        assert await differing(worker, file, CONFIGS) == []
        again = await harvested(worker, file)
        assert (again.code, "--force" in again.err) == (2, True)
        own = tmp_path / "own.json"
        own.write_bytes((await worker.rest.get(CATALOGUE)).content)
        assert await differing(worker, own, CONFIGS), "own descriptions are not Kafka's"


@pytest.mark.prove
async def test_missing_documentation_of_an_old_worker_is_named(
    broker: Broker, own_topics: Topics, tmp_path: Path
) -> None:
    """The command names missing documentation and exits with code 1."""
    file = tmp_path / "catalogue.json"
    topics = cluster_settings(own_topics)
    async with KafkaWorker(OLD, broker, parts=PARTS, **topics) as worker:
        result = await harvested(worker, file)
        assert result.code == 1
        assert "lists connectors alone" in result.err
        assert "returns no settings" not in result.err
        assert await differing(worker, file, CONFIGS) == []
