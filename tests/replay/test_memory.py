"""How much memory a question takes depends on what counts in an archive, not on what lies in it."""

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.core.entry import Entry
from replay.archive.segments import Sizes
from tests.replay.archived import archive
from tests.tidy.source import ROOT

RECORDS = 5_000
VALUE_BYTES = 2_000
KEYS = 100

SIZES = Sizes(segment_records=2_000, row_group_rows=500)
"""A row group is a megabyte of values."""

MANY = 8
"""So many times as large is the other archive: by 70 MB of values in each topic."""

ROOM_BYTES = 40_000_000
"""What may come on top: far less than the values of one topic, far more than row groups differ."""

PEAK = """
import resource, sys, threading
from replay.cli.main import main

peak, ended = 0, threading.Event()

def look():
    global peak
    while not ended.wait(0.002):
        _, resident, mapped, *_ = map(int, open("/proc/self/statm").read().split())
        peak = max(peak, resident - mapped)

looking = threading.Thread(target=look)
looking.start()
main(sys.argv[1:], standalone_mode=False)
ended.set()
looking.join()
print(peak * resource.getpagesize(), file=sys.stderr)
"""
"""A command, and the most memory that it had. Mapped files are not in it: they are not held."""


def entries(records: int) -> Iterator[Entry]:
    """Offsets and statuses that tell the same again and again; nothing makes them smaller."""
    chance = random.Random(records)
    for at in range(records):
        trace, name = chance.randbytes(VALUE_BYTES // 2).hex(), at % KEYS
        offset = f'{{"at":"{trace}"}}'.encode()
        yield Entry("connect-offsets", 0, at, at, b'["a",{"p":%d}]' % name, offset)
        status = f'{{"state":"FAILED","trace":"{trace}","worker_id":"w","generation":1}}'.encode()
        yield Entry("connect-status", 0, at, at, b"status-connector-%d" % name, status)


def peak_bytes(folder: Path, *options: str) -> int:
    """The most memory that a process had which worked out the state."""
    words = [sys.executable, "-c", PEAK, "state", str(folder), *options, "-o", "json"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    return int(done.stderr)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process's peak like this")
def test_more_of_the_same_takes_no_more_memory(tmp_path: Path) -> None:
    """Neither from segments, which are all read, nor from what stands in for them."""
    for folder, records in (("small", RECORDS), ("large", MANY * RECORDS)):
        archive(tmp_path / folder, list(entries(records)), SIZES)
    for options in ((), ("--from-segments",)):
        small, large = (peak_bytes(tmp_path / one, *options) for one in ("small", "large"))
        assert large - small < ROOM_BYTES
