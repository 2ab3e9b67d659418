"""A worker whose log another process has claimed."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec

from controlplane.connect import Source
from controlplane.connect.source import SourceRun
from controlplane.core.commands import CreateConnector
from controlplane.logs.sqlite import SqliteLog
from tests.worker.worker_fixture import QUICK, config_of, running, until, until_state

stopped = asyncio.Event()


class QuietSource(Source):
    """Source that writes nothing, so that its worker learns of the newer one by asking."""

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Wait, and set `stopped` at the end."""
        try:
            while True:
                yield task.idle(0.01)
        finally:
            stopped.set()


async def test_its_connectors_end_without_a_write(tmp_path: Path) -> None:
    """The worker asks at an interval; its task ends, and it writes no status."""
    log = await SqliteLog.open(tmp_path / "state.db")
    runtime = msgspec.structs.replace(QUICK, claim_probe_ms=10)
    async with running(QuietSource, log=log, runtime=runtime) as worker:
        await worker.plane.execute(CreateConnector("s", config_of(QuietSource)))
        await until_state(worker, "s", "RUNNING", "RUNNING")
        other = await SqliteLog.open(tmp_path / "state.db")
        await other.claim()
        await until(stopped.is_set)
        assert worker.plane.failure is not None
        await until_state(worker, "s", "RUNNING", "RUNNING")
        await other.close()
    await log.close()
