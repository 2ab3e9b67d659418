"""A disk becomes full in the middle of a merge or retention of several clusters.

The disk is a small file system in memory. If none can be mounted, the size of files is limited.
"""

import errno
import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from controlplane.core.entry import Entry
from replay.archive.verification import verified
from tests.conftest import seeded
from tests.recorded_requests import recorded_entries
from tests.replay.archive.archives import capture, cluster_in, log_of, replayed
from tests.replay.cli.replay_calls import call, content
from tests.replay.limited_process import run_limited
from tests.replay.retention.retention_archives import READERS, state_contents

pytestmark = pytest.mark.slow

ENTRIES = recorded_entries("roll-3.4-3.9-3.4")
SMALL, LARGE, LAST = "east", "north", "west"
CLUSTERS = SMALL, LARGE, LAST
LOOKS = 3
VALUE_BYTES = 40_000
"""Size of the large values: random digits, which compression at most halves."""
LARGE_RECORDS = 40
ROOM_BYTES = 400_000
"""Free bytes of the disk: enough to merge a small cluster, and too few for the large one."""
DISK_BYTES = 64_000_000
"""Size of the disk: much more than the archive, so that only `fill` makes it full."""


class ArchiveDisk(NamedTuple):
    """Folder on a disk of its own, or on the disk of all tests."""

    folder: Path
    is_own: bool

    @property
    def archive(self) -> Path:
        """Folder of the archive."""
        return self.folder / "archive"

    def fill(self) -> None:
        """Leave `ROOM_BYTES` bytes of a disk of its own."""
        free = shutil.disk_usage(self.folder).free
        if self.is_own:
            self._filler.write_bytes(bytes(free - ROOM_BYTES))

    def make_room(self) -> None:
        """Undo `fill`."""
        self._filler.unlink(missing_ok=True)

    def run(self, *words: object) -> "subprocess.CompletedProcess[str]":
        """Run `replay`, with a limit on file sizes if the disk is not its own."""
        limit = resource.RLIM_INFINITY if self.is_own else ROOM_BYTES
        return run_limited(resource.RLIMIT_FSIZE, limit, limit, *words)

    @property
    def problem(self) -> str:
        """Words of the system about a write without room."""
        return os.strerror(errno.ENOSPC if self.is_own else errno.EFBIG)

    @property
    def _filler(self) -> Path:
        return self.folder / "filler"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[ArchiveDisk]:
    """Disk of `DISK_BYTES` with an archive of three clusters; it is unmounted afterwards."""
    folder = tmp_path / "disk"
    folder.mkdir()
    options = f"size={DISK_BYTES},mode=700"
    mounts = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    is_own = (
        bool(shutil.which("mount"))
        and not subprocess.run(mounts, check=False, capture_output=True).returncode
    )
    try:
        disk = ArchiveDisk(folder, is_own)
        for name, entries in ((SMALL, ENTRIES), (LARGE, large_log()), (LAST, ENTRIES)):
            for look in range(1, LOOKS + 1):
                capture(disk.archive, log_of(entries[: len(entries) * look // LOOKS]), name=name)
        yield disk
    finally:
        if is_own:
            subprocess.run(["umount", str(folder)], check=True)


def large_log() -> list[Entry]:
    """Log with many large values in one partition of offsets."""
    random, last = seeded("large values"), ENTRIES[-1]
    first = sum((entry.topic, entry.partition) == ("connect-offsets", 0) for entry in ENTRIES)
    return ENTRIES + [
        Entry(
            "connect-offsets",
            0,
            first + number,
            last.timestamp + number,
            b'["pages",{"file":%d}]' % number,
            b'{"at":"%s"}' % random.randbytes(VALUE_BYTES // 2).hex().encode(),
        )
        for number in range(LARGE_RECORDS)
    ]


@pytest.mark.parametrize("retain", [(), pytest.param(("--retain", "1h"), marks=pytest.mark.prove)])
def test_the_others_are_merged(disk: ArchiveDisk, retain: tuple[str, ...]) -> None:
    """The large cluster is named and unchanged, the others are merged; with room, it is, too."""
    words = ("compact-archive", disk.archive, *retain)
    states = {name: states_of(disk.archive, name) for name in CLUSTERS}
    before = content(disk.archive / f"cluster={LARGE}")
    disk.fill()
    result = disk.run(*words)
    assert result.returncode == 2
    assert result.stderr.splitlines()[-1].startswith(
        f"Error: {LARGE}: {disk.archive} cannot be written ({disk.problem})"
    )
    assert content(disk.archive / f"cluster={LARGE}") == before
    assert_sound(disk.archive, {SMALL: 1, LARGE: LOOKS, LAST: 1}, states)
    disk.make_room()
    assert call(*words).code == 0
    assert_sound(disk.archive, dict.fromkeys(CLUSTERS, 1), states)


def assert_sound(archive: Path, manifests: dict[str, int], states: dict[str, Any]) -> None:
    """Check number of manifests and states of each cluster, and that no file is left over."""
    for name, number in manifests.items():
        result = verified(cluster_in(archive, name))
        assert (result.flaws, result.leftovers, result.manifests) == ((), (), number)
        assert states_of(archive, name) == states[name]


def states_of(archive: Path, name: str) -> Any:
    """Contents of the states at the end of a cluster, which neither command changes."""
    return state_contents(replayed(cluster_in(archive, name), None, READERS))
