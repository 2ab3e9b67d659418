"""Captures of the second half of a history, each killed some steps later than the one before.

A step is an operation on a file of the archive.

Usage: python -m tests.replay.archive.history_crashes FOLDER HISTORY EVERY
"""

import sys
from pathlib import Path

from controlplane.core.entry import Entry
from replay.archive.segments.segment_files import SegmentSizes
from tests.recorded_requests import recorded_entries
from tests.replay.archive.archives import capture, log_of
from tests.replay.crash_points import at_every_step

FEW = SegmentSizes(20, 10)
RECORDS = 60


def first_of(history: str) -> list[Entry]:
    """Beginning of a history, short because each step costs a few captures."""
    return recorded_entries(history)[:RECORDS]


def main(folder: Path, history: str, every: int) -> None:
    """Archive half of a history; kill the capture of the rest, some steps later each time."""
    entries = first_of(history)
    half = entries[: len(entries) // 2]
    at_every_step(
        folder,
        lambda into: capture(into, log_of(half), sizes=FEW),
        lambda into: capture(into, log_of(entries), sizes=FEW),
        every,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
