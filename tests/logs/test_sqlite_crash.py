"""Acknowledged records survive `kill -9`, and no transaction is half done.

Child processes append transactions over two topics to one file, and the test kills them many times.
The test simulates no power failure: SQLite's guarantees cover it.
"""

import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.logs.sqlite import SqliteLog
from tests.conftest import PROVE, seeded
from tests.jars import ROOT
from tests.logs.reading_contract import entries_of

pytestmark = pytest.mark.slow

ROUNDS = {1: 160, 2: 100} if PROVE else {1: 5, 2: 3}
"""Rounds by number of writers. One takes 0.1 to 0.4 s, mostly to start Python."""

ACKS = (1, 300)
"""Range of acknowledgements before a kill; the number is random.

A kill early in a life and one during a checkpoint (one per 1,000 pages) both occur.
"""


def start(path: Path, name: str) -> "subprocess.Popen[bytes]":
    """Start a process that appends until it is killed."""
    command = [sys.executable, "-m", "tests.logs.appender", str(path), name]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)


def kill(process: "subprocess.Popen[bytes]", acks: int) -> set[bytes]:
    """Kill the process after a number of acknowledgements; return its whole output."""
    assert process.stdout is not None
    acked = [process.stdout.readline() for _ in range(acks)]
    process.send_signal(signal.SIGKILL)
    rest = process.stdout.read()
    process.stdout.close()
    assert process.wait() == -signal.SIGKILL
    # A line without its end does not count: the process died while it wrote the line.
    printed = b"".join(acked) + rest
    return set(printed[: printed.rfind(b"\n") + 1].split())


async def keys(log: SqliteLog, topic: str) -> list[bytes | None]:
    """All keys of a topic; its offsets must have no gaps."""
    entries = await entries_of(log.read([topic]))
    assert [entry.offset for entry in entries] == list(range(len(entries)))
    assert dict(await log.ends([topic])) == {topic: [len(entries)]}
    return [entry.key for entry in entries]


@pytest.mark.parametrize("writers", ROUNDS)
async def test_acknowledged_records_survive_kills(tmp_path: Path, writers: int) -> None:
    """Acknowledged records exist; transactions are whole, offsets have no gap."""
    path, chance, acked = tmp_path / "control.log", seeded(f"crash/{writers}"), set[bytes]()
    log = await SqliteLog.open(path)
    await log.create_topic("config", 1)
    await log.create_topic("offsets", 1)
    await log.close()
    for round_ in range(ROUNDS[writers]):
        processes = [start(path, f"{round_}-{writer}") for writer in range(writers)]
        for process in processes:
            acked |= kill(process, chance.randint(*ACKS))
        log = await SqliteLog.open(path, create=False)
        config, offsets = await keys(log, "config"), await keys(log, "offsets")
        await log.close()
        assert config == offsets
        assert len(config) == len(set(config))
        assert acked <= set(config)
    assert len(acked) > ROUNDS[writers] * writers
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA quick_check").fetchall() == [("ok",)]
    connection.close()
