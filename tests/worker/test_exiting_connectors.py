"""Connectors that end the process of the worker, again at each start until they are stopped."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from controlplane.connect import Source
from controlplane.connect.source import SourceRun
from controlplane.core.commands import CreateConnector
from controlplane.worker.connector_classes import ConnectorClasses
from controlplane.worker.factory import RuntimeEnvironment
from controlplane.worker.worker import ConnectWorker
from tests.conftest import ROOT
from tests.patience import PATIENCE_S
from tests.worker.worker_fixture import QUICK, config_of, until_state

EXIT_CODE = 9


class Exiting(Source):
    """Ends the process at its first record."""

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """End the process."""
        yield task.idle(0)
        os._exit(EXIT_CODE)


async def run_worker(log: Path, *, creates: bool = False) -> None:
    """Run a worker until its connector ends it."""
    async with _opened(log) as worker:
        if creates:
            await worker.plane.execute(CreateConnector("exiting", config_of(Exiting)))
        await asyncio.sleep(PATIENCE_S)


def _opened(log: Path) -> Any:
    return ConnectWorker.open(
        f"sqlite:///{log}", RuntimeEnvironment(ConnectorClasses((Exiting,)), QUICK)
    )


def exit_code_of(code: str) -> int:
    """Exit code of a process that runs a coroutine of this module."""
    program = f"import asyncio; from pathlib import Path; from {__name__} import *; {code}"
    return subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=False, timeout=PATIENCE_S
    ).returncode


def test_a_connector_that_ends_the_process(tmp_path: Path) -> None:
    """`controlplane stop` on the log stops it while no worker runs; the worker then stays up."""
    log = tmp_path / "state.db"
    assert exit_code_of(f"asyncio.run(run_worker(Path({str(log)!r}), creates=True))") == EXIT_CODE
    assert exit_code_of(f"asyncio.run(run_worker(Path({str(log)!r})))") == EXIT_CODE
    stop = ("stop", "exiting", "--cluster", f"sqlite:///{log}")
    stopped = subprocess.run(
        [sys.executable, "-m", "controlplane", *stop],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert stopped.stdout == "exiting: stopped\n"
    asyncio.run(_check_stopped(log))


async def _check_stopped(log: Path) -> None:
    """Check that the connector stays stopped in this process."""
    async with _opened(log) as worker:
        await until_state(worker, "exiting", "STOPPED")
