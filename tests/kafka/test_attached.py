"""Real Connect cluster that a service controls by requests; only the workers write its topics."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from controlplane.logs.kafka.reads.reader import KafkaReader
from tests.conftest import PROVE
from tests.kafka.attached_cluster import attached_to, ended
from tests.kafka.conftest import up
from tests.kafka.live_cluster import TOPICS, ComparedWorker
from tests.kafka.producer import reading
from tests.kafka.real_kafka import Broker, KafkaWorker
from tests.kafka.test_live_cluster import all_of, position, state

pytestmark = [pytest.mark.java, pytest.mark.broker]

SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"


CLUSTER_PATHS = (
    *("/connector-plugins", "/connector-plugins?connectorsOnly=false"),
    "/connector-plugins/FileStreamSource/config",
)
"""Paths that answer with the classes of the cluster."""


class AttachedLife(ComparedWorker):
    """Workers and the service attached to them, to which requests are sent."""

    def __init__(
        self, workers: Sequence[KafkaWorker], rest: httpx.AsyncClient, reader: KafkaReader
    ) -> None:
        super().__init__(workers[0], rest, reader)
        self.workers = list(workers)
        """Workers that run; `agree` compares with each of them."""
        self.rest = rest
        self.more_paths = CLUSTER_PATHS

    async def agree(self) -> None:
        """Compare the answers of the service with those of each worker."""
        for worker in self.workers:
            self.worker = worker
            await super().agree()
        self.worker = self.workers[0]

    async def sinks_agree(self, *sinks: str) -> None:
        """Compare the offsets of sinks, too: both read them from the consumer groups."""
        offsets = tuple(f"/connectors/{name}/offsets" for name in sinks)
        self.more_paths = (*CLUSTER_PATHS, *offsets)
        await self.agree()
        self.more_paths = CLUSTER_PATHS

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request to the service; return the answer, which must be a success as planned."""
        answer = await self.rest.request(method, path, json=body)
        assert answer.is_success, answer.text
        if method != "GET":
            row = await ended(self.rest)
            assert (row["outcome"], row["compared"]) == ("done", "as planned"), row
        return answer.json() if answer.content else None


@asynccontextmanager
async def alive(broker: Broker, *workers: KafkaWorker) -> AsyncIterator[AttachedLife]:
    """Running workers with an attached service."""
    async with attached_to(broker, workers) as rest, reading(broker.bootstrap) as reader:
        yield AttachedLife(workers, rest, reader)


async def foreign_headers(reader: KafkaReader) -> list[object]:
    """Headers of records in Connect's topics. Workers write none; this project always does."""
    return [
        entry.headers
        async for batch in reader.read(TOPICS)
        for entry in batch.entries()
        if entry.headers
    ]


async def _runs(life: AttachedLife, lines: Path, folder: Path) -> None:
    """Create, fail, pause, reconfigure, resume and restart connectors."""
    source = {"connector.class": SOURCE, "file": str(lines), "topic": "lines", "tasks.max": "1"}
    await life.ask("POST", "/connectors", {"name": "lines", "config": source})
    await life.until("/connectors/lines/status", state("RUNNING", "RUNNING"))
    broken = {"connector.class": SINK, "topics": "lines", "file": str(folder / "no" / "file")}
    await life.ask("PUT", "/connectors/broken/config", broken)
    await life.until("/connectors/broken/status", state("RUNNING", "FAILED"))
    await life.agree()
    await life.ask("PUT", "/connectors/lines/pause")
    await life.until("/connectors/lines/status", state("PAUSED", "PAUSED"))
    await life.ask("PUT", "/connectors/lines/config", {**source, "batch.size": "100"})
    await life.ask("PUT", "/connectors/lines/resume")
    await life.until("/connectors/lines/status", state("RUNNING", "RUNNING"))
    await life.ask("POST", "/connectors/lines/restart?includeTasks=true")
    await life.ask("POST", "/connectors/broken/tasks/0/restart")
    await life.until("/connectors/lines/topics", lambda shown: bool(shown["lines"]["topics"]))
    await life.ask("PUT", "/connectors/broken/topics/reset")
    await life.agree()


async def _moves(life: AttachedLife, lines: Path) -> None:
    """Stop a source, alter its offsets, resume it, stop it again and remove the offsets."""
    await life.until("/connectors/lines/offsets", all_of(lines))
    archive = {"connector.class": SINK, "topics": "lines", "file": str(lines) + ".out"}
    await life.ask("PUT", "/connectors/archive/config", archive)
    await life.until(
        "/connectors/archive/offsets", lambda answer: bool(answer and answer["offsets"])
    )
    await life.sinks_agree("archive")
    await life.ask("DELETE", "/connectors/archive")
    await life.ask("PUT", "/connectors/lines/stop")
    await life.until("/connectors/lines/status", state("STOPPED"))
    altered = {"partition": {"filename": str(lines)}, "offset": {"position": 4}}
    await life.ask("PATCH", "/connectors/lines/offsets", {"offsets": [altered]})
    await life.until("/connectors/lines/offsets", position(4))
    await life.agree()
    await life.ask("PUT", "/connectors/lines/resume")
    await life.until("/connectors/lines/offsets", all_of(lines))
    await life.ask("PUT", "/connectors/lines/stop")
    await life.until("/connectors/lines/status", state("STOPPED"))
    await life.ask("DELETE", "/connectors/lines/offsets")
    await life.agree()


async def _is_recreated(life: AttachedLife) -> None:
    """Delete and create again; refusals are the worker's own, word for word."""
    config = await life.ask("GET", "/connectors/lines/config")
    await life.ask("DELETE", "/connectors/lines")
    await life.ask("DELETE", "/connectors/broken")
    await life.until("/connectors", lambda names: names == [])
    for method, path, body in (
        ("PUT", "/connectors/lines/pause", None),
        ("DELETE", "/connectors/lines", None),
        ("POST", "/connectors", {"name": "bad", "config": {"connector.class": SOURCE}}),
        ("POST", "/connectors", {"name": "bad", "config": {"file": "x"}}),
        ("PUT", "/connector-plugins/FileStreamSource/config/validate", config),
        ("GET", "/connector-plugins", None),
    ):
        ours = await life.rest.request(method, path, json=body)
        theirs = await life.answer(method, path, body)
        assert (ours.status_code, ours.content) == (theirs.status_code, theirs.content), path
    await life.ask("POST", "/connectors", {"name": "lines", "config": config})
    await life.until("/connectors/lines/status", state("RUNNING", "RUNNING"))
    await life.agree()


async def _loses_a_worker(life: AttachedLife) -> None:
    """Stop the first worker; `make prove` starts it again.

    `make test` starts killed workers again in `test_attached_kills.py`.
    """
    first = life.workers.pop(0)
    await first.stop()
    await life.ask("PUT", "/connectors/lines/pause")
    await life.agree()
    if PROVE:
        await first.start()
        life.workers.append(first)
        await life.until("/connectors/lines/status", state("PAUSED", "PAUSED"))
        await life.agree()


@pytest.mark.parametrize(
    ("broker_release", "release"),
    [
        pytest.param("3.9.1", "3.4.1", marks=pytest.mark.prove),  # a minute and a half
        ("3.9.1", "3.9.1"),
        pytest.param("4.3.0", "4.3.0", marks=pytest.mark.prove),
    ],
)
async def test_each_answer_of_a_life_is_the_workers(
    broker_release: str, release: str, tmp_path: Path
) -> None:
    """Every command is as planned; every answer is the worker's; we write no record."""
    lines = tmp_path / "lines.txt"
    lines.write_text("aaa\nbbb\n")
    async with (
        up(broker_release, tmp_path) as broker,
        KafkaWorker(release, broker) as first,
        KafkaWorker(release, broker) as second,
        alive(broker, first, second) as life,
    ):
        await _runs(life, lines, tmp_path)
        if release != "3.4.1":  # stop came with 3.5, offsets with 3.6
            await _moves(life, lines)
        await _is_recreated(life)
        await _loses_a_worker(life)
        assert life.compared > 200
        async with reading(broker.bootstrap) as reader:
            assert not await foreign_headers(reader)
