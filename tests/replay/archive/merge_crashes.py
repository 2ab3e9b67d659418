"""Merges, each in a process that is killed some steps later than the process before.

Usage: python -m tests.replay.archive.merge_crashes FOLDER HISTORY EVERY
"""

import sys
from pathlib import Path

from tests.replay.archive.history_crashes import first_of
from tests.replay.archive.merges import looks, merged
from tests.replay.crash_points import at_every_step

LOOKS = 3


def main(folder: Path, history: str, every: int) -> None:
    """Archive a history in a few looks, then merge; kill each merge some steps later."""
    entries = first_of(history)
    at_every_step(folder, lambda into: looks(into, entries, LOOKS), merged, every)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
