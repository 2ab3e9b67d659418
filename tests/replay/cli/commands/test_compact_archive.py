"""`replay compact-archive`: its output, its options, and archives in object stores."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import replay
from replay.archive import archived_cluster
from replay.archive.merges.replaced_manifests import packed
from tests.recorded_requests import recorded_entries
from tests.replay.archive.archives import NAME, capture, capture_into, cluster_in, log_of
from tests.replay.archive.buckets import Bucket, bucket, in_bucket
from tests.replay.archive.merges import looks
from tests.replay.cli.replay_calls import call, content, refusal

pytestmark = pytest.mark.slow

ENTRIES = recorded_entries("roll-3.4-3.9-3.4")
LOOKS = 3


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archive that a few captures of a growing log have written; no test changes it."""
    folder = tmp_path_factory.mktemp("sound")
    looks(folder, ENTRIES, LOOKS)
    return folder


@pytest.fixture
def small(sound: Path, tmp_path: Path) -> Path:
    """Copy of that archive, which a test may change."""
    return shutil.copytree(sound, tmp_path / "small")


@pytest.fixture(scope="module")
def stores() -> Iterator[Bucket]:
    """An object store with one bucket."""
    with bucket("compact") as made:
        yield made


def test_json_has_the_numbers_before_and_after(small: Path) -> None:
    """JSON has the numbers before and after, the removed files, and the last manifest's hash."""
    files = len(content(small))
    (done,) = call("compact-archive", small, "-o", "json").json
    assert done["manifests"] == [LOOKS, 1]
    assert done["files"][0] == files
    assert (done["remaining"], done["merged"]) == (0, True)
    assert done["removed"] > 20
    assert done["head"] == cluster_in(small).chain.head
    # `files` leaves out the signpost: it replaces the first manifest and names the merged one.
    assert len(content(small)) == done["files"][1] + 1


def test_the_table_prints_numbers_before_and_after(small: Path) -> None:
    """The table prints each number as `before → after`."""
    result = call("compact-archive", small)
    assert result.code == 0
    assert result.out.splitlines()[2].split()[:4] == [NAME, str(LOOKS), "→", "1"]


def test_a_merge_without_new_segments_changes_nothing(small: Path) -> None:
    """A second `compact-archive` changes no file."""
    call("compact-archive", small)
    before = content(small)
    (done,) = call("compact-archive", small, "-o", "json").json
    assert (done["merged"], done["manifests"], done["removed"]) == (False, [1, 1], 0)
    assert content(small) == before


def test_commands_advise_a_merge_of_many_manifests(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`verify` and the commands that plan a cluster advise a merge, until it is done."""
    monkeypatch.setattr(archived_cluster, "MANY_MANIFESTS", LOOKS)
    advice = f"{NAME}: {LOOKS} manifests to open: merge them with `replay compact-archive`"
    commands = [
        ("verify", small),
        ("state", small),
        ("timeline", small),
        ("history", small, "--connector", "pages"),
        ("diff", small, "--from", "config@1"),
    ]
    for words in commands:
        assert call(*words).err.splitlines().count(advice) == 1
    call("compact-archive", small)
    for words in commands:
        assert advice not in call(*words).err


def test_replaced_files_stay_for_the_grace_period(small: Path) -> None:
    """Replaced files stay until a run after the grace period; `verify` counts them."""
    assert (
        "replaced files remain for readers" in call("compact-archive", small, "--grace", "3600").out
    )
    (kept,) = call("compact-archive", small, "--grace", "3600", "-o", "json").json
    assert kept["remaining"] > 20
    assert f"{kept['remaining']} files replaced by a merge" in call("verify", small).out
    (done,) = call("compact-archive", small, "-o", "json").json
    assert (done["merged"], done["removed"]) == (False, kept["remaining"])
    assert "replaced by a merge" not in call("verify", small).out


def test_one_cluster_is_merged(small: Path) -> None:
    """`--cluster` selects the cluster to merge; an unknown one is refused."""
    assert "no archive of a cluster other" in refusal(
        call("compact-archive", small, "--cluster", "other")
    )
    assert call("compact-archive", small, "--cluster", NAME).code == 0


def test_an_overtaken_cluster_is_named_and_the_others_are_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second command merges the middle one of three clusters first; no answer changes."""
    fleet, clusters = tmp_path / "fleet", ("a", "b", "c")
    for end in (20, 40, len(ENTRIES)):
        for name in clusters:
            capture(fleet, log_of(ENTRIES[:end]), name=name)
    before = answers(fleet)
    faster: list[int] = []

    def packed_after_another_command(store: Any, name: str, *chain: Any) -> Any:
        if name == "b":
            monkeypatch.undo()
            faster.append(call("compact-archive", fleet, "--cluster", "b").code)
        return packed(store, name, *chain)

    monkeypatch.setattr("replay.archive.merges.merge.packed", packed_after_another_command)
    result = call("compact-archive", fleet, "-o", "json")
    assert (result.code, faster) == (2, [0])
    *merged, overtaken = result.json
    assert [(each["cluster"], each["merged"]) for each in merged] == [("a", True), ("c", True)]
    assert overtaken["cluster"] == "b"
    assert result.err.splitlines() == [f"Error: b: {overtaken['failed']}"]
    assert "another process has merged the archive of b" in overtaken["failed"]
    assert [len(cluster_in(fleet, name).chain.manifests) for name in clusters] == [1, 1, 1]
    verified = call("verify", fleet)
    assert (verified.code, "no manifest names" in verified.out) == (0, False)
    assert answers(fleet) == before


def answers(fleet: Path) -> list[Any]:
    """Digests of the states, and the records of each partition."""
    archive = replay.open(str(fleet))
    return [archive.summaries(), archive.partitions()]


@pytest.mark.prove
def test_an_object_store_ends_as_a_folder(stores: Bucket, small: Path, tmp_path: Path) -> None:
    """An object store ends with the same numbers of files, and the same answers, as a folder."""
    store = in_bucket(stores, tmp_path)
    for look in range(1, LOOKS + 1):
        capture_into(store, log_of(ENTRIES[: len(ENTRIES) * look // LOOKS]))
    (in_store,) = call("compact-archive", store.where, "-o", "json", *stores.conf()).json
    (in_folder,) = call("compact-archive", small, "-o", "json").json
    for number in ("manifests", "segments", "files", "removed", "remaining"):
        assert in_store[number] == in_folder[number]
    assert sorted(map(kind, store.walk(""))) == sorted(map(kind, content(small)))
    assert call("state", store.where, *stores.conf()) == call("state", small)
    assert call("verify", store.where, *stores.conf()).code == 0


def kind(name: str) -> str:
    """File name without its hash, and without the random digits of its writer."""
    folder, _, base = name.rpartition("/")
    return f"{folder}/{'-'.join(base.split('-')[:3])}"
