"""A feed loses no rows despite a wrong checkpoint, a damaged cluster or a concurrent merge."""

import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

import replay
from controlplane.core.entry import Entry
from replay.archive.stores.hadoop_settings import HadoopSettings
from replay.archive.stores.store import ArchiveStore, open_store
from replay.errors import ArchiveBusy, ArchiveCorrupt, NoArchive, NotWritable
from replay.fleet.feed.change_feed import ArchiveFeed
from replay.fleet.feed.cluster_batch import ClusterBatch, ClusterWork
from replay.fleet.feed.feed_lock import LEASES, LeaseLost, locked
from replay.fleet.feed.fleet_checkpoint import OtherReading
from replay.fleet.feed.positions import CheckpointMismatch, cluster_looks, followed_names
from replay.fleet.open_archive import OpenArchive
from tests.recorded_requests import recorded_entries
from tests.replay.archive.archives import NAME, capture_into, log_of
from tests.replay.archive.buckets import bucket
from tests.replay.archive.merges import merged
from tests.replay.cli.replay_calls import content
from tests.replay.feed.feed_laws import (
    archive_in,
    archived,
    assert_adds_up,
    feed_in,
    rows_of,
)
from tests.replay.fleet.fleets import damage_files
from tests.replay.retention.retention_archives import retained

pytestmark = pytest.mark.slow

ENTRIES = recorded_entries("roll-3.4-3.9-3.4")
AN_HOUR_MS = 3_600_000


def problems(feed: ArchiveFeed, batch: int) -> dict[str, str | None]:
    """Problem of each cluster in a batch."""
    return {row["cluster"]: row["problem"] for row in feed.tables.rows("batches", batch)}


# --- other archives -------------------------------------------------------------------------


def test_another_archive_is_refused(tmp_path: Path) -> None:
    """A feed refuses an archive whose manifests have other hashes, and writes no file."""
    archived(tmp_path, ENTRIES[:40])
    feed_in(tmp_path).advance()
    shutil.rmtree(tmp_path / "archive")
    archived(tmp_path, recorded_entries("life-3.9"))
    before = content(tmp_path)
    with pytest.raises(CheckpointMismatch, match=f"^{NAME}: no manifest has the hash .* another"):
        feed_in(tmp_path).advance()
    assert content(tmp_path) == before


def test_an_unreadable_archive_is_no_other_archive(tmp_path: Path) -> None:
    """The first batch of a feed does not blame the checkpoint if the archive cannot be read."""
    archived(tmp_path, ENTRIES)
    feed_in(tmp_path).advance()
    feed = feed_in(tmp_path)
    folder = tmp_path / "archive"
    folder.rename(tmp_path / "away")
    folder.symlink_to(folder)
    with pytest.raises(NoArchive, match="cannot be read"):
        feed.advance()
    folder.unlink()
    (tmp_path / "away").rename(folder)
    assert feed.advance() is None


def test_an_archive_from_a_backup_is_refused(tmp_path: Path) -> None:
    """A checkpoint ahead of the archive is refused.

    The error names the partition, and no file is written.
    """
    archived(tmp_path, ENTRIES[:40])
    shutil.copytree(tmp_path / "archive", tmp_path / "backup")
    archived(tmp_path, ENTRIES)
    feed_in(tmp_path).advance()
    shutil.rmtree(tmp_path / "archive")
    (tmp_path / "backup").rename(tmp_path / "archive")
    before = content(tmp_path)
    sentence = r"ahead of the archive: connect-configs partition 0 is archived up to \d+, but"
    with pytest.raises(CheckpointMismatch, match=sentence):
        feed_in(tmp_path).advance()
    assert content(tmp_path) == before


def test_one_cluster_from_a_backup_is_named(tmp_path: Path) -> None:
    """The feed names the cluster and reads the other; both continue once the archive is back."""
    for name in ("a", "b"):
        archived(tmp_path, ENTRIES[:40], name)
    folder, saved = tmp_path / "archive" / "cluster=a", tmp_path / "saved"
    shutil.copytree(folder, saved)
    for name in ("a", "b"):
        archived(tmp_path, ENTRIES[:60], name)
    feed_in(tmp_path).advance()
    newest = folder.rename(tmp_path / "newest")
    saved.rename(folder)
    archived(tmp_path, ENTRIES, "b")
    feed = feed_in(tmp_path)
    feed.advance()
    by_cluster = problems(feed, 1)
    assert by_cluster["b"] is None
    assert "the checkpoint is ahead of the archive" in str(by_cluster["a"])
    shutil.rmtree(folder)
    newest.rename(folder)
    archived(tmp_path, ENTRIES, "a")
    feed = feed_in(tmp_path)
    feed.advance()
    assert_adds_up(feed, archive_in(tmp_path))


def test_other_options_are_refused(tmp_path: Path) -> None:
    """A feed refuses another release or other thresholds than those of its first batch."""
    archived(tmp_path, ENTRIES)
    feed_in(tmp_path).advance()
    places = str(tmp_path / "tables"), str(tmp_path / "checkpoint")
    with pytest.raises(OtherReading, match=r"belongs to release kip, not to release 3\.9\.2: give"):
        archive_in(tmp_path).follow(*places, release="3.9")
    with pytest.raises(OtherReading, match="not to release kip, stall-ms=5: give"):
        archive_in(tmp_path).follow(*places, thresholds={"stall-ms": "5"})


def test_no_feed_lies_in_the_folder_of_a_cluster(tmp_path: Path) -> None:
    """Files of a feed would count as those of an archived cluster."""
    archived(tmp_path, ENTRIES)
    inside, outside = str(tmp_path / "cluster=x" / "feed"), str(tmp_path / "feed")
    for places in ((inside, outside), (outside, inside)):
        with pytest.raises(NotWritable, match="lies in a folder cluster=…"):
            archive_in(tmp_path).follow(*places)


def test_tables_need_their_checkpoint(tmp_path: Path) -> None:
    """Tables without their checkpoint are refused: a new one would reuse their batch numbers."""
    archived(tmp_path, ENTRIES)
    feed_in(tmp_path).advance()
    with pytest.raises(ArchiveCorrupt, match="the tables end with batch 0, which the checkpoint"):
        archive_in(tmp_path).follow(str(tmp_path / "tables"), str(tmp_path / "new"))


def test_two_feeds_do_not_mix_their_rows(tmp_path: Path) -> None:
    """The slow feed is refused before it replaces batch 0 by a batch of more records."""
    archived(tmp_path, ENTRIES[:60])
    slow, quick = feed_in(tmp_path), feed_in(tmp_path)
    quick.advance()
    before = content(tmp_path / "tables")
    archived(tmp_path, ENTRIES)
    with pytest.raises(ArchiveBusy, match="another feed writes batch 0"):
        slow.advance()
    assert content(tmp_path / "tables") == before
    quick.advance()
    assert_adds_up(feed_in(tmp_path), archive_in(tmp_path))


def test_a_running_feed_owns_its_checkpoint(tmp_path: Path) -> None:
    """A second feed with the same checkpoint is refused, and changes no file of the first."""
    archived(tmp_path, ENTRIES[:60])
    feed_in(tmp_path).advance()
    archived(tmp_path, ENTRIES)
    before = content(tmp_path)
    feed = feed_in(tmp_path)
    with locked(feed.context.store) as lock:
        assert lock.is_held()
        with pytest.raises(ArchiveBusy, match="another feed writes batch 1"):
            feed.advance()
    assert content(tmp_path) == before
    assert feed_in(tmp_path).advance() == 1


def test_deeply_nested_values_cost_time_only(tmp_path: Path) -> None:
    """Audits that cannot be stored read all records again, with the same findings."""
    nested = 900
    value = b'{"properties":{"a":' + b"[" * nested + b"]" * nested + b"}}"
    first, *rest = ENTRIES
    odd = replace(first, key=b"connector-deep", value=value)
    later = [
        replace(entry, timestamp=entry.timestamp + AN_HOUR_MS)
        for entry in rest
        if entry.offset or entry.topic != odd.topic
    ]
    entries = [odd, *later]
    for end in (30, 60, len(entries)):
        archived(tmp_path, entries[:end])
        feed_in(tmp_path).advance()
    assert_adds_up(feed_in(tmp_path), archive_in(tmp_path))


def test_an_aborted_record_is_no_cause(tmp_path: Path) -> None:
    """A row names the last record that exactly-once workers see, never an aborted one."""
    entries = recorded_entries("aborted-3.9")
    archived(tmp_path, entries)
    feed = feed_in(tmp_path, exactly_once=True)
    feed.advance()
    aborted = {(each.topic, each.partition, each.offset) for each in entries if each.aborted}
    causes = {
        tuple(cause.values())
        for row in feed.tables.rows("state_changes", 0)
        for cause in row["causes"]
        if row["table"] == "offsets"
    }
    assert aborted
    assert causes
    assert not causes & aborted


# --- broken clusters ------------------------------------------------------------------------


def test_a_damaged_cluster_is_named_and_read_later(tmp_path: Path) -> None:
    """A damaged cluster has no rows; the run after the repair has all of them."""
    for name in ("a", "b"):
        archived(tmp_path, ENTRIES[:40], name)
    feed_in(tmp_path).advance()
    whole = content(tmp_path / "archive")
    for name in ("a", "b"):
        archived(tmp_path, ENTRIES, name)
    grown = content(tmp_path / "archive")
    shutil.copytree(tmp_path / "archive" / "cluster=a", tmp_path / "saved")
    for path in (tmp_path / "archive" / "cluster=a").glob("topic=*/*/*.parquet"):
        if str(path.relative_to(tmp_path / "archive")) not in whole:
            damaged = bytearray(path.read_bytes())
            damaged[len(damaged) // 3] ^= 1
            path.write_bytes(damaged)
    assert content(tmp_path / "archive") != grown
    feed = feed_in(tmp_path)
    feed.advance()
    by_cluster = problems(feed, 1)
    assert by_cluster["b"] is None
    assert "was altered" in str(by_cluster["a"])
    assert {row["cluster"] for row in feed.tables.rows("state_changes", 1)} == {"b"}
    assert feed.advance() is None, "the problem is reported once"
    shutil.rmtree(tmp_path / "archive" / "cluster=a")
    (tmp_path / "saved").rename(tmp_path / "archive" / "cluster=a")
    feed = feed_in(tmp_path)
    assert feed.advance() == 2
    assert_adds_up(feed, archive_in(tmp_path))


def test_damaged_manifests_are_named(tmp_path: Path) -> None:
    """The feed reads the other cluster, and reports the problem once until the repair."""
    for name in ("a", "b"):
        archived(tmp_path, ENTRIES, name)
    manifest = tmp_path / "archive" / "cluster=a" / "_manifest" / "0000000001.json"
    text = manifest.read_bytes()
    manifest.write_bytes(text[:-5])
    feed = feed_in(tmp_path)
    assert feed.advance() == 0
    assert "is no manifest" in str(problems(feed, 0)["a"])
    assert feed.advance() is None
    manifest.write_bytes(text)
    assert feed.advance() == 1
    assert problems(feed, 1) == {"a": None}
    assert_adds_up(feed, archive_in(tmp_path))


def test_a_later_cluster_is_followed(tmp_path: Path) -> None:
    """A later cluster with the same session key gives a finding about both clusters."""
    archived(tmp_path, ENTRIES, "a")
    feed = feed_in(tmp_path)
    feed.advance()
    archived(tmp_path, ENTRIES, "b")
    feed.advance()
    assert_adds_up(feed, archive_in(tmp_path))
    kinds = [row["kind"] for row in feed.tables.rows("finding_changes", 1)]
    assert "two-clusters-one-topic" in kinds


def test_only_selected_clusters_have_rows(tmp_path: Path) -> None:
    """A feed of one selected cluster adds up to that cluster alone."""
    for name in ("a", "b"):
        archived(tmp_path, ENTRIES, name)
    feed = feed_in(tmp_path, clusters=["a"])
    feed.advance()
    assert problems(feed, 0) == {"a": None}
    assert_adds_up(feed, archive_in(tmp_path, clusters=["a"]))


def test_a_damaged_cluster_alone_is_reported(tmp_path: Path) -> None:
    """The batch reports the problem, and has no rows."""
    archived(tmp_path, ENTRIES, "a")
    damage_files(tmp_path / "archive", "a")
    feed = feed_in(tmp_path)
    feed.advance()
    assert "was altered" in str(problems(feed, 0)["a"])
    assert feed.tables.table("state_changes").num_rows == 0


# --- merges ---------------------------------------------------------------------------------


def test_a_merge_between_batches_changes_no_row(tmp_path: Path) -> None:
    """A merge adds no rows; later batches have the same rows as without it."""
    for folder, merges in ((tmp_path / "merged", True), (tmp_path / "plain", False)):
        for end in (40, 80, len(ENTRIES)):
            archived(folder, ENTRIES[:end])
            feed_in(folder).advance()
            if merges:
                merged(folder / "archive")
    feed = feed_in(tmp_path / "merged")
    assert (
        feed.tables.table("state_changes").to_pylist()
        == rows_of(feed_in(tmp_path / "plain"))["state_changes"]
    )
    assert_adds_up(feed, archive_in(tmp_path / "merged"))


def test_a_retention_between_batches_takes_no_row_back(tmp_path: Path) -> None:
    """A removed record takes no row back: the feed has states and findings of the whole log."""
    removed = 0
    for folder, removes in ((tmp_path / "thin", True), (tmp_path / "plain", False)):
        for end in (30, 60, 90, len(ENTRIES)):
            archived(folder, ENTRIES[:end])
            feed_in(folder).advance()
            if removes:
                result = retained(folder / "archive", ENTRIES[end - 1].timestamp)
                removed += sum(expired.records for expired in result.expired)
    assert removed
    thin, plain = (rows_of(feed_in(tmp_path / name)) for name in ("thin", "plain"))
    assert thin["state_changes"] == plain["state_changes"]
    assert thin["finding_changes"] == plain["finding_changes"]
    (summary,) = archive_in(tmp_path / "thin").summaries().to_pylist()
    assert summary["digest"] == thin["batches"][-1]["digest"]


@pytest.mark.parametrize("is_missing", [True, False])
def test_retention_needs_the_checkpoint(tmp_path: Path, *, is_missing: bool) -> None:
    """The feed reports a cluster after a retention if its checkpoint is missing or damaged."""
    archived(tmp_path, ENTRIES[:60])
    feed_in(tmp_path).advance()
    assert retained(tmp_path / "archive", ENTRIES[59].timestamp).expired
    for file in (tmp_path / "checkpoint").rglob("feed-*"):
        if is_missing:
            file.unlink()
        else:
            file.write_bytes(bytes(file.stat().st_size))
    archived(tmp_path, ENTRIES)
    feed = feed_in(tmp_path)
    feed.advance()
    (problem,) = problems(feed, 1).values()
    assert problem is not None
    assert problem.startswith("the checkpoint of batch 0 is missing, damaged or of another version")


@pytest.mark.prove
def test_concurrent_captures_and_merges_lose_no_row(tmp_path: Path) -> None:
    """No cluster has a problem, and no row is lost or doubled."""
    entries = recorded_entries("life-3.9")
    archived(tmp_path, entries[:20])

    def grow() -> None:
        for look, end in enumerate(range(20, len(entries), 10)):
            archived(tmp_path, entries[:end])
            if not look % 5:
                merged(tmp_path / "archive")

    feed = feed_in(tmp_path)
    with ThreadPoolExecutor(1) as thread:
        growing = thread.submit(grow)
        while not growing.done():
            feed.advance()
        growing.result()
    feed.advance()
    assert feed.batch > 5
    assert set(feed.tables.table("batches").column("problem").to_pylist()) == {None}
    assert_adds_up(feed, archive_in(tmp_path))


def test_a_merge_during_a_batch_keeps_its_planned_end(tmp_path: Path) -> None:
    """A batch keeps its planned end, although a merge replaces its manifest meanwhile."""
    for end in (30, 60):
        archived(tmp_path, ENTRIES[:end])
    feed = feed_in(tmp_path)
    store = feed.context.source.store
    looks = cluster_looks(store, followed_names(store, ()), {})
    digest = archive_in(tmp_path).summaries().column("digest").to_pylist()
    archived(tmp_path, ENTRIES)
    merged(tmp_path / "archive")
    feed.run_batch(0, looks)
    assert [row["digest"] for row in feed.tables.rows("batches", 0)] == digest
    feed.advance()
    assert_adds_up(feed, archive_in(tmp_path))


# --- object stores --------------------------------------------------------------------------


class FeedInBucket(NamedTuple):
    """Archive, tables and checkpoint of a feed as objects."""

    place: str
    hadoop: dict[str, str]

    def store(self, folder: str) -> ArchiveStore:
        """Open the store of one part of the bucket."""
        return open_store(f"{self.place}/{folder}", HadoopSettings(self.hadoop))

    def archived(self, entries: Sequence[Entry]) -> None:
        """Capture a log into the bucket's archive."""
        capture_into(self.store("archive"), log_of(entries))

    def archive(self) -> OpenArchive[Any]:
        """Open the archive in the bucket."""
        conf = {f"spark.hadoop.{name}": value for name, value in self.hadoop.items()}
        return replay.open(f"{self.place}/archive", conf=conf)

    def feed(self) -> ArchiveFeed:
        """Open the feed of the archive in the bucket."""
        return self.archive().follow(f"{self.place}/tables", f"{self.place}/checkpoint")


@pytest.fixture
def objects(request: pytest.FixtureRequest) -> Iterator[FeedInBucket]:
    """Feed in an object store, with a bucket for each test."""
    with bucket(request.node.name.replace("_", "-")) as made:
        yield FeedInBucket(f"s3a://{made.name}/fleet", made.hadoop)


def test_two_feeds_share_no_checkpoint_in_a_bucket(objects: FeedInBucket) -> None:
    """A running feed owns its checkpoint in a bucket; once it ends, the other feed continues."""
    objects.archived(ENTRIES[:60])
    feed, checkpoint = objects.feed(), objects.store("checkpoint/feed")
    with locked(checkpoint) as lock:
        assert lock.is_held()
        with pytest.raises(ArchiveBusy, match="another feed writes batch 0"):
            feed.advance()
        assert not [*objects.store("tables").walk("")]
        assert lock.is_held()
    assert feed.advance() == 0
    assert not [*checkpoint.walk(LEASES)]


def test_a_feed_whose_lease_was_taken_writes_nothing(objects: FeedInBucket) -> None:
    """A task of a feed that has lost its lease, the lock of the checkpoint, writes no file."""
    objects.archived(ENTRIES[:60])
    feed, checkpoint = objects.feed(), objects.store("checkpoint/feed")
    look = cluster_looks(feed.context.source.store, [NAME], {})[NAME]
    assert look.position is not None
    work = ClusterWork(NAME, None, look.position)
    with locked(checkpoint) as lock:
        task = ClusterBatch(feed.context, 0, lock.lease)
        checkpoint.remove(str(lock.lease))
        before = [*checkpoint.walk("")]
        with pytest.raises(LeaseLost, match="another feed has taken over"):
            list(task(work))
        assert not lock.is_held()
    assert [*checkpoint.walk("")] == before
    assert not [*objects.store("tables").walk("")]


@pytest.mark.prove
def test_archive_tables_and_checkpoint_may_be_objects(objects: FeedInBucket) -> None:
    """Archive, tables and checkpoint are objects; the feed repeats an interrupted batch."""
    for end in (60, None):
        objects.archived(ENTRIES[:end])
        objects.feed().advance()
    left = "state_changes/batch=2/cluster-left-00000.parquet"
    objects.store("tables").replace(left, b"left")
    objects.archived([*ENTRIES, replace(ENTRIES[-1], offset=ENTRIES[-1].offset + 1)])
    feed = objects.feed()
    assert feed.advance() == 2
    assert_adds_up(feed, objects.archive())
