"""Benchmark of an archive's size: its log, its looks, and the savings of a merge."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.archives.cost import NAME, capture_minutes, main, merge, size_of
from controlplane.core.releases.profiles import Profile
from replay.archive.archived_cluster import open_cluster
from replay.archive.stores.store import FolderStore
from replay.engine.local_engine import LocalEngine


def test_a_merge_saves_files_and_bytes(tmp_path: Path) -> None:
    """Each minute has a look, with a file per grown partition; a merge joins them."""
    records = capture_minutes(FolderStore(str(tmp_path)), tasks=8, minutes=3, minutes_per_look=1)
    before = size_of(tmp_path, records)
    merge(tmp_path)
    after = size_of(tmp_path, records)
    assert before.files > after.files
    assert before.per_record > after.per_record
    assert sum(after.bytes_by_kind.values()) == after.bytes


def test_the_measured_cluster_runs(tmp_path: Path) -> None:
    """Each task has an offset: 8 offsets per minute, besides 22 records at the start."""
    store = FolderStore(str(tmp_path))
    assert capture_minutes(store, tasks=8, minutes=2, minutes_per_look=2) == 38
    local = LocalEngine(open_cluster(store, NAME))
    profiles = [Profile.of("kip")]
    (state,) = local.states(local.plan(None, profiles), profiles)
    assert {name: len(tasks) for name, tasks in state.config.tasks.items()} == {
        "orders-0": 4,
        "orders-1": 4,
    }
    assert sum(len(part.values) for part in state.offsets.values()) == 8
    assert sum(map(len, state.status.tasks.values())) == 8


@pytest.mark.parametrize("words", [("--every", "30"), ("--every", "90"), ("--every", "7200")])
def test_looks_that_cannot_be_measured_are_refused(words: tuple[str, ...]) -> None:
    """A look has full minutes, and the captured time has at least one look."""
    result = CliRunner().invoke(main, [*words, "--hours", "1"])
    assert result.exit_code == 2
    assert "--every" in result.stderr
