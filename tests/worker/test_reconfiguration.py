"""Requests of a connector for new task configs."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from typing import Any

from controlplane.connect import Source
from controlplane.connect.source import SourceRun
from controlplane.core.commands import CreateConnector
from tests.patience import PATIENCE_S
from tests.worker.worker_fixture import config_of, running, until_state

splitting, requested = threading.Event(), threading.Event()
"""Set by the first `split`, and when the watch has found a second table."""


class GrowingSource(Source):
    """Finds a second table while its first task configs are published."""

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
        """Yield nothing."""
        while True:
            yield task.idle(0.01)


async def test_a_request_during_a_publication() -> None:
    """Task configs are published again when the present publication has ended."""
    splitting.clear()
    requested.clear()
    async with running(GrowingSource) as worker:
        config = config_of(GrowingSource, tasks_max="2")
        await worker.plane.execute(CreateConnector("c", config))
        await until_state(worker, "c", "RUNNING", "RUNNING", "RUNNING")
