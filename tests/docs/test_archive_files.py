"""Readers without `replay` read each record of the manifests once."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from replay.archive.archived_cluster import open_cluster
from replay.archive.merges.merge import Merger
from replay.archive.segments.segment_files import SegmentSizes
from replay.archive.stores.store import FolderStore
from tests.docs.consoles import ROOT
from tests.recorded_requests import recorded_entries
from tests.replay.archive.archives import capture, log_of

RECORDS = {"life": 354, "roll": 108}
"""Number of records of each captured cluster."""


@pytest.fixture(scope="module")
def segments() -> Callable[[Path], list[str]]:
    """Function of the documentation that lists the files of an archive."""
    page = (ROOT / "docs" / "replay-data.md").read_text("utf-8")
    (block,) = (
        code
        for code in re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        if "def segments" in code
    )
    assert "replay" not in block
    names: dict[str, Any] = {}
    exec(block.partition("\n\n\nrows = ")[0], names)
    listed: Callable[[Path], list[str]] = names["segments"]
    return listed


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Two recorded clusters, each captured in two looks."""
    for name, history in (("life", "life-3.9"), ("roll", "roll-3.4-3.9-3.4")):
        log = recorded_entries(history)
        for look in (log[: len(log) // 2], log):
            capture(tmp_path, log_of(look), name=name, sizes=SegmentSizes(40, 16))
    return tmp_path


def counts(files: list[str]) -> dict[str, int]:
    """Numbers of records that DuckDB finds, by cluster."""
    query = "select cluster, count(*) from read_parquet(?, hive_partitioning = true) group by all"
    return dict(duckdb.execute(query, [files]).fetchall())


def test_polars_reads_the_files_of_the_manifests(
    archive: Path, segments: Callable[[Path], list[str]]
) -> None:
    """Polars finds each record of the manifests once, before and after a merge."""
    for _ in range(2):
        rows = pl.read_parquet(segments(archive), hive_partitioning=True)
        assert dict(rows.group_by("cluster").len().iter_rows()) == RECORDS
        Merger(FolderStore(str(archive)), "life").run()


def test_manifests_name_each_record_once(
    archive: Path, segments: Callable[[Path], list[str]]
) -> None:
    """Manifests omit the file of a killed append, which a glob finds."""
    assert counts(segments(archive)) == RECORDS
    (left, *_) = archive.glob("cluster=life/topic=connect-configs/*/segment-*.parquet")
    left.with_name("segment-left.parquet").write_bytes(left.read_bytes())
    assert counts(segments(archive)) == RECORDS
    assert counts([str(archive / "**" / "segment-*.parquet")])["life"] > RECORDS["life"]


def test_a_merged_archive_is_read_as_before(
    archive: Path, segments: Callable[[Path], list[str]]
) -> None:
    """A read begins at the merge; replaced files may still be there."""
    store = FolderStore(str(archive))
    assert Merger(store, "life").run().merged
    (archive / "cluster=life" / "_manifest" / "0000000002.json").write_text("replaced")
    assert counts(segments(archive)) == RECORDS
    stored = [
        str(archive / segment.stored.file)
        for name in RECORDS
        for manifest in open_cluster(store, name).chain.manifests
        for segment in manifest.segments
    ]
    assert sorted(segments(archive)) == sorted(stored)
