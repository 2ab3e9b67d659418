"""Spark's tasks read object stores themselves, with the driver's settings."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.replay.archive.buckets import Bucket, archived, bucket
from tests.replay.cli.replay_calls import call

pytestmark = pytest.mark.java


@pytest.fixture
def store() -> Iterator[Bucket]:
    with bucket("elsewhere") as made:
        yield made


def test_tasks_find_the_store(store: Bucket, spark: SparkSession, tmp_path: Path) -> None:
    """Tasks read the object store as they read a folder; no output contains the secret."""
    where = archived(store, "archive", tmp_path)
    conf = store.conf()
    for words, code in (
        (("state", "--profile", "3.4", "--profile", "3.9", "-o", "json"), 0),
        (("timeline", "--cluster", "roll", "-o", "json"), 0),
        (("audit", "-o", "json"), 1),
    ):
        name, *options = words
        result = call(name, where, *options, "--engine", "spark", *conf)
        assert result == call(name, tmp_path, *options)
        assert result.code == code
    result = call("state", where, "--engine", "spark", "--explain", *conf)
    assert (result.code, store.secret in result.out + result.err) == (0, False)
    assert "in tasks at local[*]" in result.out
