"""KIP-52 with running tasks: pause, resume, and a failed restart."""

from collections.abc import Sequence
from typing import Any

from controlplane.connect import SourceConnector, SourceTask, key
from controlplane.core.commands import CreateConnector, PauseConnector, ResumeConnector
from controlplane.core.records import Target
from controlplane.logs.memory import MemoryLog
from controlplane.plane import ControlPlane, Surroundings
from controlplane.worker.connector_classes import ConnectorClasses
from tests.worker.bad_connectors import rest_of
from tests.worker.numbered_records import CountingSource
from tests.worker.worker_fixture import config_of, running, task_states, until_state, until_values


class TestPauseConnector:
    """Pause connector."""

    async def test_tasks_pause_after_the_answer(self) -> None:
        """Connector and tasks pause some time after the answer to the request."""
        async with running(CountingSource) as worker:
            plane = worker.plane
            config = config_of(CountingSource, topic="t", tasks_max="1")
            await plane.execute(CreateConnector("c", config))
            await until_state(worker, "c", "RUNNING", "RUNNING")
            await plane.execute(PauseConnector("c"))
            assert plane.state.config.targets["c"] is Target.PAUSED
            await until_state(worker, "c", "PAUSED", "PAUSED")


class TestResumeConnector:
    """Resume Connector."""

    async def test_tasks_resume_after_the_answer(self) -> None:
        """Connector and tasks resume some time after the answer to the request."""
        async with running(CountingSource) as worker:
            plane = worker.plane
            await plane.execute(CreateConnector("c", config_of(CountingSource, topic="t")))
            await until_state(worker, "c", "RUNNING", "RUNNING")
            await plane.execute(PauseConnector("c"))
            await until_state(worker, "c", "PAUSED", "PAUSED")
            await plane.execute(ResumeConnector("c"))
            await until_state(worker, "c", "RUNNING", "RUNNING")
            await until_values(plane.log, "t", [b"1", b"2", b"3"])


class TestPauseAndResume:
    """Pause/resume Connector."""

    async def test_each_task_reports_its_state(self) -> None:
        """Each task reports its change of state when it happens."""
        async with running(CountingSource) as worker:
            plane = worker.plane
            await plane.execute(CreateConnector("c", config_of(CountingSource, topic="t")))
            await until_state(worker, "c", "RUNNING", "RUNNING")
            await plane.execute(PauseConnector("c"))
            await until_state(worker, "c", "PAUSED", "PAUSED")
            assert task_states(worker, "c") == ["PAUSED"]


class Unstartable(SourceConnector):
    """Connector that raises ValueError in `start`."""

    config = (key("database"),)
    task = SourceTask

    def start(self, config: Any) -> None:
        """Raise ValueError with the config's database."""
        raise ValueError(f"no database {config['database']}")

    def task_configs(self, limit: int) -> Sequence[Any]:
        """Return no task configs."""
        del limit
        return []


class TestRestartConnector:
    """Restart Connector."""

    async def test_a_failed_restart_is_answered(self) -> None:
        """The client gets Kafka's message in a release's dialect; ours has the cause, too."""
        message = "Failed to start connector: c"
        async with running(Unstartable) as worker:
            config = config_of(Unstartable, database="d")
            await worker.plane.execute(CreateConnector("c", config))
            await until_state(worker, "c", "FAILED")
            async with rest_of(worker) as client:
                answer = await client.post("/compat/3.9.1/connectors/c/restart")
                ours = await client.post("/connectors/c/restart")
        assert answer.status_code == ours.status_code == 500
        assert answer.json() == {"error_code": 500, "message": message}
        assert ours.json()["message"] == f"{message}: no database d"


class TestUpgrade:
    """Compatibility, Deprecation, and Migration Plan."""

    async def test_a_connector_paused_during_an_upgrade_starts_paused(self) -> None:
        """A connector that was paused during an upgrade pauses once all workers are upgraded."""
        log = MemoryLog()
        around = Surroundings(plugins=ConnectorClasses([CountingSource]).plugins())
        async with ControlPlane.open(log, around=around) as plane:
            await plane.execute(CreateConnector("c", config_of(CountingSource, topic="t")))
            await plane.execute(PauseConnector("c"))
        async with running(CountingSource, log=log) as worker:
            await until_state(worker, "c", "PAUSED")
