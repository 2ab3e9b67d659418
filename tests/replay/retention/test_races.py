"""Retentions concurrent with merges, appends and readers, in a folder and in an object store.

A retention removes superseded records: no state at or after its cut (a time) depends on them.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.core.entry import batch_of
from replay.archive.archived_cluster import ArchivedCluster, open_cluster
from replay.archive.integrity import checked
from replay.archive.manifest import Snapshot
from replay.archive.merges.merge import Merger
from replay.archive.merges.unnamed_files import leftovers, remove_leftovers, remove_replaced
from replay.archive.segments.segment_files import table_of
from replay.archive.stores.hadoop_settings import HadoopSettings
from replay.archive.stores.store import ArchiveStore, FolderStore, open_store
from replay.archive.verification import verified
from replay.engine.local_engine import LocalEngine, LocalOptions
from replay.engine.plans.retention_plan import older_than
from replay.engine.snapshots.daily_snapshots import snapshot_at
from replay.errors import ArchiveBusy, ReplayError
from tests.recorded_requests import recorded_entries
from tests.replay.archive.archives import NAME, capture_into, log_of, replayed
from tests.replay.archive.buckets import Bucket, bucket, in_bucket, serving
from tests.replay.archive.merges import (
    KIP,
    LARGER,
    held,
    merge,
    next_config,
    sound_records,
    two_looks,
)
from tests.replay.retention.retention_archives import retain

pytestmark = pytest.mark.slow

ENTRIES = recorded_entries("aborted-3.9")
CUT_MS = ENTRIES[50].timestamp


@pytest.fixture(scope="module")
def stores() -> Iterator[Bucket]:
    """Object store with one bucket."""
    with bucket("retentions") as made:
        yield made


@pytest.fixture(params=["folder", pytest.param("objects", marks=pytest.mark.prove)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ArchiveStore:
    """Archive of two looks (captures of a growing log), in a folder or in a bucket."""
    if request.param == "folder":
        return two_looks(FolderStore(str(tmp_path / "archive")), ENTRIES)
    stores: Bucket = request.getfixturevalue("stores")
    return two_looks(in_bucket(stores, tmp_path), ENTRIES)


def retention(store: ArchiveStore) -> Merger:
    """Retention that has not run yet."""
    return Merger(store, NAME, LARGER, older_than(0, CUT_MS))


def test_a_faster_merge_wins(store: ArchiveStore) -> None:
    """A retention that a merge overtakes changes nothing, and removes its own files."""
    second = retention(store)
    after: dict[str, bytes] = {}

    def merged_meanwhile(_: int) -> None:
        if not after:
            Merger(store, NAME, LARGER).run()
            after.update(held(store))

    with pytest.raises(ArchiveBusy, match="another process has merged the archive of fleet-1"):
        second.run(merged_meanwhile)
    assert held(store) == after
    remove_replaced(store, NAME, 0)
    assert sound_records(store) == 60


def test_a_concurrent_retention_is_refused(store: ArchiveStore) -> None:
    """The slower of two retentions is refused; only the faster one removes records."""
    second = retention(store)
    first = retain(store, CUT_MS)
    with pytest.raises(ArchiveBusy, match="since cluster fleet-1 was opened"):
        second.run()
    assert sound_records(store) == 60 - sum(expired.records for expired in first.expired) < 60


def test_a_concurrent_append_is_kept(store: ArchiveStore) -> None:
    """Records captured between the retention's plan and its manifest are kept."""
    added: list[int] = []

    def another_look(_: int) -> None:
        if not added:
            added.append(capture_into(store, log_of(ENTRIES)).added)

    result = retention(store).run(another_look)
    assert added == [len(ENTRIES) - 60]
    remove_replaced(store, NAME, 0)
    assert sound_records(store) == len(ENTRIES) - sum(expired.records for expired in result.expired)


def test_an_append_survives_a_concurrent_retention(store: ArchiveStore) -> None:
    """The append is kept, although the manifests before it are gone."""
    appender, _ = next_config(store)
    removed = sum(expired.records for expired in retain(store, CUT_MS).expired)
    assert appender.commit() is not None
    assert sound_records(store) == 61 - removed


def test_an_append_keeps_no_snapshot_from_before_the_cut(store: ArchiveStore) -> None:
    """A snapshot from before a concurrent retention has removed records: it is left out."""
    appender, _ = next_config(store)
    made: list[Snapshot] = []

    def snapshots_before_retention(cluster: ArchivedCluster) -> list[Snapshot]:
        """Make a snapshot of the first records and one of all, then retain."""
        starts = {topic: [1] * len(ends) for topic, ends in cluster.ends.items()}
        made.append(snapshot_at(cluster, None, "first", starts))
        made.append(snapshot_at(cluster, None, "all", cluster.ends))
        retain(store, CUT_MS)
        return made

    assert appender.commit(snapshots_before_retention) is not None
    assert [*open_cluster(store, NAME).snapshots] == made[1:]


def test_a_reader_reports_removed_files(store: ArchiveStore) -> None:
    """A reader reports that its files are gone; a new reader gives the answer from before."""
    local = LocalEngine(checked(open_cluster(store, NAME)), LocalOptions(derived=False))
    plan = local.plan(None, KIP)
    expected = local.states(plan, KIP)
    late = LocalEngine(checked(open_cluster(store, NAME)), local.options)
    retain(store, CUT_MS)
    with pytest.raises(ArchiveBusy, match="fleet-1 was opened: run the command again"):
        late.states(plan, KIP)
    assert replayed(open_cluster(store, NAME), None, KIP) == expected


def test_files_of_a_running_retention_stay(store: ArchiveStore) -> None:
    """A removal of leftovers during the retention finds none, and the retention completes."""
    leftovers_seen: list[list[str]] = []

    def tidied_meanwhile(_: int) -> None:
        leftovers_seen.append(leftovers(store, NAME))
        assert remove_leftovers(store, NAME) == 0

    retention(store).run(tidied_meanwhile)
    assert leftovers_seen
    assert {*map(len, leftovers_seen)} == {0}
    remove_replaced(store, NAME, 0)
    assert sound_records(store) < 60


def test_files_of_a_running_append_stay(store: ArchiveStore) -> None:
    """A removal of leftovers of any age keeps the segment of a running append."""
    appender, entry = next_config(store)
    writer = appender.segment_writer((entry.topic, entry.partition), entry.offset)
    writer.add(table_of([batch_of([entry])]))
    writer.write()
    before = held(store)
    (segment,) = writer.segments
    assert segment.stored.file in before
    assert remove_leftovers(store, NAME, age_s=0) == 0
    assert held(store) == before
    assert appender.commit() is not None
    assert remove_leftovers(store, NAME, age_s=0) == 0
    assert sound_records(store) == 61


def test_a_merge_that_was_slow_for_long_writes_no_manifest(
    store: ArchiveStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A merge that took too long writes no manifest: others may have removed its files."""
    monkeypatch.setattr("replay.archive.merges.merge.LONGEST_S", -1)
    before = held(store)
    with pytest.raises(ArchiveBusy, match="its files may be gone"):
        retention(store).run()
    assert held(store) == before


@pytest.mark.prove
def test_a_store_that_fails_during_a_retention_loses_no_record(
    stores: Bucket, tmp_path: Path
) -> None:
    """The archive loses no record; a later run removes the leftover files."""
    with serving() as endpoint:
        conf = HadoopSettings(stores._replace(endpoint=endpoint).hadoop)
        failing = open_store(f"s3a://{stores.name}{tmp_path}", conf)
        for end in (30, 60):
            capture_into(failing, log_of(ENTRIES[:end]))
        server = retention(failing)
        before = held(failing)
        stops: list[None] = []
    with pytest.raises(ReplayError):
        server.run(lambda _: stops.append(None))
    again = in_bucket(stores, tmp_path)
    assert held(again).items() >= before.items()
    assert verified(open_cluster(again, NAME)).flaws == ()
    remove_leftovers(again, NAME, age_s=0)
    retain(again, CUT_MS)
    assert sound_records(again) < 60


def test_merges_after_a_retention_keep_its_removals(store: ArchiveStore) -> None:
    """The manifest of a later merge has the numbers, offsets and times of the removal."""
    retain(store, CUT_MS)
    removed = open_cluster(store, NAME).chain.removed
    capture_into(store, log_of(ENTRIES))
    merge(store)
    assert open_cluster(store, NAME).chain.removed == removed
    assert sound_records(store) == len(ENTRIES) - sum(records.records for records in removed)
