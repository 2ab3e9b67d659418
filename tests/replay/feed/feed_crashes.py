"""Run a feed's batch in one process after another; each is killed some steps further on.

Usage: python -m tests.replay.feed.feed_crashes PREPARED FOLDER EVERY
"""

import shutil
import sys
from pathlib import Path

from tests.replay.crash_points import at_every_step
from tests.replay.feed.feed_laws import feed_in


def main(prepared: Path, folder: Path, every: int) -> None:
    """Copy the feed, run its next batch and kill it; repeat with later kills until one survives."""
    at_every_step(
        folder,
        lambda into: shutil.copytree(prepared, into),
        lambda into: feed_in(into).advance(),
        every,
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
