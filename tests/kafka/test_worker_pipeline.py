"""Connectors that run on a broker: from a file through a topic to a file."""

from pathlib import Path

import pytest

from controlplane.core.state import Topics
from tests.conftest import ROOT
from tests.kafka.conftest import NEWEST, unused_name
from tests.kafka.own_service import serving_own
from tests.kafka.real_kafka import Broker
from tests.kafka.worker_service import (
    connectors_file,
    offsets_of,
    running_connectors,
    until,
    until_text,
    until_values,
)

pytestmark = [pytest.mark.java, pytest.mark.broker]


def source(folder: Path, topic: str, **settings: str) -> dict[str, str]:
    """Config of a source that reads `in.txt`."""
    return {
        "connector.class": "FileStreamSource",
        "file": str(folder / "in.txt"),
        "topic": topic,
        **settings,
    }


def sink(folder: Path, topic: str, **settings: str) -> dict[str, str]:
    """Config of a sink that writes `out.txt`.

    Its group is its own: a killed process stays in its group until its session times out.
    """
    return {
        "connector.class": "FileStreamSink",
        "file": str(folder / "out.txt"),
        "topics": topic,
        "consumer.override.group.id": f"group-{topic}",
        **settings,
    }


EXAMPLE = ROOT / "examples" / "connectors" / "kafka.properties"
"""The worker's file that docs/connectors.md describes."""


@NEWEST
async def test_the_example_starts(broker: Broker) -> None:
    """A worker with connectors starts from the documented file."""
    async with serving_own(broker, EXAMPLE) as (_, client):
        plugins = (await client.get("/connector-plugins")).json()
    assert {"readings.Readings", "controlplane.connectors.GeneratorSource"} <= {
        plugin["class"] for plugin in plugins
    }


async def test_lines_pass_from_file_to_file(
    broker: Broker, own_topics: Topics, tmp_path: Path
) -> None:
    """Lines go through a topic that the broker creates; both offsets are committed."""
    data = unused_name()
    (tmp_path / "in.txt").write_text("one\ntwo\n", "utf-8")
    configs = {"source": source(tmp_path, data), "sink": sink(tmp_path, data)}
    file = connectors_file(tmp_path, own_topics)
    async with running_connectors(broker, file, configs) as client:
        await until_values(broker, data, ["one", "two"])
        await until_text(tmp_path / "out.txt", "one\ntwo\n")

        async def committed() -> bool:
            of_source, of_sink = [await offsets_of(client, name) for name in ("source", "sink")]
            return of_source == [{"position": 8}] and of_sink == [{"kafka_offset": 2}]

        await until(committed)
