"""Missing and damaged winners and snapshots: `compact-archive` replaces them or leaves them out."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.archive.verification import verified
from tests.conftest import examples
from tests.recorded_requests import recorded_entries
from tests.replay.archive.archives import archive, cluster_in, lasting_days
from tests.replay.archive.merges import looks, merge_answers, merged, states_at
from tests.replay.archive.test_damage import flip
from tests.replay.cli.replay_calls import call, content, refusal

pytestmark = pytest.mark.slow

ENTRIES = lasting_days(recorded_entries("life-3.9"))


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archive of two looks, with winners and daily snapshots, which no test changes."""
    folder = tmp_path_factory.mktemp("sound")
    looks(folder, ENTRIES, 2)
    return folder


@pytest.fixture
def small(sound: Path, tmp_path: Path) -> Path:
    """Copy of this archive."""
    return shutil.copytree(sound, tmp_path / "small")


def copies(folder: Path, kind: str) -> list[Path]:
    """Files of winners or snapshots, by name."""
    return sorted(folder.rglob(kind))


def cut(path: Path) -> None:
    """Remove the last byte of a file."""
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("is_merged", [False, True])
@pytest.mark.parametrize("damage", [Path.unlink, cut])
@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("_winners-*", "replaced 1 damaged file of winners"),
        ("_snapshots/*.parquet", "left out 1 damaged snapshot; no answer needs them"),
        ("_snapshots/*.msgpack.zst", "left out 1 damaged snapshot; no answer needs them"),
    ],
)
def test_a_damaged_copy_is_replaced_or_left_out(
    kind: str, sentence: str, damage: Callable[[Path], None], small: Path, *, is_merged: bool
) -> None:
    """Also if there is nothing to merge. The archive is sound afterwards, with the same state."""
    if is_merged:
        merged(small)
    before = call("state", small)
    damage(copies(small, kind)[-1])
    assert call("verify", small).code == 2
    done = call("compact-archive", small)
    assert (done.code, sentence in done.out) == (0, True)
    assert call("verify", small).code == 0
    assert call("state", small) == before
    assert "damaged" not in call("compact-archive", small).out


def test_an_altered_copy_is_removed_first(small: Path) -> None:
    """The advice of each command leads to a sound archive; only a removed file is replaced."""
    path = copies(small, "_snapshots/*.parquet")[-1]
    flip(path)
    for command in ("state", "verify"):
        sentence = refusal(call(command, small))
        assert "remove what is left of the file, and run `replay compact-archive`" in sentence
    path.unlink()
    assert call("compact-archive", small).code == 0
    assert call("state", small) == call("state", small, "--from-segments")


def test_other_damage_needs_a_copy(small: Path) -> None:
    """A damaged segment beside missing winners is refused, and nothing is changed."""
    copies(small, "_winners-*")[0].unlink()
    cut(copies(small, "segment-*")[0])
    before = content(small)
    assert "restore it from a copy. Without a copy, move the folder" in refusal(
        call("compact-archive", small)
    )
    assert "and capture the cluster anew" in refusal(call("verify", small))
    assert content(small) == before


def test_a_rehearsal_counts_damaged_copies(small: Path) -> None:
    """`--dry-run` tells their number, and changes nothing."""
    for path in (copies(small, "_winners-*")[0], copies(small, "_snapshots/*")[0]):
        path.unlink()
    before = content(small)
    shown = call("compact-archive", small, "--dry-run")
    assert (shown.code, "2 damaged files would be replaced or left out" in shown.out) == (0, True)
    assert content(small) == before


def test_removal_by_age_needs_no_copies(small: Path) -> None:
    """`--retain` gives the same records with and without the winners and snapshots."""
    other = shutil.copytree(small, small.parent / "other")
    for kind in ("_winners-*", "_snapshots/*"):
        for path in copies(other, kind):
            path.unlink()
    for folder in (small, other):
        assert call("compact-archive", folder, "--retain", "1d").code == 0
    before, after = cluster_in(small), cluster_in(other)
    assert merge_answers(after) == merge_answers(before)
    assert verified(after).flaws == ()


@settings(max_examples=examples(1, proved=60))
@given(st.data())
def test_no_answer_depends_on_copies(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Any of them may be missing before a merge: all answers stay the same."""
    folder = tmp_path_factory.mktemp("any")
    before = archive(folder / "whole", ENTRIES)
    looks(folder / "small", ENTRIES, data.draw(st.integers(1, 3)))
    every = [*copies(folder, "small/**/_winners-*"), *copies(folder, "small/**/_snapshots/*")]
    for path in data.draw(st.sets(st.sampled_from(every), min_size=1)):
        path.unlink()
    assert call("compact-archive", folder / "small").code == 0
    after = cluster_in(folder / "small")
    assert verified(after).flaws == ()
    assert states_at(after, None) == states_at(before, None)
    assert merge_answers(after) == merge_answers(before)
