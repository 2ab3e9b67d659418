"""Standalone worker in this process, with its records in memory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from controlplane.core.state import Topics
from controlplane.logs.memory import MemoryLog
from controlplane.worker.settings import RuntimeSettings
from controlplane.worker.standalone.offset_file import OffsetFile
from controlplane.worker.standalone.standalone_log import StandaloneLog
from controlplane.worker.worker import ConnectWorker
from tests.worker.worker_fixture import QUICK, running


@asynccontextmanager
async def standalone(
    folder: Path,
    *classes: type[Any],
    records: MemoryLog | None = None,
    runtime: RuntimeSettings = QUICK,
) -> AsyncIterator[ConnectWorker]:
    """Run a worker with its offsets file in a folder; pass the same `records` for a second life."""
    file = OffsetFile(folder / "connect.offsets")
    log = await StandaloneLog.open(Topics(), records or MemoryLog(), file, file.load())
    async with running(*classes, runtime=runtime, log=log) as worker:
        yield worker
    await log.close()
