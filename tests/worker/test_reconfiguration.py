"""New task configs, requested by a connector or caused by a new config."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

import msgspec
import pytest

from controlplane.connect import ConnectError, Source
from controlplane.connect.source import SourceRun
from controlplane.core.commands import CreateConnector, PutConfig
from controlplane.core.order import Ends
from controlplane.logs.memory import MemoryLog
from controlplane.worker.lifecycle.connector_actor import StartTimedOut
from tests.patience import PATIENCE_S
from tests.worker.worker_fixture import QUICK, config_of, running, until_state

splitting, requested = threading.Event(), threading.Event()
"""Events: set by the first `split`, and when the watch has found a second table."""


class GrowingSource(Source):
    """Source that finds a second table while its first task configs are published."""

    tables = 1

    def split(self, config: Any, limit: int) -> Sequence[Any]:
        """Return a config for each table known at the beginning."""
        del limit
        tables = range(self.tables)
        splitting.set()
        requested.wait(PATIENCE_S)
        return [dict(config) | {"table": str(table)} for table in tables]

    async def watch(self, connector: Any) -> None:
        """Find the table during the first `split`."""
        await asyncio.to_thread(splitting.wait, PATIENCE_S)
        self.tables = 2
        connector.request_reconfiguration()
        requested.set()
        await asyncio.Event().wait()

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Wait and yield no records."""
        while True:
            yield task.idle(0.01)


async def test_a_request_during_a_publication_leads_to_another_one() -> None:
    """A request during a publication leads to another publication: both tasks run."""
    splitting.clear()
    requested.clear()
    async with running(GrowingSource) as worker:
        config = config_of(GrowingSource, tasks_max="2")
        await worker.plane.execute(CreateConnector("c", config))
        await until_state(worker, "c", "RUNNING", "RUNNING", "RUNNING")


class SplitSource(Source):
    """Source with as many tasks as `tasks.max` allows."""

    def split(self, config: Any, limit: int) -> Sequence[Any]:
        """Return a config for each task."""
        return [dict(config)] * limit

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Wait and yield no records."""
        while True:
            yield task.idle(0.01)


class HesitantLog(MemoryLog):
    """Log that gives the end of the offsets topic only when a test releases it."""

    def __init__(self) -> None:
        super().__init__()
        self.ends_requested, self.answering = asyncio.Event(), asyncio.Event()

    async def ends(self, topics: Iterable[str]) -> Ends:
        """Wait for the test's release before giving the end of the offsets topic."""
        topics = [*topics]
        if topics == ["connect-offsets"]:
            self.ends_requested.set()
            await self.answering.wait()
        return await super().ends(topics)


async def test_started_waits_for_the_tasks_of_the_new_config() -> None:
    """`started` waits for the tasks of the new config while those of the old one start."""
    runtime = msgspec.structs.replace(QUICK, connector_stop_timeout_ms=1_000 * PATIENCE_S)
    log = HesitantLog()
    async with running(SplitSource, runtime=runtime, log=log) as worker:
        await worker.plane.execute(CreateConnector("c", config_of(SplitSource)))
        await log.ends_requested.wait()
        await worker.plane.execute(PutConfig("c", config_of(SplitSource, tasks_max="2")))
        started = asyncio.create_task(worker.started("c", PATIENCE_S))
        await asyncio.sleep(0)  # `started` sends its request to the actor
        log.answering.set()
        await started
        assert len(worker.plane.state.config.task_ids("c")) == 2


async def test_started_does_not_wait_longer_than_its_limit() -> None:
    """The limit also holds while the log delays the preparation of the tasks."""
    log = HesitantLog()
    async with running(SplitSource, log=log) as worker:
        await worker.plane.execute(CreateConnector("c", config_of(SplitSource)))
        await log.ends_requested.wait()
        with pytest.raises(StartTimedOut):
            await asyncio.wait_for(worker.started("c", 0.01), PATIENCE_S)
        log.answering.set()
        await worker.started("c", PATIENCE_S)
        await until_state(worker, "c", "RUNNING", "RUNNING")


async def test_a_new_config_ends_the_failure_of_a_missing_class() -> None:
    """`started` raises while the class is missing, and not after a config with another class."""
    log = MemoryLog()
    async with running(GrowingSource, log=log) as worker:
        await worker.plane.execute(CreateConnector("c", config_of(GrowingSource)))
    async with running(SplitSource, log=log) as worker:
        with pytest.raises(ConnectError, match="Failed to find any class"):
            await worker.started("c", PATIENCE_S)
        await worker.plane.execute(PutConfig("c", config_of(SplitSource)))
        await worker.started("c", PATIENCE_S)
        await until_state(worker, "c", "RUNNING", "RUNNING")
