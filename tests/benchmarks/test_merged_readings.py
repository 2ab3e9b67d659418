"""Benchmark of merged readings: its archive is sound, and the measured forms give equal answers."""

from pathlib import Path

import pytest

from benchmarks.archives.merged_readings import NAME, Looks, measured, write_archive
from replay.archive.archived_cluster import open_cluster
from replay.archive.stores.store import FolderStore
from replay.archive.verification import verified
from replay.engine.coverage.certainty import ArchiveCertainty


@pytest.mark.parametrize("markers", [False, True])
def test_both_forms_answer_alike(tmp_path: Path, *, markers: bool) -> None:
    """Both forms answer equally; the present one has one range per partition in its manifest."""
    answers = []
    for earlier in (False, True):
        store = FolderStore(str(tmp_path / str(earlier)))
        write_archive(store, Looks(50, 2, markers), earlier=earlier)
        cluster = open_cluster(store, NAME)
        result = verified(cluster)
        assert (result.flaws, result.leftovers, result.records) == ((), (), 100)
        certainty = ArchiveCertainty(cluster)
        answers.append(
            [
                (certainty.looks(place).number, certainty.summary(place).unknown)
                for place in cluster.parts
            ]
        )
        (manifest,) = cluster.chain.manifests
        assert len(manifest.reaches) == (100 if earlier else 2)
        assert (measured(store).readings == 0) is earlier
    assert answers[0] == answers[1]
    assert answers[0][0][0] == 50
