"""Records the answers of real workers to every config.

python -m tests.validation.recorder              writes `recorded.jsonl` anew

python -m tests.validation.recorder classes      writes `recorded-classes.jsonl` anew

Each needs Java and Maven, and takes some minutes.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx

from tests.kafka.real_kafka import Broker, KafkaWorker
from tests.oracle.kafka import harness
from tests.validation import class_cases
from tests.validation.answers import (
    CLASSES_FILE,
    FILE,
    RecordedValidation,
    ValidationAnswer,
    with_digests,
    write,
)
from tests.validation.cases import ConfigBody, cases

RELEASES = (
    *("2.8.2", "3.0.2", "3.2.0", "3.4.1", "3.6.2"),
    *("3.7.2", "3.8.1", "3.9.1", "4.1.1", "4.3.0"),
)
PARTS = ("runtime", "file", "json", "mirror")
STORES = ("config", "offset", "status")

BUSY = httpx.codes.CONFLICT
PAUSE_S = 0.2

CACHED = "org.apache.kafka.connect.errors.ConnectException: "
"""Prefix of a repeated error from 4.1 on: the exception's class."""


async def ask(rest: httpx.AsyncClient, config: ConfigBody) -> ValidationAnswer:
    """Answer of a worker. A valid config is not posted, so that no connector runs."""
    plugin = quote((config.get("connector.class") or "x").rpartition(".")[2] or "x")
    validated = await rest.put(f"/connector-plugins/{plugin}/config/validate", json=config)
    result = validated.json()
    if validated.status_code != httpx.codes.OK:
        return ValidationAnswer(await _refused(rest, config), None)
    refused = await _refused(rest, config) if result["error_count"] else None
    return with_digests(refused, result)


async def _refused(rest: httpx.AsyncClient, config: ConfigBody) -> str | None:
    body = {"name": config.get("name"), "config": config}
    while True:
        posted = await rest.post("/connectors", json=body)
        if posted.status_code != BUSY:
            break
        await asyncio.sleep(PAUSE_S)
    answer = posted.json()
    if posted.status_code == httpx.codes.CREATED:
        await rest.delete(f"/connectors/{quote(answer['name'], safe='')}")
        return None
    return f"{posted.status_code} {answer['message'].removeprefix(CACHED)}"


async def answers(
    broker: Broker, release: str, configs: Sequence[ConfigBody], classes: Path | None = None
) -> list[ValidationAnswer]:
    """Ask a worker of a release about each config. `classes` is a folder on its class path."""
    settings: dict[str, Any] = {f"{name}__storage__topic": f"{name}-{release}" for name in STORES}
    if classes is not None:  # the default of a worker; it finds classes that no service file names
        settings["plugin__discovery"] = "hybrid_warn"
    async with KafkaWorker(release, broker, parts=PARTS, classes=classes, **settings) as worker:
        return [await ask(worker.rest, config) for config in configs]


class WorkerConfigs(NamedTuple):
    """Configs for a worker of a release, and the classes on its class path."""

    configs: list[ConfigBody]
    classes: Path | None = None


def ask_of_classes(release: str) -> WorkerConfigs:
    """Return the configs of `class_cases` for a release."""
    older = release in class_cases.OLDER
    java = harness(class_cases.OLDER_JAVA if older else class_cases.JAVA, "3.9.1")
    return WorkerConfigs(class_cases.cases_of(release), java)


async def record(asks: Mapping[str, WorkerConfigs], file: Path) -> None:
    """Send the configs to workers of all releases and write their answers."""
    said: dict[str, dict[str, ValidationAnswer]] = {}
    with tempfile.TemporaryDirectory() as directory:
        async with Broker("3.9.1", Path(directory)) as broker:
            for release, (configs, classes) in asks.items():
                release_answers = await answers(broker, release, configs, classes)
                for config, answer in zip(configs, release_answers, strict=True):
                    said.setdefault(json.dumps(config), {})[release] = answer
    write(
        [RecordedValidation(json.loads(config), by_release) for config, by_release in said.items()],
        file,
    )


async def main(which: str) -> int:
    """Record one of the two files."""
    if which == "classes":
        await record({release: ask_of_classes(release) for release in RELEASES}, CLASSES_FILE)
    else:
        await record({release: WorkerConfigs([*cases()]) for release in RELEASES}, FILE)
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*sys.argv[1:] or [""])))
