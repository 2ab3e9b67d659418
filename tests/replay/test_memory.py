"""The memory of a command does not depend on the size of an archive or a log."""

import asyncio
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.core.entry import Entry
from controlplane.logs.sqlite import SqliteLog
from replay.archive.segments.segment_files import SegmentSizes
from tests.conftest import PROVE
from tests.replay.archive.archives import archive
from tests.tidy.source import ROOT

RECORDS = 5_000
VALUE_BYTES = 2_000
KEYS = 100

SIZES = SegmentSizes(segment_records=2_000, row_group_rows=500)
"""Small segments; each row group has a megabyte of values."""

MANY = 8 if PROVE else 6
"""Size of the large log, as a multiple of the small one: 50 or 70 MB more of values in each topic.
"""

WAITING = "from replay.archive import appender; appender.WAITING_BYTES = 4_000_000"
SMALL_CHUNKS = "from replay.timeline import timeline_rows; timeline_rows.ROWS_AT_ONCE = 1_000"
"""Patches that make buffers small: the watched process fills each of them many times."""

ROOM_BYTES = 40_000_000
"""Allowed growth of memory: below the values of one topic, above the jitter of row groups."""

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
    """Offsets and statuses that repeat the same values; they cannot be compacted."""
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
    """Peak memory of a process that runs this, in bytes."""
    program = f"{WAITING}\n{SMALL_CHUNKS}\n{PEAK}"
    words = [sys.executable, "-c", program, *command.split()]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    return int(done.stderr.splitlines()[-1])


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small and a large archive."""
    folder = tmp_path_factory.mktemp("archives")
    for name, records in (("small", RECORDS), ("large", MANY * RECORDS)):
        archive(folder / name, list(entries(records)), SIZES)
    return folder


COMMANDS = (
    ("state {archive} -o json", ROOM_BYTES),
    pytest.param("state {archive} --from-segments -o json", ROOM_BYTES, marks=pytest.mark.prove),
    pytest.param("verify {archive} -o json", ROOM_BYTES, marks=pytest.mark.prove),
    pytest.param(
        "timeline {archive} -o parquet --to {file}", 4 * ROOM_BYTES, marks=pytest.mark.prove
    ),
)
"""Commands, and the allowed growth in bytes from the small archive to the large one.

A timeline holds records as Python objects: all records of the large archive take 360 MB more.
"""


@ON_LINUX
@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "room_bytes"), COMMANDS, ids=["state", "from-segments", "verify", "timeline"]
)
def test_more_records_take_no_more_memory(
    archives: Path, tmp_path: Path, command: str, room_bytes: int
) -> None:
    """The peak is bounded with all segments read, and with snapshots or winners in their place."""
    small, large = (
        peak_bytes(command.format(archive=archives / name, file=tmp_path / f"{name}.parquet"))
        for name in ("small", "large")
    )
    assert large - small < room_bytes


@ON_LINUX
def test_a_longer_log_is_captured_in_no_more_memory(tmp_path: Path) -> None:
    """Records are written in portions while the log is read."""
    peaks = []
    for name, records in (("small", RECORDS), ("large", MANY * RECORDS)):
        asyncio.run(write(tmp_path / f"{name}.db", records))
        command = f"capture --once {tmp_path / name}.db {tmp_path / name} -o json"
        peaks.append(peak_bytes(command))
        assert len(list((tmp_path / name).rglob("segment-*"))) > 2 * records // MANY // RECORDS
    # The small capture does not fill every buffer. Full buffers take 30 to 45 MB more, whatever
    # the length of the log.
    assert peaks[1] - peaks[0] < 2 * ROOM_BYTES
