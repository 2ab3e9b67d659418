"""Batches of a feed, each in a process that is killed some steps later than the process before.

Usage: python -m tests.replay.feed.feed_crashes PREPARED FOLDER EVERY
"""

import shutil
import sys
from pathlib import Path

from tests.replay.crash_points import at_every_step
from tests.replay.feed.feed_laws import feed_in


def main(prepared: Path, folder: Path, every: int) -> None:
    """Copy a feed whose archive has new records, and read them; kill each run some steps later."""
    at_every_step(
        folder,
        lambda into: shutil.copytree(prepared, into),
        lambda into: feed_in(into).advance(),
        every,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
