"""A service beside a real worker gives the worker's answers from the topics alone."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.kafka.conftest import RELEASES, up
from tests.kafka.live_cluster import ComparedWorker, serving
from tests.kafka.producer import reading
from tests.kafka.real_kafka import Broker, KafkaWorker

pytestmark = [pytest.mark.java, pytest.mark.broker]

SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
ARCHIVE = quote("größe 😀 +", safe="")


@asynccontextmanager
async def beside(broker: Broker) -> AsyncIterator[ComparedWorker]:
    """A worker of the broker's release with a service beside it."""
    async with (
        KafkaWorker(broker.release, broker) as worker,
        serving(broker, worker) as service,
        reading(broker.bootstrap) as reader,
    ):
        yield ComparedWorker(worker, service, reader)


def state(connector_state: str, *tasks: str) -> Callable[[Any], bool]:
    """Condition: connector and tasks of a status have these states."""

    def has_states(status: Any) -> bool:
        if status is None:
            return False
        states = [task["state"] for task in status["tasks"]]
        return (status["connector"]["state"], *states) == (connector_state, *tasks)

    return has_states


def position(byte_count: int) -> Callable[[Any], bool]:
    """Condition: the offset of a file source is this number of bytes."""
    return lambda answer: (
        bool(answer and answer["offsets"])
        and (answer["offsets"][0]["offset"]["position"] == byte_count)
    )


def all_of(lines: Path) -> Callable[[Any], bool]:
    """Condition: the offset of a file source is the end of its file."""
    return position(lines.stat().st_size)


async def _created(life: ComparedWorker, lines: Path, folder: Path) -> None:
    """Create a source, a sink with a difficult name, and a sink that fails."""
    await life.same_cluster()
    source = {"connector.class": SOURCE, "file": str(lines), "topic": "lines", "tasks.max": "1"}
    await life.ask("POST", "/connectors", {"name": "lines", "config": source})
    await life.until("/connectors/lines/offsets", all_of(lines))
    await life.agree()
    sink = {"connector.class": SINK, "file": str(folder / "archive"), "topics": "lines"}
    await life.ask("PUT", f"/connectors/{ARCHIVE}/config", {**sink, "tasks.max": "2"})
    await life.until(f"/connectors/{ARCHIVE}/status", state("RUNNING", "RUNNING", "RUNNING"))
    broken = {**sink, "file": str(folder / "missing" / "file"), "tasks.max": "1"}
    await life.ask("POST", "/connectors", {"name": "broken", "config": broken})
    await life.until("/connectors/broken/status", state("RUNNING", "FAILED"))
    await life.agree()


async def _changed(life: ComparedWorker) -> None:
    """Pause, change while paused, resume and restart; delete active topics."""
    await life.ask("PUT", "/connectors/lines/pause")
    await life.until("/connectors/lines/status", state("PAUSED", "PAUSED"))
    await life.agree()
    config = await life.ask("GET", "/connectors/lines/config")
    await life.ask("PUT", "/connectors/lines/config", {**config, "batch.size": "100"})
    await life.agree()
    await life.ask("PUT", "/connectors/lines/resume")
    await life.until("/connectors/lines/status", state("RUNNING", "RUNNING"))
    await life.ask("POST", "/connectors/lines/restart?includeTasks=true")
    await life.ask("POST", "/connectors/broken/tasks/0/restart")
    await life.ask("PUT", f"/connectors/{ARCHIVE}/topics/reset")
    await life.agree()
    await life.until("/connectors/lines/status", state("RUNNING", "RUNNING"))


async def _offsets_edited(life: ComparedWorker, lines: Path) -> None:
    """Stop, alter offsets, read again from there, stop, remove offsets."""
    await life.ask("PUT", "/connectors/lines/stop")
    await life.until("/connectors/lines/status", state("STOPPED"))
    await life.agree()
    altered = {"partition": {"filename": str(lines)}, "offset": {"position": 4}}
    await life.ask("PATCH", "/connectors/lines/offsets", {"offsets": [altered]})
    await life.until("/connectors/lines/offsets", position(4))
    await life.agree()
    await life.ask("PUT", "/connectors/lines/resume")
    await life.until("/connectors/lines/offsets", all_of(lines))
    await life.agree()
    await life.ask("PUT", "/connectors/lines/stop")
    await life.until("/connectors/lines/status", state("STOPPED"))
    await life.ask("DELETE", "/connectors/lines/offsets")
    await life.agree()


async def _recreated(life: ComparedWorker) -> None:
    """Delete and create STOPPED; restart the worker."""
    config = await life.ask("GET", "/connectors/lines/config")
    await life.ask("DELETE", "/connectors/lines")
    await life.ask("DELETE", "/connectors/broken")
    await life.until("/connectors", lambda names: names is not None and len(names) == 1)
    await life.agree()
    body = {"name": "lines", "config": config, "initial_state": "STOPPED"}
    await life.ask("POST", "/connectors", body)
    await life.until("/connectors/lines/status", state("STOPPED"))
    await life.agree()
    await life.worker.stop()
    await life.worker.start()
    await life.until(f"/connectors/{ARCHIVE}/status", state("RUNNING", "RUNNING", "RUNNING"))
    await life.agree()


async def _broker_killed(life: ComparedWorker, broker: Broker, lines: Path) -> None:
    """Kill and restart the broker; both continue."""
    await broker.kill9()
    await life.still_answers()
    await broker.start()
    with lines.open("a") as file:
        file.write("ddd\n")
    await life.until("/connectors/lines/offsets", all_of(lines))
    await life.agree()


@pytest.mark.prove
@pytest.mark.parametrize("release", RELEASES)
async def test_each_answer_of_a_life_equals_the_workers(release: str, tmp_path: Path) -> None:
    """Every answer equals the worker's at each quiet point of a scripted life."""
    lines = tmp_path / "lines.txt"
    lines.write_text("aaa\nbbb\n")
    async with up(release, tmp_path) as broker, beside(broker) as life:
        await life.agree()
        await _created(life, lines, tmp_path)
        await _changed(life)
        await _broker_killed(life, broker, lines)
        await _offsets_edited(life, lines)
        await _recreated(life)
        assert life.compared > 250
