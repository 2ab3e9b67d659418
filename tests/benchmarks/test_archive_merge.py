"""Benchmark of merges: its archives, and its planning of a fleet."""

from pathlib import Path

from benchmarks.archives.distant_store import DistantSource, DistantStore
from benchmarks.archives.merge import NAME, capture_looks, planned
from replay.archive.archived_cluster import open_cluster
from replay.archive.merges.merge import Merger


def test_looks_are_merged(tmp_path: Path) -> None:
    """Each look has a segment per partition; after the merge each partition has one."""
    store = DistantStore(str(tmp_path), 0.001)
    capture_looks(store, NAME, 3, 60)
    assert sum(1 for _ in store.walk("")) == 33
    result = Merger(store, NAME).run()
    assert (result.manifests, result.segments) == ((3, 1), (30, 10))
    cluster = open_cluster(store, NAME)
    assert {part.end for part in cluster.parts.values()} == {6}


def test_a_fleet_is_planned(tmp_path: Path) -> None:
    """The plan has one entry for each cluster of the fleet."""
    distant = DistantSource(str(tmp_path), latency_s=0.001)
    for name in ("a", "b"):
        capture_looks(distant.store, name, 1, 20)
    assert planned(distant) == planned(distant, "config@1") == 2
