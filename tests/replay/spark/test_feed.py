"""Change feed by Structured Streaming: each batch has the rows of the feed without Spark."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import replay
from replay.errors import ArchiveCorrupt
from replay.fleet.feed.archive_stream import started
from replay.fleet.feed.change_feed import ArchiveFeed
from replay.fleet.feed.positions import CheckpointMismatch
from tests.patience import PATIENCE_S
from tests.recorded_requests import recorded_entries
from tests.replay.cli.replay_calls import call
from tests.replay.crash_points import CrashPoint, killed_at
from tests.replay.feed.feed_laws import archive_in, archived, assert_adds_up, feed_in, rows_of
from tests.replay.feed.served_digests import last_digests, served_digests
from tests.replay.fleet.fleets import damage_files
from tests.replay.spark.class_archive import quick_settings

pytestmark = pytest.mark.java

BUSY = "Python worker failed to connect back"
TRIES = 5

ENTRIES = {name: recorded_entries(name) for name in ("roll-3.4-3.9-3.4", "aborted-3.9")}


def streamed(spark: SparkSession, folder: Path, **options: Any) -> ArchiveFeed:
    """Feed whose batches a query of Structured Streaming writes."""
    archive = replay.open(str(folder / "archive"), spark=spark, **options)
    return archive.follow(str(folder / "stream-tables"), str(folder / "stream-checkpoint"))


def ran(spark: SparkSession, folder: Path, **options: Any) -> ArchiveFeed:
    """Run a stream up to the present end of the archive.

    Spark gives a Python process ten seconds to start, which a busy machine may exceed.
    """
    feed = streamed(spark, folder, **options)
    for _ in range(TRIES):
        try:
            assert feed.start(every_s=None).awaitTermination(PATIENCE_S)
        except StreamingQueryException as error:
            if BUSY not in str(error):
                raise
        else:
            return feed
    raise AssertionError(BUSY)


def rows_in(feed: ArchiveFeed) -> list[list[str]]:
    """Rows of all tables, in an order that does not depend on files."""
    return [sorted(map(repr, rows)) for rows in rows_of(feed).values()]


def look(folder: Path, end: int | None) -> None:
    """Archive the first `end` records of each cluster; None: all records."""
    for name, entries in ENTRIES.items():
        archived(folder, entries[:end], name)


def test_a_stream_has_the_rows_of_the_feed(spark: SparkSession, tmp_path: Path) -> None:
    """Batches of a stream have the rows of the feed without Spark.

    A repeated batch keeps its rows if it was complete. Otherwise it replaces the crash's files.
    """
    folder, died = tmp_path / "whole", tmp_path / "died"
    look(folder, 40)
    feed_in(folder).advance()
    ran(spark, folder)
    shutil.copytree(folder, died)
    look(folder, None)
    feed_in(folder).advance()
    expected = rows_in(feed_in(folder))
    feed = ran(spark, folder)
    assert rows_in(feed) == expected
    assert last_digests(feed) == served_digests(ENTRIES)
    # Spark died after the batch was written, and before the checkpoint had its commit.
    for path in _stream(folder).glob("commits/*1*"):
        path.unlink()
    assert rows_in(ran(spark, folder)) == expected
    assert (_stream(folder) / "commits" / "1").exists()
    # Spark died within the batch, and the archive has grown: the batch ends at its planned end.
    shutil.rmtree(died / "archive")
    shutil.copytree(folder / "archive", died / "archive")
    shutil.copy(_stream(folder) / "offsets" / "1", _stream(died) / "offsets" / "1")
    half = died / "stream-tables" / "state_changes" / "batch=1" / "cluster-left-00000.parquet"
    half.parent.mkdir()
    half.write_bytes(b"left")
    for name, entries in ENTRIES.items():
        archived(died, [*entries, replace(entries[-1], offset=entries[-1].offset + 1)], name)
    feed = ran(spark, died)
    assert _until(feed, 1) == expected
    assert_adds_up(feed, archive_in(died))


def _stream(folder: Path) -> Path:
    return folder / "stream-checkpoint" / "stream"


def _until(feed: ArchiveFeed, batch: int) -> list[list[str]]:
    """Rows of the batches up to this one, in the form of `rows_in`."""
    tables = rows_of(feed).values()
    return [sorted(repr(row) for row in rows if row["batch"] <= batch) for rows in tables]


@pytest.mark.prove
def test_a_stream_follows_the_archive(spark: SparkSession, tmp_path: Path) -> None:
    """A running stream reads newly archived records."""
    look(tmp_path, 40)
    feed = streamed(spark, tmp_path)
    query = feed.start(every_s=0.5)
    try:
        for end, batch in ((60, 0), (None, 1)):
            while feed.batch < batch:
                assert query.isActive
                query.processAllAvailable()
            look(tmp_path, end)
        query.processAllAvailable()
    finally:
        query.stop()
    assert_adds_up(feed, archive_in(tmp_path))


@pytest.mark.prove
def test_watch_continues_after_a_kill_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    """`watch` continues after two kills: before the batch has its file, and before Spark's commit.

    A batch counts once its file in `batches` exists.
    """
    look(tmp_path, None)
    progress = tmp_path / "progress"
    words = ("watch", str(tmp_path / "archive"), "--once", "--checkpoint", str(progress))
    engine = ("--engine", "spark", "--master", "local[2]")
    conf = (word for setting in quick_settings().items() for word in ("--conf", "=".join(setting)))
    replay = ("replay", *words, *engine, *conf)
    killed_at(CrashPoint(frozenset({"os.link"}), "/batches/", 0), *replay)
    assert not [*progress.glob("tables/batches/*/*.parquet")]
    killed_at(CrashPoint(frozenset({"os.remove"}), "/batches/", 0, is_linked=True), *replay)
    assert [*progress.glob("tables/batches/*/*.parquet")]
    assert (progress / "stream" / "offsets" / "0").exists()
    assert not (progress / "stream" / "commits" / "0").exists()
    assert call(*words, *engine) == (0, "", "")
    assert (progress / "stream" / "commits" / "0").exists()
    feed_in(tmp_path).advance()
    places = str(progress / "tables"), str(progress)
    assert rows_in(archive_in(tmp_path).follow(*places)) == rows_in(feed_in(tmp_path))
    for name, log in ENTRIES.items():
        archived(tmp_path, [*log, replace(log[-1], offset=log[-1].offset + 1)], name)
    result = call(*words, *engine)
    lines = result.out.splitlines()
    assert (result.code, [line.partition(": batch 1: ")[0] for line in lines[-2:]]) == (
        0,
        sorted(ENTRIES),
    )


@pytest.mark.prove
def test_a_repaired_cluster_is_read_again(spark: SparkSession, tmp_path: Path) -> None:
    """The next stream reads a repaired cluster even without new records in the archive."""
    look(tmp_path, None)
    folder, saved = tmp_path / "archive" / "cluster=aborted-3.9", tmp_path / "saved"
    shutil.copytree(folder, saved)
    damage_files(tmp_path / "archive", "aborted-3.9")
    feed = ran(spark, tmp_path)
    assert feed.unread == ["aborted-3.9"]
    shutil.rmtree(folder)
    saved.rename(folder)
    feed = ran(spark, tmp_path)
    assert feed.batch == 1
    assert_adds_up(feed, archive_in(tmp_path))
    assert ran(spark, tmp_path).batch == 1


@pytest.mark.prove
def test_a_stream_and_its_tables_belong_together(spark: SparkSession, tmp_path: Path) -> None:
    """The stream refuses an older archive.

    The batch fails if its tables are gone but the checkpoint remains.
    """
    look(tmp_path, 40)
    shutil.copytree(tmp_path / "archive", tmp_path / "backup")
    look(tmp_path, None)
    ran(spark, tmp_path)
    shutil.rmtree(tmp_path / "archive")
    (tmp_path / "backup").rename(tmp_path / "archive")
    with pytest.raises(CheckpointMismatch, match="the checkpoint is ahead of the archive"):
        streamed(spark, tmp_path).start(every_s=None)
    look(tmp_path, None)
    shutil.rmtree(tmp_path / "stream-tables")
    feed = streamed(spark, tmp_path)
    with pytest.raises(StreamingQueryException):
        feed.start(every_s=None).awaitTermination(PATIENCE_S)
    assert isinstance(feed.trouble, ArchiveCorrupt)


def test_a_new_query_forgets_the_error_of_the_last_one(tmp_path: Path) -> None:
    """The error of an ended stream is not reported for the next one."""
    look(tmp_path, 40)
    feed = replay.open(str(tmp_path / "archive")).follow(*[str(tmp_path / name) for name in "tc"])
    feed.trouble = ArchiveCorrupt("of the last query")
    no_session: Any = object()
    with pytest.raises(AttributeError):
        started(no_session, feed, None)
    assert feed.trouble is None
