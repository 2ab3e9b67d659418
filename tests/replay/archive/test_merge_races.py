"""Merges concurrent with merges, appends and readers, in a folder and in an object store."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import UNSET

from controlplane.core.releases.profiles import Profile
from replay.archive.archived_cluster import open_cluster
from replay.archive.integrity import checked, read_whole
from replay.archive.manifest import Chain, read_chain
from replay.archive.merges.merge import Merger
from replay.archive.merges.merge_proof import merged_records
from replay.archive.merges.unnamed_files import Removal, remove_replaced
from replay.archive.stores.store import ArchiveStore, FolderStore
from replay.archive.verification import verified
from replay.engine.local_engine import LocalEngine, LocalOptions
from replay.errors import ArchiveBusy
from tests.conftest import sampled
from tests.recorded_requests import recorded_entries
from tests.replay.archive.archives import NAME, capture_into, log_of
from tests.replay.archive.buckets import Bucket, bucket, in_store
from tests.replay.archive.merges import LARGER, held, merge, next_config, sound_records, two_looks

pytestmark = pytest.mark.slow

ENTRIES = recorded_entries("aborted-3.9")
KIP = [Profile.of("kip")]

IN_A_FOLDER = pytest.mark.parametrize(
    "store", sampled(("folder", "objects"), "folder"), indirect=True
)
"""Mark of tests that `make test` runs in a folder only, and `make prove` in both stores.

In the tests without the mark, an append and a merge overtake another writer. These tests always
run in both stores.
"""


@pytest.fixture(scope="module")
def stores() -> Iterator[Bucket]:
    """Object store with one bucket."""
    with bucket("merges") as made:
        yield made


@pytest.fixture(params=["folder", "objects"])
def store(request: pytest.FixtureRequest, stores: Bucket, tmp_path: Path) -> ArchiveStore:
    """Archive of two looks, in a folder and in a bucket."""
    return two_looks(in_store(request.param, stores, tmp_path), ENTRIES)


@IN_A_FOLDER
def test_the_slower_of_two_merges_changes_nothing(store: ArchiveStore) -> None:
    """The slower merge removes the files that it has already written."""
    second = Merger(store, NAME, LARGER)
    after_first: list[dict[str, bytes]] = []

    def first_is_faster(_: int) -> None:
        if not after_first:
            Merger(store, NAME, LARGER).run()
            after_first.append(held(store))

    with pytest.raises(ArchiveBusy, match="another process has merged the archive of fleet-1"):
        second.run(first_is_faster)
    assert held(store) == after_first[0]
    remove_replaced(store, NAME, 0)
    assert sound_records(store) == 60


@IN_A_FOLDER
def test_a_merge_after_another_finds_its_files_gone(store: ArchiveStore) -> None:
    """The second merge reports that the first has removed its originals, and writes no file."""
    second = Merger(store, NAME, LARGER)
    merge(store)
    before = held(store)
    with pytest.raises(ArchiveBusy, match="was merged into another file since cluster fleet-1"):
        second.run()
    assert held(store) == before


@pytest.mark.prove
def test_a_merge_that_is_outrun_twice_leaves_nothing(store: ArchiveStore) -> None:
    """Two merges and an append finish first. The slow merge then leaves no file."""
    second = Merger(store, NAME, LARGER)
    read: list[int] = []
    after: dict[str, bytes] = {}

    def others_are_faster(size: int) -> None:
        read.append(size)
        if sum(read) == second.work:
            merge(store)
            capture_into(store, log_of(ENTRIES))
            merge(store)
            after.update(held(store))

    with pytest.raises(ArchiveBusy, match="another process has merged"):
        second.run(others_are_faster)
    assert after.items() >= held(store).items()
    assert sound_records(store) == len(ENTRIES)


@pytest.mark.parametrize("is_interrupted", [False, True])
def test_a_merge_that_is_merged_again_keeps_its_files(
    store: ArchiveStore, monkeypatch: pytest.MonkeyPatch, *, is_interrupted: bool
) -> None:
    """Another merge replaces the slow merge's manifest before the slow merge reads the chain.

    The slow merge may be interrupted there. It keeps its files, because its manifest is among the
    replaced manifests, and names them.
    """
    monkeypatch.setattr("replay.archive.merges.replaced_manifests.FILE_BYTES", 0)
    slow = Merger(store, NAME, LARGER)
    pausing = pytest.MonkeyPatch()

    def after_another_merge(paused: ArchiveStore, name: str) -> Chain:
        pausing.undo()
        next_config(store)[0].commit()
        merge(store)
        if is_interrupted:
            raise KeyboardInterrupt
        return read_chain(paused, name)

    pausing.setattr("replay.archive.merges.merge.read_chain", after_another_merge)
    if is_interrupted:
        with pytest.raises(KeyboardInterrupt):
            slow.run()
    else:
        assert slow.run().head == read_chain(store, NAME).head
    assert sound_records(store) == 61


@IN_A_FOLDER
def test_a_merge_keeps_a_concurrent_append(store: ArchiveStore) -> None:
    """The merged manifest includes the new look; the look keeps its own segments."""
    added: list[int] = []

    def another_look(_: int) -> None:
        if not added:
            added.append(capture_into(store, log_of(ENTRIES)).added)

    result = Merger(store, NAME, LARGER).run(another_look)
    assert added == [len(ENTRIES) - 60]
    assert result.manifests == (2, 1)
    remove_replaced(store, NAME, 0)
    assert sound_records(store) == len(ENTRIES)


@IN_A_FOLDER
def test_an_append_survives_a_concurrent_merge(store: ArchiveStore) -> None:
    """The append is kept, although the manifests before it are gone."""
    appender, _ = next_config(store)
    merge(store)
    made = appender.commit()
    assert made is not None
    assert (made.number, made.base) == (4, 3)
    assert sound_records(store) == 61


def test_an_append_never_takes_the_name_of_a_removed_manifest(store: ArchiveStore) -> None:
    """A slow append fails rather than reuse a name that another append and a merge have freed."""
    appender, _ = next_config(store)
    capture_into(store, log_of(ENTRIES))
    merge(store)
    before = held(store)
    with pytest.raises(ArchiveBusy, match="another process has appended"):
        appender.commit()
    left = held(store).keys() - before.keys()
    assert all("/segment-" in name or "/_winners-" in name for name in left)
    assert held(store).keys() >= before.keys()
    assert capture_into(store, log_of(ENTRIES)).added == 0


@IN_A_FOLDER
def test_a_reader_with_an_old_plan_says_that_the_archive_was_merged(store: ArchiveStore) -> None:
    """The reader gives no partial answer; a second query succeeds."""
    local = LocalEngine(checked(open_cluster(store, NAME)), LocalOptions(derived=False))
    plan = local.plan(None, KIP)
    expected = local.states(plan, KIP)
    trusting = LocalEngine(open_cluster(store, NAME), local.options)
    careful = LocalEngine(checked(open_cluster(store, NAME)), local.options)
    merge(store)
    for reader in (trusting, careful):
        with pytest.raises(ArchiveBusy, match="fleet-1 was opened: run the command again"):
            reader.states(plan, KIP)
    again = LocalEngine(checked(open_cluster(store, NAME)), local.options)
    assert again.states(again.plan(None, KIP), KIP) == expected


@IN_A_FOLDER
def test_a_reader_of_replaced_manifests_says_that_the_archive_was_merged(
    store: ArchiveStore,
) -> None:
    """A merge has replaced the file of replaced manifests since the archive was opened."""
    merge(store)
    opened = open_cluster(store, NAME)
    next_config(store)[0].commit()
    merge(store)
    with pytest.raises(ArchiveBusy, match="fleet-1 was opened: run the command again"):
        merged_records(opened)


class OvertakenStore(FolderStore):
    """Folder whose archive is merged right before one of its files is read."""

    overtaken_file = ""

    def read(self, name: str, most_bytes: int = -1) -> bytes:
        """Merge the archive before the first read of the file; then read."""
        if name == self.overtaken_file:
            self.overtaken_file = ""
            next_config(self)[0].commit()
            merge(self)
        return super().read(name, most_bytes)


def test_a_file_that_is_removed_right_before_its_read_was_merged(tmp_path: Path) -> None:
    """A reader that is overtaken by a merge says so, instead of failing with a missing file."""
    store = OvertakenStore(str(tmp_path))
    merge(two_looks(store, ENTRIES))
    readings = read_chain(store, NAME).manifests[0].readings
    assert readings is not UNSET
    store.overtaken_file = readings.stored.file
    with pytest.raises(ArchiveBusy, match="fleet-1 was opened: run the command again"):
        read_whole(store, readings.stored)


@IN_A_FOLDER
def test_a_grace_keeps_replaced_files_for_readers(store: ArchiveStore) -> None:
    """Replaced files are removed once the grace period is over."""
    local = LocalEngine(open_cluster(store, NAME), LocalOptions(derived=False))
    plan = local.plan(None, KIP)
    Merger(store, NAME, LARGER).run()
    kept = remove_replaced(store, NAME, 3_600)
    assert kept.removed == 0
    assert kept.remaining > 10
    assert verified(open_cluster(store, NAME)).replaced == kept.remaining
    again = LocalEngine(open_cluster(store, NAME), LocalOptions(derived=False))
    assert local.states(plan, KIP) == again.states(again.plan(None, KIP), KIP)
    assert remove_replaced(store, NAME, 0) == Removal(kept.remaining, 0)
    assert sound_records(store) == 60
