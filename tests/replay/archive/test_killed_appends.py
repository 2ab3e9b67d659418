"""Appends killed by `kill -9`: no record is lost or doubled."""

import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.core.releases.profiles import Profile
from replay.archive.verification import verified
from tests.conftest import PROVE
from tests.recorded_requests import HISTORIES, recorded_entries
from tests.replay.archive.archives import archived, capture, cluster_in, log_of, replayed, served
from tests.replay.archive.history_crashes import FEW, first_of
from tests.replay.crash_points import before_manifest, behind_manifest, killed_at
from tests.tidy.source import ROOT

pytestmark = pytest.mark.slow

HISTORY = "roll-3.4-3.9-3.4"


def test_a_killed_append_leaves_a_sound_archive(tmp_path: Path) -> None:
    """A killed append counts as a whole or not at all; the next capture completes the archive.

    Only `make prove` kills at every step (operation on a file); other runs kill at every 8th step.
    """
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "tests.replay.archive.history_crashes",
        str(tmp_path),
        HISTORY,
        "1" if PROVE else "8",
    ]
    subprocess.run(command, cwd=ROOT, check=True)
    entries = first_of(HISTORY)
    whole, half = len(entries), len(entries) // 2
    kip = [Profile.of("kip")]
    expected = served(log_of(entries), None, kip)
    record_counts, leftovers = [], 0
    folders = sorted(tmp_path.iterdir())
    for folder in folders:
        left = verified(cluster_in(folder))
        assert (left.flaws, left.gaps) == ((), ())
        assert left.records in (half, whole)
        record_counts.append(left.records)
        leftovers += bool(left.leftovers)
        capture(folder, log_of(entries), sizes=FEW)
        again = cluster_in(folder)
        assert len(archived(again)) == whole
        assert verified(again).flaws == ()
    assert replayed(cluster_in(folders[len(folders) // 2]), None, kip) == expected
    assert record_counts == sorted(record_counts), "a kill at a later step never loses the append"
    assert {half, whole} == {*record_counts}
    assert leftovers > len(folders) // 2


def test_a_second_kill_after_the_cleanup_loses_nothing(tmp_path: Path) -> None:
    """The second capture removes the first one's draft; a kill after its commit loses nothing.

    A draft is a manifest under a temporary name; a commit links it under its own name.
    """
    log = HISTORIES / f"{HISTORY}.log.jsonl"
    words = ("replay", "capture", f"lab={log}", str(tmp_path))
    manifests = tmp_path / "cluster=lab" / "_manifest"
    killed_at(before_manifest(0), *words)
    assert list(manifests.glob("*.json")) == []
    assert len(list(manifests.glob(".*-draft"))) == 1
    killed_at(behind_manifest(0), *words)
    assert len(list(manifests.glob("*.json"))) == 1
    assert len(list(manifests.glob(".*-draft"))) == 1, "only the second draft is left"
    result = verified(cluster_in(tmp_path, "lab"))
    assert (result.flaws, result.records) == ((), len(recorded_entries(HISTORY)))
