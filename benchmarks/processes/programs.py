"""Programs in processes of their own: started, awaited, and served until a benchmark ends."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

from tests.kafka.process import ProgramNotReady

SCRIPT_JVM = (
    "-Xms256M",
    "-Xmx2G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
"""Options that `connect-distributed.sh` gives the JVM by default."""

POLL_S = 0.005
"""Polling interval in seconds for log files and ports: the greatest error of a worker's time."""

PATIENCE_S = 120


async def started(module: str, *arguments: str) -> asyncio.subprocess.Process:
    """Start a module in a process of its own."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *arguments),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""},  # compiled, like an installed package
    )


class ServedLog(NamedTuple):
    """A running `controlplane serve`."""

    url: str
    pid: int


@asynccontextmanager
async def serve(*arguments: str) -> AsyncIterator[ServedLog]:
    """Run `controlplane serve` within this context."""
    process = await started("controlplane", "serve", *arguments)
    assert process.stdout is not None
    try:
        line = (await process.stdout.readline()).decode()
        if not line:
            raise ProgramNotReady("controlplane serve has ended")
        yield ServedLog(line.rpartition(" on ")[2].strip(), process.pid)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


async def until(
    condition: Callable[[], Awaitable[bool]], what: str, patience_s: float = PATIENCE_S
) -> None:
    """Poll until a condition holds. Raises `ProgramNotReady` after a timeout."""
    began = time.perf_counter()
    while not await condition():
        if time.perf_counter() - began > patience_s:
            raise ProgramNotReady(f"not within {patience_s} s: {what}")
        await asyncio.sleep(POLL_S)
