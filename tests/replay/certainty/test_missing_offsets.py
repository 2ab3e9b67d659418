"""Counts of missing offsets equal those of a plain search, with and without retention."""

from pathlib import Path

import numpy as np
import pytest

from replay.archive.archived_cluster import ArchivedCluster, PartitionId, open_cluster
from replay.archive.merges.merge import Merger
from replay.archive.segments.segment_files import rows_of
from replay.engine.coverage.hole_index import HoleIndex
from replay.engine.coverage.offset_counts import OffsetCounts
from replay.engine.plans.retention_plan import older_than
from tests.replay.certainty.lossy_archive import NAME, lossy_archive


def clusters(seed: int, folder: Path) -> list[ArchivedCluster]:
    """A random archive with many small segments, before and after a retention."""
    before = lossy_archive(seed, str(folder), is_losing=True).cluster
    Merger(before.store, NAME, retention=older_than(0, 25)).run()
    return [before, open_cluster(before.store, NAME)]


def archived_offsets(cluster: ArchivedCluster, place: PartitionId) -> list[int]:
    """Offsets of the records of a partition."""
    tables = [rows_of(cluster.store, segment) for segment in cluster.parts[place].segments]
    return [offset for table in tables for offset in table.column("offset").to_pylist()]


@pytest.mark.parametrize("seed", range(3))
def test_counts_equal_a_plain_search(seed: int, tmp_path: Path) -> None:
    """Counts are equal between any two offsets; removed records count as archived."""
    before, after = clusters(seed, tmp_path)
    for place, part in before.parts.items():
        present = archived_offsets(before, place)
        bounds = range(part.end + 2)
        for cluster in (before, after):
            counts, holes = OffsetCounts(cluster), HoleIndex(cluster).missing(place)
            for end in bounds:
                earlier = [offset for offset in present if offset < end]
                assert counts.end_before(place, end) == max(earlier, default=-1) + 1
                for start in bounds[: end + 1]:
                    count = sum(start <= offset for offset in earlier)
                    assert counts.archived(place, start, end) == count
            offsets = np.arange(part.end + 1)
            missing = [offset for offset in range(part.end) if offset not in present]
            ends = [counts.end_before(place, end) for end in offsets.tolist()]
            assert holes.end_before(offsets).tolist() == ends
            assert holes.before(offsets).tolist() == [
                sum(offset < end for offset in missing) for end in offsets.tolist()
            ]
            starts = np.arange(max(missing, default=-1) + 1)
            assert holes.first_from(starts).tolist() == [
                min(offset for offset in missing if offset >= start) for start in starts.tolist()
            ]
