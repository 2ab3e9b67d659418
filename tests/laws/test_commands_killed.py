"""The laws of commands when the process is killed: `kill -9` at any moment.

Processes run random commands on one file and are killed again and again. After each, another
control plane opens the file and ends unfinished commands. The log and the answers must make a life
in which every law holds.
"""

import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.core.releases.profiles import Profile
from tests.conftest import PROVE, SEED, seeded
from tests.jars import ROOT
from tests.laws.commands.commander import PAUSE_MS
from tests.laws.commands.execution import (
    AnsweredCommand,
    Died,
    RunJournal,
    SimulatedCluster,
    entries_in,
)
from tests.laws.commands.life import life_of
from tests.laws.commands.storage import in_file
from tests.laws.commands.table import judge

pytestmark = pytest.mark.slow

KILLS = 100 if PROVE else 3
"""Deaths for one file. Each takes some tenths of a second, mostly to start Python."""

STEPS = (1, 60)
"""Range of the steps before a kill; the number is random."""


def answers_until_killed(path: Path, seed: str, release: str, steps: int) -> list[AnsweredCommand]:
    """Start a process, kill it after a number of steps, and return all answers until then."""
    command = [sys.executable, "-m", "tests.laws.commands.commander", str(path), seed, release]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout is not None
    lines = []
    while steps:
        lines.append(process.stdout.readline())
        steps -= lines[-1] == b"\n"
    process.send_signal(signal.SIGKILL)
    lines += process.stdout.readlines()
    process.stdout.close()
    assert process.wait() == -signal.SIGKILL
    whole = (line for line in lines if line.endswith(b"\n") and line != b"\n")
    return [pickle.loads(bytes.fromhex(line.decode())) for line in whole]


@pytest.mark.parametrize("release", ["kip", "3.9"])
async def test_laws_hold_after_kills(tmp_path: Path, release: str) -> None:
    """Answered commands are in the log; no command is half done or done twice."""
    chance, place = seeded(release), in_file(tmp_path / "state.db")
    journal = RunJournal([], [], [])
    for kill in range(KILLS):
        seed, steps = f"{SEED}.{release}.{kill}", chance.randint(*STEPS)
        journal.answered.extend(answers_until_killed(tmp_path / "state.db", seed, release, steps))
        async with place() as log:
            died_ms = max(entry.timestamp for entry in await entries_in(log))
            survivor = SimulatedCluster(Profile.of(release), now_ms=died_ms + PAUSE_MS)
            async with survivor.plane(log) as plane:
                journal.died.append(Died(died_ms, plane.state))
    async with place() as log:
        life = life_of(await entries_in(log), journal, SimulatedCluster(Profile.of(release)))
    assert len(journal.answered) > KILLS
    judge(life)
