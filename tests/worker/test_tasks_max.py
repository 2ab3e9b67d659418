"""`tasks.max` is enforced for tasks that the log already has (KIP-1004)."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from controlplane.connect import Source
from controlplane.connect.source import SourceRun
from controlplane.core.commands import CreateConnector, PutConfig
from controlplane.logs.memory import MemoryLog
from controlplane.plane import Settings
from tests.worker.worker_fixture import (
    config_of,
    connector_status,
    running,
    task_trace,
    until_state,
)

SENTENCE = (
    "The connector pair has generated 2 tasks, which is greater than 1, the maximum number of "
    "tasks it is configured to create."
)


class TwoTasks(Source):
    """Source that always has two tasks."""

    def split(self, config: Any, limit: int) -> Sequence[Any]:
        """Return two configs, whatever the limit."""
        del limit
        return [config] * 2

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Wait and yield no records."""
        while True:
            yield task.idle(0.05)


async def test_task_configs_of_an_older_release_fail() -> None:
    """After an upgrade, connector and tasks are FAILED until `tasks.max.enforce=false`."""
    log = MemoryLog()
    async with running(TwoTasks, log=log, settings=Settings(profile="3.7.0")) as worker:
        await worker.plane.execute(CreateConnector("pair", config_of(TwoTasks)))
        await until_state(worker, "pair", "RUNNING", "RUNNING", "RUNNING")
    async with running(TwoTasks, log=log, settings=Settings(profile="3.9.1")) as worker:
        await until_state(worker, "pair", "FAILED", "FAILED", "FAILED")
        status = connector_status(worker, "pair")
        assert SENTENCE in str(status and status.trace)
        assert SENTENCE in task_trace(worker, "pair", 1)
        tolerant = config_of(TwoTasks) | {"name": "pair", "tasks.max.enforce": "false"}
        await worker.plane.execute(PutConfig("pair", tolerant))
        await until_state(worker, "pair", "RUNNING", "RUNNING", "RUNNING")
