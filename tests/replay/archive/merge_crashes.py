"""Merges, each killed some steps later than the one before.

A step is an operation on a file of the archive.

Usage: python -m tests.replay.archive.merge_crashes FOLDER HISTORY EVERY
"""

import sys
from pathlib import Path

from tests.replay.archive.history_crashes import first_of
from tests.replay.archive.merges import looks, merged
from tests.replay.crash_points import at_every_step

LOOKS = 3


def main(folder: Path, history: str, every: int) -> None:
    """Archive a history in a few captures; kill the merge, some steps later each time."""
    entries = first_of(history)
    at_every_step(folder, lambda into: looks(into, entries, LOOKS), merged, every)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
