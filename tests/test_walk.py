"""The walk of one command through the house: its files, and its switches between them."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import controlplane
from controlplane.core.commands import CreateConnector, StopConnector
from controlplane.logs.sqlite import SqliteLog
from controlplane.logs.sqlite.settings import SqliteSettings
from controlplane.plane import ControlPlane, Settings
from controlplane.projection.limits import FollowerLimits

PACKAGE = f"{Path(controlplane.__file__).parent}/"
ARCHITECTURE = Path(__file__).parent.parent / "docs/architecture.md"

FILES, SWITCHES = 30, 134
"""Files that a stop visits in the event loop's process, and its switches between them. Lower both
when the walk becomes shorter; a longer one needs a reason."""

NEVER_MS = 3_600_000
"""Poll interval that no test reaches: a poll in the middle of the walk would be counted."""

STOPPED = ("orders", "invoices", "payments", "refunds", "returns")
"""Connectors to stop. The shortest walk counts: the first upkeep may run beside one of them."""

CONFIG = {
    "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
    "file": "/tmp/orders",
    "topic": "orders",
}


@contextmanager
def recorded_files() -> Iterator[list[str]]:
    """Record the file of each frame of the package that begins or resumes in this thread."""
    files: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            files.append(frame.f_code.co_filename.removeprefix(PACKAGE))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield files
    finally:
        sys.setprofile(before)


async def test_a_stop_takes_a_short_walk(tmp_path: Path) -> None:
    """A stop visits few files and switches seldom; architecture.md tells both numbers."""
    unpolled = SqliteSettings(tail_poll_interval_ms=NEVER_MS)
    log = await SqliteLog.open(tmp_path / "state.db", settings=unpolled)
    settings = Settings(follower=FollowerLimits(topics_poll_ms=NEVER_MS))
    walks: list[list[str]] = []
    async with ControlPlane.open(log, settings) as plane:
        for name in ("first", *STOPPED):
            await plane.execute(CreateConnector(name, CONFIG))
        await plane.execute(StopConnector("first"))  # from now on, modules are imported
        for name in STOPPED:
            with recorded_files() as files:
                await plane.execute(StopConnector(name))
            walks.append(files)
    await log.close()
    files = min(walks, key=len)
    switches = [pair for pair in pairwise(files) if pair[0] != pair[1]]
    walk = "\n".join([files[0], *(after for _, after in switches)])
    assert len(set(files)) <= FILES, walk
    assert len(switches) <= SWITCHES, walk
    sentence = f"visits {FILES} files and switches {SWITCHES} times between them"
    assert sentence in " ".join(ARCHITECTURE.read_text(encoding="utf-8").split())
