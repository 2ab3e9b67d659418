"""Captures of a broker that are killed at every step, each child one step later than the last.

Usage: python -m tests.kafka.capture_crashes FOLDER EVERY BOOTSTRAP CONFIG OFFSETS STATUS COMMANDS
"""

import asyncio
import sys
from pathlib import Path

from controlplane.core.state import Topics
from replay.archive.segments.segment_files import SegmentSizes
from replay.archive.stores.store import FolderStore
from replay.capture.log_capture import CaptureResult, CaptureTarget, LogCapture
from replay.capture.secrets import kept_secrets
from tests.kafka.producer import ONE_BATCH, reading
from tests.replay.crash_points import at_every_step

COMMIT_RECORDS = 20


def target_in(folder: Path, topics: Topics) -> CaptureTarget:
    """Archive that gets many appends in small segments."""
    return CaptureTarget(
        FolderStore(str(folder)),
        "real",
        topics,
        kept_secrets(topics),
        SegmentSizes(10, 5),
        COMMIT_RECORDS,
    )


async def capture(bootstrap: str, target: CaptureTarget) -> CaptureResult:
    """Capture a broker until one batch is archived."""
    async with reading(bootstrap, limits=ONE_BATCH) as reader:
        return await LogCapture(reader, target, goes_on=True).run()


def main(folder: str, every: str, bootstrap: str, *names: str) -> None:
    """Capture a broker into one archive after another, and be killed."""
    topics = Topics(*names)

    def capture_into(archive_folder: Path) -> None:
        asyncio.run(capture(bootstrap, target_in(archive_folder, topics)))

    at_every_step(Path(folder), Path.mkdir, capture_into, int(every))


if __name__ == "__main__":
    main(*sys.argv[1:])
