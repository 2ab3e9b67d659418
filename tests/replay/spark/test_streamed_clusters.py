"""Streams of Spark over many clusters: digests of the service, and one cluster that differs."""

import shutil
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from tests.recorded_requests import recorded_entries
from tests.replay.feed.feed_laws import archive_in, archived, assert_adds_up, looks_at
from tests.replay.feed.served_digests import last_digests, served_digests
from tests.replay.feed.test_checkpoints import problems
from tests.replay.feed.test_laws import LOOKS, STORIES
from tests.replay.spark.test_feed import ran
from tests.replay.spark.test_two_folds import random_asks

pytestmark = [pytest.mark.java, pytest.mark.prove]

LOGS = 40
"""Number of random logs; each is a cluster of the archive."""

ENTRIES = recorded_entries("roll-3.4-3.9-3.4")


@pytest.mark.parametrize("exactly_once", [False, True])
def test_streams_have_the_digests_of_the_service(
    spark: SparkSession, tmp_path: Path, *, exactly_once: bool
) -> None:
    """After each of a few looks, a stream has the service's digests, and its rows add up.

    The clusters are all recorded histories, and random logs.
    """
    logs = {name: recorded_entries(name) for name in STORIES}
    for number, ask in enumerate(random_asks(LOGS)):
        if ask.entries:
            logs[f"random-{number}"] = list(ask.entries)
    growing = {name: list(looks_at(log, Random(name), LOOKS)) for name, log in logs.items()}
    for number in range(LOOKS):
        looks = {name: growing[name][number] for name in logs}
        for name, known_entries in looks.items():
            archived(tmp_path, known_entries, name)
        feed = ran(spark, tmp_path, exactly_once=exactly_once)
        assert last_digests(feed) == served_digests(looks, exactly_once=exactly_once)
    assert_adds_up(feed, archive_in(tmp_path, exactly_once=exactly_once))


def test_one_cluster_from_a_backup_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """The stream names the cluster that is behind its checkpoint, and reads the other one.

    Both continue once the newer archive is back.
    """
    for name in ("a", "b"):
        archived(tmp_path, ENTRIES[:40], name)
    folder, saved = tmp_path / "archive" / "cluster=a", tmp_path / "saved"
    shutil.copytree(folder, saved)
    for name in ("a", "b"):
        archived(tmp_path, ENTRIES[:60], name)
    assert ran(spark, tmp_path).batch == 0
    newest = folder.rename(tmp_path / "newest")
    saved.rename(folder)
    archived(tmp_path, ENTRIES, "b")
    feed = ran(spark, tmp_path)
    by_cluster = problems(feed, 1)
    assert (feed.batch, feed.unread, by_cluster["b"]) == (1, ["a"], None)
    assert "the checkpoint is ahead of the archive" in str(by_cluster["a"])
    assert last_digests(feed)["b"] == served_digests({"b": ENTRIES})["b"]
    shutil.rmtree(folder)
    newest.rename(folder)
    archived(tmp_path, ENTRIES, "a")
    feed = ran(spark, tmp_path)
    assert problems(feed, 2) == {"a": None}
    assert last_digests(feed) == served_digests({"a": ENTRIES, "b": ENTRIES})
    assert_adds_up(feed, archive_in(tmp_path))
