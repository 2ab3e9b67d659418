"""The memory of a command does not depend on the size of an archive or a log."""

import asyncio
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from controlplane.core.entry import Entry
from controlplane.logs.sqlite import SqliteLog
from tests.conftest import PROVE
from tests.tidy.source import ROOT

pytestmark = pytest.mark.slow

RECORDS = 5_000
VALUE_BYTES = 2_000
KEYS = 100

MANY = 8 if PROVE else 6
"""Size of the large log, as a multiple of the small one.

The topics of offsets and statuses then each have 50 MB more of values (70 MB with PROVE).
"""

WAITING = "from replay.archive import appender; appender.WAITING_BYTES = 4_000_000"
SMALL_CHUNKS = "from replay.timeline import timeline_rows; timeline_rows.ROWS_AT_ONCE = 1_000"
"""Patches that make the buffers of captures and of timelines small.

A large capture or timeline fills its buffer several times.
"""

ROOM_BYTES = 40_000_000
"""Allowed growth in bytes from the small archive to the large one.

The values of one topic grow by more (see `MANY`). Row groups of different sizes can cause growth,
too, but less.
"""

ON_LINUX = pytest.mark.skipif(
    sys.platform != "linux", reason="needs Linux, where /proc has the memory of a process"
)

PEAK = """
import resource, sys, threading
from replay.cli.main import main

peak, ended = 0, threading.Event()

def look():
    global peak
    while not ended.wait(0.002):
        _, resident, mapped, *_ = map(int, open("/proc/self/statm").read().split())
        peak = max(peak, resident - mapped)

looking = threading.Thread(target=look, daemon=True)
looking.start()
main(sys.argv[1:], standalone_mode=False)
ended.set()
looking.join()
print(peak * resource.getpagesize(), file=sys.stderr)
"""
"""Program that runs a command and prints its peak memory in bytes, without mapped files."""


def entries(records: int) -> Iterator[Entry]:
    """Offsets and statuses of 100 keys in turn; values are random, so none repeats in a topic."""
    chance = random.Random(records)
    for at in range(records):
        trace, name = chance.randbytes(VALUE_BYTES // 2).hex(), at % KEYS
        offset = f'{{"at":"{trace}"}}'.encode()
        yield Entry("connect-offsets", 0, at, at, b'["a",{"p":%d}]' % name, offset)
        status = f'{{"state":"FAILED","trace":"{trace}","worker_id":"w","generation":1}}'.encode()
        yield Entry("connect-status", 0, at, at, b"status-connector-%d" % name, status)


async def write(path: Path, records: int) -> None:
    """Write the entries to an embedded log."""
    log, written = await SqliteLog.open(path), list(entries(records))
    for topic in ("connect-configs", "connect-offsets", "connect-status"):
        await log.create_topic(topic, 1)
    for start in range(0, len(written), RECORDS):
        await log.put(written[start : start + RECORDS])
    await log.close()


def peak_bytes(command: str) -> int:
    """Peak memory in bytes of a process that runs a command of `replay`."""
    program = f"{WAITING}\n{SMALL_CHUNKS}\n{PEAK}"
    words = [sys.executable, "-c", program, *command.split()]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    return int(done.stderr.splitlines()[-1])


class Captured(NamedTuple):
    """A small and a large archive, captured by processes."""

    folder: Path
    peaks_bytes: list[int]
    """Peak memory of each capture."""


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Captured:
    """Capture a short and a long log; both tests use the archives."""
    folder, peaks_bytes = tmp_path_factory.mktemp("captured"), []
    for name, records in (("small", RECORDS), ("large", MANY * RECORDS)):
        asyncio.run(write(folder / f"{name}.db", records))
        command = f"capture --once {folder / name}.db {folder / name} -o json"
        peaks_bytes.append(peak_bytes(command))
    return Captured(folder, peaks_bytes)


COMMANDS = (
    pytest.param("state {archive} -o json", ROOM_BYTES, marks=pytest.mark.prove),
    pytest.param("state {archive} --from-segments -o json", ROOM_BYTES, marks=pytest.mark.prove),
    pytest.param("verify {archive} -o json", ROOM_BYTES, marks=pytest.mark.prove),
    pytest.param(
        "timeline {archive} -o parquet --to {file}", 4 * ROOM_BYTES, marks=pytest.mark.prove
    ),
)
"""Commands, and the allowed growth in bytes from the small archive to the large one.

A timeline holds records as Python objects. With all records in memory, the large archive would take
360 MB more than the small one.
"""


@ON_LINUX
@pytest.mark.parametrize(
    ("command", "room_bytes"), COMMANDS, ids=["state", "from-segments", "verify", "timeline"]
)
def test_more_records_take_no_more_memory(
    captured: Captured, tmp_path: Path, command: str, room_bytes: int
) -> None:
    """Peak memory is bounded, both with snapshots and if all segments are read."""
    small, large = (
        peak_bytes(
            command.format(archive=captured.folder / name, file=tmp_path / f"{name}.parquet")
        )
        for name in ("small", "large")
    )
    assert large - small < room_bytes


@ON_LINUX
def test_a_longer_log_is_captured_in_no_more_memory(captured: Captured) -> None:
    """Records are written in portions while the log is read."""
    for name, records in (("small", RECORDS), ("large", MANY * RECORDS)):
        segments = list((captured.folder / name).rglob("segment-*"))
        assert len(segments) > 2 * records // MANY // RECORDS
    # The small capture does not fill every buffer. Full buffers take 30 to 45 MB more, whatever
    # the length of the log.
    small, large = captured.peaks_bytes
    assert large - small < 2 * ROOM_BYTES
