"""Retentions, each in a process that is killed some steps later than the process before.

Usage: python -m tests.replay.retention.retention_crashes FOLDER HISTORY CUT_MS EVERY
"""

import sys
from pathlib import Path

from tests.replay.archive.history_crashes import first_of
from tests.replay.archive.merges import looks
from tests.replay.crash_points import at_every_step
from tests.replay.retention.retention_archives import retained

LOOKS = 3


def main(folder: Path, history: str, cut_ms: int, every: int) -> None:
    """Archive a history in three looks (captures of a growing log), then run and kill a retention.

    Each round kills the retention `every` steps later than the round before.
    """
    entries = first_of(history)
    at_every_step(
        folder,
        lambda into: looks(into, entries, LOOKS),
        lambda into: retained(into, cut_ms),
        every,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
