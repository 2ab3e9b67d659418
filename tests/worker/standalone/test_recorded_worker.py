"""A recorded standalone worker 3.9.1, compared request by request with ours.

The requests are those of the world `standalone` of the probe (`tests/rest/probes`). Ours gets them
beneath `/compat/3.9.1`, in order. Twins in Python replace the recorded connectors.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from controlplane.core.state import Topics
from controlplane.logs.memory import MemoryLog
from controlplane.plane import Settings, Surroundings
from controlplane.rest.app import App
from controlplane.worker.factory import RuntimeEnvironment
from controlplane.worker.standalone.offset_file import OffsetFile
from controlplane.worker.standalone.standalone_commands import StandaloneCommands
from controlplane.worker.standalone.standalone_log import StandaloneLog
from controlplane.worker.worker import ConnectWorker
from tests.patience import PATIENCE_S
from tests.rest.probes.comparison import differences
from tests.rest.probes.probe_replay import PREFIX, probe_plugins, worlds
from tests.rest.probes.raw_requests import call
from tests.rest.probes.rows import RELEASE, ProbeRow
from tests.rest.probes.runtime import KEY
from tests.worker.recorded_connectors import recorded_classes
from tests.worker.worker_fixture import ABANDONING

POLL_S = 0.02

JAVA_TRACE = "the trace is that of a Java worker"
TIMEOUT = "a worker waits 90 seconds for task configs; ours answers without tasks after 5"
DISTRIBUTED = "ours is the answer of a distributed worker, which names the fault better"
SIGNED = "we check the signature of requests between workers first"
LEFT_TOPICS = "the active topics of a deleted connector are gone, as KIP-558 says"
LEFT_TASK = "the restart of a missing task leaves no status"

EXCEPTIONS: Mapping[str, Sequence[int]] = {
    JAVA_TRACE: (1973,),
    TIMEOUT: (1975,),
    DISTRIBUTED: (1974, 1983, 1984, 1986, 2008, 2028),
    SIGNED: (1990, 1991, 1992, 1993),
    LEFT_TOPICS: (2024,),
    LEFT_TASK: (2030, 2031),
}
"""Numbers of the rows whose answers differ, by reason."""


EQUAL = 60
"""Number of answers that are equal."""


@pytest.mark.slow
async def test_the_answers_are_those_of_the_recorded_worker(tmp_path: Path) -> None:
    """Exactly the excepted answers differ. The test repeats a read until its answer agrees."""
    (rows,) = (rows for about, rows in worlds() if about.world == "standalone")
    lines = tmp_path / "orders.txt"
    file = OffsetFile(tmp_path / "connect.offsets")
    log = await StandaloneLog.open(Topics(), MemoryLog(), file, file.load())
    environment = RuntimeEnvironment(recorded_classes(tmp_path), ABANDONING)
    around = Surroundings(plugins=probe_plugins(harvested=False))
    settings = Settings(profile=RELEASE)
    excepted = {row for numbers in EXCEPTIONS.values() for row in numbers}
    wrong: dict[int, list[str]] = {}
    async with ConnectWorker.open(log, environment, settings, around) as worker:
        app = App(worker.plane.service._replace(commands=StandaloneCommands(worker)))
        for row in rows:
            if row.kind == "file":
                lines.write_text("".join(f"{line}\n" for line in row.lines))
            if row.kind != "request":
                continue
            mismatches = await differing(app, row, patient=row.n not in excepted)
            if mismatches:
                wrong[row.n] = mismatches
    await log.close()
    assert {row: mismatches for row, mismatches in wrong.items() if row not in excepted} == {}
    assert excepted - wrong.keys() == set(), "these excepted answers equal the recorded ones"
    requests = [row.n for row in rows if row.kind == "request"]
    assert len({*requests} - excepted) == EQUAL


async def differing(app: App, row: ProbeRow, *, patient: bool) -> list[str]:
    """Differences of an answer from the recorded one; a read is repeated until there are none."""
    mismatches = differences(row, await call(app, row, PREFIX, KEY), documentation=False)
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    while mismatches and patient and row.method == "GET":
        if asyncio.get_running_loop().time() > deadline:
            break
        await asyncio.sleep(POLL_S)
        mismatches = differences(row, await call(app, row, PREFIX, KEY), documentation=False)
    return mismatches
