"""Killed retentions and full disks: a retention is whole or absent; the next one cleans up.

A retention removes superseded records: no state at or after its cut (a time) depends on them.
A merge with a retention leaves these records out of the merged segments.
"""

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from time import time

import pytest

from replay.archive.merges.unnamed_files import AGE_S, leftovers, remove_leftovers
from replay.archive.stores.store import FolderStore
from replay.archive.verification import verified
from tests.conftest import PROVE
from tests.replay.archive.archives import NAME, cluster_in, replayed
from tests.replay.archive.history_crashes import first_of
from tests.replay.archive.merges import KIP, looks
from tests.replay.cli.replay_calls import call, content
from tests.replay.crash_points import CrashPoint, before_manifest, behind_manifest, killed_at
from tests.replay.limited_process import run_limited
from tests.replay.retention.retention_archives import answers_from, retained
from tests.replay.retention.retention_crashes import LOOKS
from tests.tidy.source import ROOT

pytestmark = pytest.mark.slow

HISTORY = "roll-3.4-3.9-3.4"
ENTRIES = first_of(HISTORY)
CUT_MS = ENTRIES[-5].timestamp

REPLACED, MANIFEST = 1, 2
"""Two of the files that a merge links in `_manifest`, numbered from 0 in the order of the links.

File 0 has the readings (offsets that captures have read), 1 the replaced manifests. File 2 is the
new manifest.
"""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archive of three looks (captures of a growing log); no test changes it."""
    folder = tmp_path_factory.mktemp("sound")
    looks(folder, ENTRIES, LOOKS)
    return folder


@pytest.fixture
def folder(sound: Path, tmp_path: Path) -> Path:
    """Copy of that archive."""
    return shutil.copytree(sound, tmp_path / "archive")


def aged(folder: Path) -> None:
    """Set the times of all files so far back that no running merge can have written them."""
    past_s = time() - AGE_S - 1
    for path in folder.rglob("*"):
        os.utime(path, (past_s, past_s))


def without_drafts(names: Iterable[str]) -> set[str]:
    """Names without those of drafts (unfinished files), which the next writer deletes anyway."""
    return {name for name in names if "-draft" not in name}


def test_a_killed_retention_is_whole_or_absent(sound: Path, tmp_path: Path) -> None:
    """The archive is sound after a kill, and the next retention completes the removal.

    The kills are 227 steps apart; with PROVE they come at every step.
    """
    every = "1" if PROVE else "227"
    module = "tests.replay.retention.retention_crashes"
    words = ("-m", module, str(tmp_path / "killed"), HISTORY, str(CUT_MS), every)
    subprocess.run([sys.executable, "-W", "ignore", *words], cwd=ROOT, check=True)
    expected = answers_from(cluster_in(sound), CUT_MS)
    record_counts = []
    for killed in sorted((tmp_path / "killed").iterdir()):
        left = verified(cluster_in(killed))
        assert left.flaws == ()
        record_counts.append(left.records)
        retained(killed, CUT_MS)
        again = verified(cluster_in(killed))
        assert (again.flaws, again.manifests, again.replaced) == ((), 1, 0)
        if record_counts.count(left.records) == 1:
            assert answers_from(cluster_in(killed), CUT_MS) == expected
        aged(killed)
        remove_leftovers(FolderStore(str(killed)), NAME)
        assert verified(cluster_in(killed)).leftovers == ()
    assert record_counts == sorted(record_counts, reverse=True), (
        "a kill at a later step never restores the records"
    )
    assert len({*record_counts}) == 2


@pytest.mark.parametrize(
    ("point", "is_done"),
    [
        pytest.param(before_manifest(REPLACED), False, marks=pytest.mark.prove),
        (before_manifest(MANIFEST), False),
        (behind_manifest(MANIFEST), True),
    ],
)
def test_the_next_run_removes_leftovers_of_a_killed_one(
    folder: Path, point: CrashPoint, *, is_done: bool
) -> None:
    """Leftovers are removed once they are old; until then a running merge may need them."""
    expected = replayed(cluster_in(folder), None, KIP)
    killed_at(point, "replay", "compact-archive", str(folder), "--retain", "1h")
    left = verified(cluster_in(folder))
    files = without_drafts(left.leftovers)
    assert (left.flaws, left.records < len(ENTRIES)) == ((), is_done)
    assert bool(files) is not is_done
    assert leftovers(FolderStore(str(folder)), NAME) == []
    (young,) = call("compact-archive", folder, "--retain", "1h", "-o", "json").json
    assert young["merged"] is not is_done
    assert without_drafts(verified(cluster_in(folder)).leftovers) == files
    aged(folder)
    removed = call("compact-archive", folder, "--retain", "1h")
    assert ("files of killed processes" in removed.out) is not is_done
    assert verified(cluster_in(folder)).leftovers == ()
    assert replayed(cluster_in(folder), None, KIP) == expected


@pytest.mark.prove
def test_a_dry_run_counts_leftovers(folder: Path) -> None:
    """A dry run counts the leftovers and removes none."""
    killed_at(before_manifest(MANIFEST), "replay", "compact-archive", str(folder))
    aged(folder)
    before = content(folder)
    (plan,) = call("compact-archive", folder, "--dry-run", "-o", "json").json
    assert plan["leftovers"] == len(verified(cluster_in(folder)).leftovers) > 0
    assert content(folder) == before


def test_files_of_a_capture_stay(folder: Path) -> None:
    """Old files of a capture stay: the manifest of a repeated capture names the same files."""
    log = ROOT / "tests" / "histories" / f"{HISTORY}.log.jsonl"
    killed_at(before_manifest(0), "replay", "capture", f"{NAME}={log}", str(folder))
    left = verified(cluster_in(folder)).leftovers
    assert any("/segment-" in name for name in left)
    aged(folder)
    call("compact-archive", folder)
    kept = verified(cluster_in(folder)).leftovers
    assert {*kept} == without_drafts(left)
    assert call("capture", f"{NAME}={log}", folder).code == 0
    again = verified(cluster_in(folder))
    assert (again.flaws, again.leftovers) == ((), ())


def test_a_full_disk_changes_nothing(folder: Path) -> None:
    """A retention without room fails, says why, and removes its own files; a later one succeeds."""
    before = content(folder)
    limit = 3_000
    retain = ("compact-archive", folder, "--retain", "1h")
    ended = run_limited(resource.RLIMIT_FSIZE, limit, limit, *retain)
    assert ended.returncode == 2
    assert f"{folder} cannot be written (File too large)" in ended.stderr
    assert content(folder) == before
    assert call("compact-archive", folder, "--retain", "1h").code == 0
    assert verified(cluster_in(folder)).records < len(ENTRIES)
