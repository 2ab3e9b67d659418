"""KIP-875 with running tasks: the state STOPPED. `test_kip_875_running_plan` has its test plan."""

from pathlib import Path
from typing import Any

import pytest

from controlplane.connect import SourceConnector, SourceTask, key
from controlplane.core.commands import (
    CreateConnector,
    PauseConnector,
    ResumeConnector,
    StopConnector,
)
from controlplane.core.records import Target
from controlplane.plane import Settings
from tests.worker.standalone.standalone_fixture import standalone
from tests.worker.worker_fixture import (
    config_of,
    running,
    task_states,
    until_state,
)

calls: list[str] = []
"""Calls of the connector and its tasks, in order."""


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    calls.clear()


class TracedTask(SourceTask):
    """Task that records each of its calls."""

    def start(self, config: Any) -> None:
        """Note the start of the task."""
        del config
        calls.append("task start")

    def poll(self) -> None:
        """Return no records."""

    def stop(self) -> None:
        """Note the stop of the task."""
        calls.append("task stop")


class TracedSource(SourceConnector):
    """Connector that records its calls, and fails if its config says so."""

    config = (key("fail", default=""),)
    task = TracedTask

    def start(self, config: Any) -> None:
        """Note the call; fail once in the process if the config says so."""
        self.start_config = config
        calls.append("start")
        if config["fail"] == "start" and calls.count("start") == 1:
            raise ValueError("no start")

    def task_configs(self, limit: int) -> Any:
        """Return a config for each task."""
        calls.append("task configs")
        return [self.start_config] * limit

    def stop(self) -> None:
        """Note the call; fail if the config says so."""
        calls.append("stop")
        if self.start_config["fail"] == "stop":
            raise ValueError("no stop")


class TestTargetStates:
    """Background: target states today."""

    async def test_paused_tasks_keep_their_resources(self) -> None:
        """Paused tasks keep their clients, converters and connections."""
        async with running(TracedSource) as worker:
            plane = worker.plane
            await plane.execute(CreateConnector("c", config_of(TracedSource)))
            await until_state(worker, "c", "RUNNING", "RUNNING")
            await plane.execute(PauseConnector("c"))
            await until_state(worker, "c", "PAUSED", "PAUSED")
            await plane.execute(ResumeConnector("c"))
            await until_state(worker, "c", "RUNNING", "RUNNING")
            assert calls.count("task start") == 1
            assert "task stop" not in calls


class TestStopped:
    """A new STOPPED state."""

    async def test_a_stop_releases_all_resources(self) -> None:
        """All tasks end and release their resources; the connector's own `stop` is called."""
        async with running(TracedSource) as worker:
            plane = worker.plane
            await plane.execute(CreateConnector("c", config_of(TracedSource, tasks_max="2")))
            await until_state(worker, "c", "RUNNING", "RUNNING", "RUNNING")
            await plane.execute(StopConnector("c"))
            await until_state(worker, "c", "STOPPED")
            assert calls.count("task stop") == 2
            assert calls.count("stop") == 1

    @pytest.mark.parametrize("fail", ["start", "stop"])
    async def test_a_failed_connector_reports_stopped(self, fail: str) -> None:
        """The worker reports STOPPED, also if the connector had failed or fails to stop.

        After a resume its tasks run again.
        """
        async with running(TracedSource) as worker:
            plane = worker.plane
            await plane.execute(CreateConnector("c", config_of(TracedSource, fail=fail)))
            before = ("FAILED",) if fail == "start" else ("RUNNING", "RUNNING")
            await until_state(worker, "c", *before)
            await plane.execute(StopConnector("c"))
            await until_state(worker, "c", "STOPPED")
            await plane.execute(ResumeConnector("c"))
            await until_state(worker, "c", "RUNNING", "RUNNING")

    async def test_a_stopped_connector_is_not_started(self) -> None:
        """A stopped connector is not started, so it cannot request other tasks."""
        async with running(TracedSource) as worker:
            plane = worker.plane
            await plane.execute(CreateConnector("c", config_of(TracedSource)))
            await until_state(worker, "c", "RUNNING", "RUNNING")
            await plane.execute(StopConnector("c"))
            await until_state(worker, "c", "STOPPED")
            log = plane.log
        calls.clear()
        async with running(TracedSource, log=log) as worker:
            await until_state(worker, "c", "STOPPED")
            assert calls == []

    async def test_a_pause_starts_a_stopped_connector(self) -> None:
        """A pause of a stopped connector starts it and generates its task configs.

        The KIP demands this of resume and pause. In releases, only resume does it.
        """
        async with running(TracedSource) as worker:
            plane = worker.plane
            await plane.execute(CreateConnector("c", config_of(TracedSource)))
            await until_state(worker, "c", "RUNNING", "RUNNING")
            await plane.execute(StopConnector("c"))
            await until_state(worker, "c", "STOPPED")
            calls.clear()
            await plane.execute(PauseConnector("c"))
            await until_state(worker, "c", "PAUSED", "PAUSED")
            assert calls[:3] == ["start", "task configs", "stop"]
            assert "task start" not in calls

    async def test_a_release_pauses_without_starting(self) -> None:
        """A worker of 3.9 pauses the connector without starting it, and without tasks."""
        async with running(TracedSource, settings=Settings(profile="3.9.1")) as worker:
            plane = worker.plane
            await plane.execute(CreateConnector("c", config_of(TracedSource)))
            await until_state(worker, "c", "RUNNING", "RUNNING")
            await plane.execute(StopConnector("c"))
            await until_state(worker, "c", "STOPPED")
            calls.clear()
            await plane.execute(PauseConnector("c"))
            await until_state(worker, "c", "PAUSED")
            assert calls == []

    @pytest.mark.parametrize("way_out", [ResumeConnector, PauseConnector])
    async def test_a_standalone_worker_starts_tasks_at_once(
        self, tmp_path: Path, way_out: type[ResumeConnector | PauseConnector]
    ) -> None:
        """A standalone worker starts the tasks at once, resumed or paused."""
        async with standalone(tmp_path, TracedSource) as worker:
            plane = worker.plane
            stopped = CreateConnector("c", config_of(TracedSource, tasks_max="2"), Target.STOPPED)
            await plane.execute(stopped)
            await until_state(worker, "c", "STOPPED")
            await plane.execute(way_out("c"))
            state = "RUNNING" if way_out is ResumeConnector else "PAUSED"
            await until_state(worker, "c", state, state, state)


class TestUpgrade:
    """Compatibility, Deprecation, and Migration Plan."""

    async def test_an_older_release_pauses_a_stopped_connector(self) -> None:
        """A worker of an older release pauses a stopped connector."""
        async with running(TracedSource) as worker:
            plane = worker.plane
            await plane.execute(CreateConnector("c", config_of(TracedSource)))
            await until_state(worker, "c", "RUNNING", "RUNNING")
            await plane.execute(StopConnector("c"))
            await until_state(worker, "c", "STOPPED")
            log = plane.log
        async with running(TracedSource, log=log, settings=Settings(profile="3.4.1")) as worker:
            await until_state(worker, "c", "PAUSED")
            assert task_states(worker, "c") == []
