"""Spark gives the service's states for merged and thinned archives, also in slices."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from controlplane.core.releases.profiles import PROFILES
from replay.engine.local_engine import LocalEngine, LocalOptions
from replay.engine.query import StateQuery
from replay.engine.slices import TaskLimits
from replay.engine.spark.engine import SparkEngine
from tests.conftest import PROVE
from tests.recorded_requests import HISTORIES, recorded_entries
from tests.replay.archive.archives import cluster_in, log_of, served
from tests.replay.archive.merges import LARGER, looks, merged
from tests.replay.retention.retention_archives import READERS, retained, state_contents

pytestmark = pytest.mark.java

USUAL = ("life-3.9", "aborted-3.9", "mirror-3.9")
ALL = [path.name.removesuffix(".log.jsonl") for path in sorted(HISTORIES.glob("*.log.jsonl"))]


def test_merged_archives_have_the_states_of_the_service(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark gives the service's states for every release, whole and in slices.

    Each archive is read twice: from segments only, and with winners (rows that may still count).
    """
    queries, expected = [], []
    for name in ALL if PROVE else USUAL:
        entries = recorded_entries(name)
        folder = tmp_path / name
        looks(folder, entries, 6)
        merged(folder, LARGER)
        for derived in (True, False):
            local = LocalEngine(cluster_in(folder), LocalOptions(derived=derived))
            queries.append(StateQuery(local, local.plan(None, PROFILES), PROFILES))
            expected.append(served(log_of(entries), None, PROFILES))
    for limits in (TaskLimits(), TaskLimits(slice_rows=30)):
        assert SparkEngine(spark, limits).states(queries) == expected


def test_thinned_archives_have_the_states_of_the_service(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark gives the service's states, in slices, after retention removed expired records."""
    entries = recorded_entries(USUAL[0])
    looks(tmp_path, entries, 2)
    assert retained(tmp_path, entries[-1].timestamp).expired
    local = LocalEngine(cluster_in(tmp_path), LocalOptions(derived=False))
    query = StateQuery(local, local.plan(None, READERS), READERS)
    (states,) = SparkEngine(spark, TaskLimits(slice_rows=30)).states([query])
    expected = served(log_of(entries), None, READERS)
    assert state_contents(states) == state_contents(expected)
