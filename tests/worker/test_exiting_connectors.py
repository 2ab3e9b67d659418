"""Connectors that kill the process of the worker, again at each start until they are stopped."""

import asyncio
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from signal import SIGKILL
from typing import Any, ClassVar

import msgspec
import pytest

from controlplane.connect import Source, key
from controlplane.connect.source import SourceRun
from controlplane.core import views
from controlplane.core.commands import CreateConnector
from controlplane.core.context import DecisionSettings
from controlplane.core.releases.profiles import Profile
from controlplane.logs.sqlite import SqliteLog
from controlplane.plane import Settings
from controlplane.projection.loader import load
from controlplane.worker.connector_classes import ConnectorClasses
from controlplane.worker.factory import RuntimeEnvironment
from controlplane.worker.worker import ConnectWorker
from tests.cli.command_calls import shell
from tests.conftest import ROOT
from tests.patience import PATIENCE_S
from tests.worker.worker_fixture import (
    QUICK,
    config_of,
    entries_in,
    until,
    until_state,
    values_in,
)

pytestmark = pytest.mark.slow

EXIT_CODE = -SIGKILL
WRITTEN_IN_A_LIFE = 20
"""Records of the other source before the process ends."""

PART = {"part": "a"}


class Counting(Source):
    """Yields one number after another, from the committed one on."""

    config = (key("topic", default="numbers"),)
    exactly_once = True
    written: ClassVar[int] = 0
    """Number of records that this process has written."""

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Yield the numbers after the committed one."""
        offset = task.offset(PART)
        number = 0 if offset is None else int(str(offset["number"]))
        while True:
            number += 1
            yield task.record(str(number), PART, {"number": number})
            yield task.idle(0.001)

    def acked(self, task: SourceRun, record: Any, metadata: Any) -> None:
        """Count the records that are in the log."""
        del task, record, metadata
        Counting.written += 1


class Exiting(Source):
    """Kills the process within its first transaction, once the other source has written enough."""

    config = (key("topic", default="lost"),)
    exactly_once = True
    boundaries = True

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Yield a record, and kill the process."""
        yield task.record("never seen", PART, {"number": 1})
        yield task.idle(0)
        while Counting.written < WRITTEN_IN_A_LIFE:
            yield task.idle(0.001)
        os.kill(os.getpid(), SIGKILL)


async def run_worker(log: Path, *, creates: bool = False) -> None:
    """Run a worker until its connector ends it."""
    async with _opened(log) as worker:
        if creates:
            await worker.plane.execute(CreateConnector("counting", config_of(Counting)))
            exiting = config_of(Exiting, transaction_boundary="connector")
            await worker.plane.execute(CreateConnector("exiting", exiting))
        await asyncio.sleep(PATIENCE_S)


def _opened(log: Path) -> AbstractAsyncContextManager[ConnectWorker]:
    return ConnectWorker.open(
        f"sqlite:///{log}",
        RuntimeEnvironment(
            ConnectorClasses((Counting, Exiting)),
            msgspec.structs.replace(QUICK, exactly_once=True),
        ),
        Settings(exactly_once=True, worker=DecisionSettings(exactly_once_source=True)),
    )


def exit_code_of(code: str) -> int:
    """Exit code of a process that runs a coroutine of this module."""
    program = f"import asyncio; from pathlib import Path; from {__name__} import *; {code}"
    return subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=False, timeout=PATIENCE_S
    ).returncode


def test_a_connector_that_kills_the_process_is_stopped_without_a_worker(tmp_path: Path) -> None:
    """`controlplane stop` on the log stops it while no worker runs; the worker then stays up.

    After each end nothing is half committed, and the other source continues in the next life. Each
    life reports all instances anew.
    """
    log = tmp_path / "state.db"
    assert exit_code_of(f"asyncio.run(run_worker(Path({str(log)!r}), creates=True))") == EXIT_CODE
    first = asyncio.run(numbers_written(log))
    assert first >= WRITTEN_IN_A_LIFE
    check_reports(asyncio.run(reports_in(log)), lives=1)
    assert exit_code_of(f"asyncio.run(run_worker(Path({str(log)!r})))") == EXIT_CODE
    second = asyncio.run(numbers_written(log))
    assert second >= first + WRITTEN_IN_A_LIFE
    check_reports(asyncio.run(reports_in(log)), lives=2)
    stop = ("stop", "exiting", "--cluster", f"sqlite:///{log}")
    assert shell(*stop) == (0, "exiting: stopped\n", "")
    asyncio.run(_check_stopped(log))
    assert asyncio.run(numbers_written(log)) >= second + WRITTEN_IN_A_LIFE


async def numbers_written(path: Path) -> int:
    """Check that records and offsets match, and return the last number."""
    log = await SqliteLog.open(path, read_only=True)
    try:
        numbers = [int(value or b"") for value in await values_in(log, "numbers")]
        assert await values_in(log, "lost") == []
        state = (await load(log, Profile.of("kip"), exactly_once=True)).snapshot()
    finally:
        await log.close()
    (offset,) = views.source_offsets(state, "counting")
    assert offset.offset == {"number": len(numbers)}
    assert numbers == [*range(1, len(numbers) + 1)]
    assert views.source_offsets(state, "exiting") == []
    return len(numbers)


async def reports_in(path: Path) -> dict[str, list[tuple[str, int]]]:
    """All reports in the status topic, by key: state and generation."""
    reports: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    log = await SqliteLog.open(path, read_only=True)
    try:
        for entry in await entries_in(log, "connect-status"):
            key, value = (entry.key or b"").decode(), json.loads(entry.value or b"{}")
            if not key.startswith("status-topic-"):
                reports[key].append((value["state"], value["generation"]))
    finally:
        await log.close()
    return reports


def check_reports(reports: dict[str, list[tuple[str, int]]], *, lives: int) -> None:
    """Check that each life has reported each instance as RUNNING once, under a new generation."""
    assert sorted(reports) == [
        f"status-{kind}-{name}"
        for kind, names in (
            ("connector", ("counting", "exiting")),
            ("task", ("counting-0", "exiting-0")),
        )
        for name in names
    ]
    for reported in reports.values():
        states, generations = zip(*reported, strict=True)
        assert states == ("RUNNING",) * lives
        assert sorted({*generations}) == [*generations]


async def _check_stopped(log: Path) -> None:
    """Check that the connector stays stopped in this process, while the other one runs on."""
    async with _opened(log) as worker:
        await until_state(worker, "exiting", "STOPPED")
        await until_state(worker, "counting", "RUNNING", "RUNNING")
        await until(lambda: Counting.written >= WRITTEN_IN_A_LIFE)
