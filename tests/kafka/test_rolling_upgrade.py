"""Real workers with a STOPPED connector, replaced one by one, up and down, as predicted.

Before each change of release `replay compat` judges the log. The tests compare its views with the
answers, the records and the output of the workers.
"""

import json
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from controlplane.core.entry import Entry
from controlplane.core.order import in_order
from controlplane.core.releases.profiles import Profile
from replay.compat import (
    ClusterAssessment,
    ConnectorAssessment,
    ReleaseVerdict,
    RolloutMode,
    assess,
    roll,
)
from tests.kafka.attached_cluster import attached_to, ended
from tests.kafka.conftest import up
from tests.kafka.live_cluster import TOPICS
from tests.kafka.producer import reading
from tests.kafka.real_kafka import Broker, KafkaWorker
from tests.kafka.test_verify_against import request_until_done, until, waited
from tests.replay.compat.test_roll_history import view_of

pytestmark = [pytest.mark.java, pytest.mark.broker]

SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
UNREADABLE = "Failed to deserialize connector status"
"""Complaint of a worker about a status of a later release, which it then ignores."""

STOPS = "3.9.1"
"""Release whose worker stops the connector: a worker of 3.4 answers 404 to a stop."""


class RolledCluster:
    """Cluster with running, paused and stopped connectors, and its log."""

    def __init__(self, broker: Broker, lines: Path) -> None:
        self._broker = broker
        self._lines = lines

    async def populate(self, worker: KafkaWorker) -> None:
        """Create the connectors that will run, be paused and be stopped."""
        config = {"connector.class": SOURCE, "file": str(self._lines), "topic": "lines"}
        for name in ("runs", "pauses", "stopped"):
            await request_until_done(worker, "PUT", f"/connectors/{name}/config", config)
            await self.shows(worker, name, "RUNNING", 1)
        await request_until_done(worker, "PUT", "/connectors/pauses/pause")
        await self.shows(worker, "pauses", "PAUSED", 1)

    async def stop(self, worker: KafkaWorker) -> int:
        """Stop a connector through an attached service; return the answer's status."""
        async with attached_to(self._broker, [worker]) as rest:
            answer = await rest.put("/connectors/stopped/stop")
            if answer.is_success:
                assert (await ended(rest))["compared"] == "as planned"
        return answer.status_code

    async def shows(self, worker: KafkaWorker, name: str, state: str, tasks: int) -> None:
        """Wait until a worker shows a connector and this number of tasks in a state."""

        def is_right(status: Any) -> bool:
            states = [task["state"] for task in status["tasks"]]
            return (status["connector"]["state"], states) == (state, [state] * tasks)

        await until(worker, f"/connectors/{name}/status", is_right)

    async def records(self) -> list[Entry]:
        """All records of the three topics."""
        async with reading(self._broker.bootstrap) as reader:
            return in_order(
                [entry async for batch in reader.read(TOPICS) for entry in batch.entries()]
            )

    async def change(self, old: KafkaWorker, new: KafkaWorker) -> ClusterAssessment:
        """Replace a worker by one of another release; check that everything is as predicted."""
        before = await self.records()
        change = roll(Profile.of(old.release), Profile.of(new.release), RolloutMode.ROLLING)
        predicted = assess(before, change)
        assert predicted.verdict is ReleaseVerdict.COMPATIBLE
        await new.start()
        await self._both(predicted, (old, new))
        await old.stop()
        for assessed in _connectors(predicted):
            await self._settled(assessed, new)
        after = await self.records()
        _check_records(predicted, [entry for entry in after if entry not in {*before}])
        _check_output(new, before)
        return predicted

    async def _both(self, predicted: ClusterAssessment, workers: Sequence[KafkaWorker]) -> None:
        """While both run, each lists the connectors with the tasks that its release reads."""
        for worker in workers:
            views = {
                assessment.connector: view_of(assessment, worker.release)
                for assessment in _connectors(predicted)
            }
            listed = {name for name, view in views.items() if view.configured}
            await until(worker, "/connectors", partial(_lists, listed))
            for name, view in views.items():
                await until(worker, f"/connectors/{name}", partial(_has_tasks, view.tasks))

    async def _settled(self, assessed: ConnectorAssessment, worker: KafkaWorker) -> None:
        """Without the old worker, the state is the one that the new release reports."""
        view = view_of(assessed, worker.release)
        assert view.will_report is not None
        await self.shows(worker, str(assessed.connector), view.will_report, view.tasks or 0)


def _connectors(predicted: ClusterAssessment) -> list[ConnectorAssessment]:
    return [assessment for assessment in predicted.assessed if assessment.connector is not None]


def _lists(names: set[str | None], shown: list[str]) -> bool:
    return {*shown} == names


def _has_tasks(tasks: int | None, shown: dict[str, Any]) -> bool:
    return len(shown["tasks"]) == tasks


def _check_records(predicted: ClusterAssessment, written: list[Entry]) -> None:
    """Check the records of a change: predicted statuses, and none about configs or targets."""
    for assessed in _connectors(predicted):
        key = f"status-connector-{assessed.connector}".encode()
        reports = [json.loads(entry.value or b"{}") for entry in written if entry.key == key]
        foreseen = {
            state for view in assessed.views for state in (view.meanwhile, view.will_report)
        }
        assert {report["state"] for report in reports} <= foreseen
    keys = [(entry.key or b"").decode() for entry in written if entry.topic == TOPICS[0]]
    assert not [key for key in keys if key.startswith(("connector-", "target-state-"))]
    assert not [key for key in keys if key.startswith(("task-stopped", "commit-stopped"))]


def _check_output(worker: KafkaWorker, log: Iterable[Entry]) -> None:
    """Check a started worker's errors: only about STOPPED statuses that its release cannot read."""
    lacks = not Profile.of(worker.release).status_stopped
    reports = [entry.value or b"" for entry in log if (entry.key or b"").startswith(b"status-conn")]
    unread = [value for value in reports if lacks and b'"STOPPED"' in value]
    printed = worker.log.read_text().splitlines()
    errors = [line.partition(" ERROR ")[2] for line in printed if " ERROR " in line]
    assert len(errors) >= len(unread), errors  # the old worker may have repeated its report
    assert bool(errors) == bool(unread), errors
    assert all(error.endswith(UNREADABLE) for error in errors), errors


@asynccontextmanager
async def rolled(tmp_path: Path, *releases: str) -> AsyncIterator[tuple[RolledCluster, list[Any]]]:
    """Cluster with a worker of each release, of which only the first one runs."""
    lines = tmp_path / "lines.txt"
    lines.write_text("aaa\nbbb\n")
    async with up("3.9.1", tmp_path) as broker:
        workers = [KafkaWorker(release, broker) for release in releases]
        cluster = RolledCluster(broker, lines)
        try:
            await workers[0].start()
            await cluster.populate(workers[0])
            yield cluster, workers
        finally:
            for worker in workers:
                await worker.__aexit__()


async def _paused_by_the_old(
    cluster: RolledCluster, worker: KafkaWorker, predicted: ClusterAssessment
) -> None:
    """Let a worker without STOPPED write a pause: its record is predicted."""
    (stopped,) = (
        assessment for assessment in _connectors(predicted) if assessment.connector == "stopped"
    )
    (draft,) = next(write for write in stopped.writes if write.request == "pause").records
    before = await cluster.records()
    await request_until_done(worker, "PUT", "/connectors/stopped/pause")

    async def is_written() -> bool:
        after = await cluster.records()
        new = [entry for entry in after[len(before) - 1 :] if entry not in before]
        return (draft.key, draft.value) in [(entry.key, entry.value) for entry in new]

    await waited(is_written)


async def test_an_older_release_reads_a_stopped_connector_as_paused(tmp_path: Path) -> None:
    """Release 3.4 reads the stopped connector as paused, without tasks; a pause overwrites it."""
    async with rolled(tmp_path, STOPS, "3.4.1") as (cluster, (new, old)):
        assert await cluster.stop(new) == httpx.codes.NO_CONTENT
        await cluster.shows(new, "stopped", "STOPPED", 0)
        predicted = await cluster.change(new, old)
        await _paused_by_the_old(cluster, old, predicted)


@pytest.mark.prove  # two minutes
async def test_a_cluster_is_rolled_up_and_down_again(tmp_path: Path) -> None:
    """From 3.4 to 3.9 to 4.3 and back, one worker after the other."""
    route = ("3.4.1", STOPS, "4.3.0", STOPS, "3.4.1")
    async with rolled(tmp_path, *route) as (cluster, workers):
        assert await cluster.stop(workers[0]) == httpx.codes.NOT_FOUND
        for old, new in pairwise(workers):
            predicted = await cluster.change(old, new)
            if old.release == "3.4.1":
                assert any("stop is answered 404" in remark for remark in predicted.remarks)
                assert await cluster.stop(new) == httpx.codes.NO_CONTENT
                await cluster.shows(new, "stopped", "STOPPED", 0)
        await _paused_by_the_old(cluster, workers[-1], predicted)
