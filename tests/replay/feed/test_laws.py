"""A feed's changes add up to the archive's state and findings after every batch.

Each batch follows a capture of a growing log.
"""

import re
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from controlplane.core.entry import Entry
from replay.audit.kinds import KINDS
from replay.fleet.feed.cluster_checkpoint import CheckpointFiles
from replay.fleet.feed.followed_audit import PATIENCE_MS
from tests.conftest import examples, sampled
from tests.laws.entries import logs
from tests.recorded_requests import EXACTLY_ONCE, HISTORIES, recorded_entries
from tests.replay.archive.archives import NAME
from tests.replay.feed.feed_laws import (
    archive_in,
    archived,
    assert_adds_up,
    feed_in,
    looks_at,
    rows_of,
)
from tests.tidy.source import ROOT

pytestmark = pytest.mark.slow

STORIES = sorted(path.name.removesuffix(".log.jsonl") for path in HISTORIES.glob("*.log.jsonl"))
USUAL = ("aborted-3.9", "odd-records-3.9")
LOOKS = 4


@pytest.mark.parametrize("name", sampled(STORIES, *USUAL))
def test_feeds_of_recorded_clusters_add_up(name: str, tmp_path: Path) -> None:
    """State, digest and findings are right after each of a few captures of a growing log."""
    options = {"exactly_once": name in EXACTLY_ONCE}
    for entries in looks_at(recorded_entries(name), Random(name), LOOKS):
        archived(tmp_path, entries)
        feed = feed_in(tmp_path, **options)
        feed.advance()
        assert_adds_up(feed, archive_in(tmp_path, **options))
        assert feed.advance() is None


@settings(max_examples=examples(3, proved=600))  # half a second each, on an idle core
@given(logs(), st.randoms(use_true_random=False))
def test_feeds_of_random_logs_add_up(entries: list[Entry], random: Random) -> None:
    """Feeds of random logs add up.

    Logs have odd records, decreasing times, keys in several partitions, and aborted records.
    """
    with TemporaryDirectory() as folder:
        for known_entries in looks_at(entries, random, LOOKS) if entries else ():
            archived(Path(folder), known_entries)
            feed = feed_in(Path(folder))
            feed.advance()
            assert_adds_up(feed, archive_in(Path(folder)))


@pytest.mark.parametrize("name", sampled(STORIES, "roll-3.4-3.9-3.4"))
def test_final_findings_are_never_resolved(name: str, tmp_path: Path) -> None:
    """With records in log order, findings of the kinds documented as final are never resolved."""
    page = (ROOT / "docs" / "replay-data.md").read_text("utf-8")
    (row,) = re.findall(r"^\| (.*) \| nothing: it is final \|$", page, re.MULTILINE)
    final = set(re.findall("`([a-z-]+)`", row))
    assert final < KINDS.keys()
    entries = recorded_entries(name)
    for look in range(1, LOOKS + 1):
        archived(tmp_path, entries[: len(entries) * look // LOOKS])
        feed = feed_in(tmp_path)
        feed.advance()
    changes = feed.tables.table("finding_changes").to_pylist()
    assert {row["kind"] for row in changes} & final
    assert {row["kind"] for row in changes if row["change"] == "resolved"}.isdisjoint(final)


def test_snapshots_only_save_time(tmp_path: Path) -> None:
    """Without the cluster's files in the checkpoint, the next batch has the same rows."""
    entries = recorded_entries("roll-3.4-3.9-3.4")
    for name, forgets in (("keeps", False), ("forgets", True)):
        for end in (40, 80, len(entries)):
            archived(tmp_path / name, entries[:end])
            feed_in(tmp_path / name).advance()
            if forgets:
                for path in (tmp_path / name / "checkpoint").glob("feed/cluster=*/**/*.*"):
                    path.unlink()
    rows, others = (rows_of(feed_in(tmp_path / name)) for name in ("keeps", "forgets"))
    assert rows == others
    assert len(rows["batches"]) == 3


def test_a_batch_reads_new_records_only(tmp_path: Path) -> None:
    """The next batch has the right digest, although the segments of early records are gone."""
    entries = recorded_entries("life-3.9")
    early, gap_ms = entries[:200], 3_600_000
    late = [replace(entry, timestamp=entry.timestamp + gap_ms) for entry in entries[200:]]
    archived(tmp_path, early)
    feed_in(tmp_path).advance()
    archived(tmp_path, [*early, *late[:50]])
    # This batch stores audits that include the early records; the next one need not read these.
    feed_in(tmp_path).advance()
    old = [*(tmp_path / "archive").glob("cluster=*/topic=*/*/*.parquet")]
    archived(tmp_path, [*early, *late])
    expected = archive_in(tmp_path).summaries().column("digest").to_pylist()
    hidden = [path for path in old if _last_ms(path) < late[0].timestamp]
    assert hidden
    for path in hidden:
        path.unlink()
    feed = feed_in(tmp_path)
    feed.advance()
    (row,) = list(feed.tables.rows("batches", 2))
    assert (row["problem"], row["digest"]) == (None, expected[0])


def test_a_late_record_makes_later_batches_wait(tmp_path: Path) -> None:
    """A record that is late by more than `patience_ms` makes a batch audit all records again.

    The batch also quadruples `patience_ms`.
    """
    entries = recorded_entries("roll-3.4-3.9-3.4")
    configs = [entry for entry in entries if entry.topic == "connect-configs"]
    hour_ms = 3_600_000
    status = replace(
        next(entry for entry in entries if entry.topic == "connect-status"),
        timestamp=configs[-1].timestamp + hour_ms,
        offset=1_000,
        partition=0,
    )
    patience = []
    for known_entries in ([*configs[:5], status], [*configs, status]):
        archived(tmp_path, known_entries)
        feed = feed_in(tmp_path)
        feed.advance()
        assert_adds_up(feed, archive_in(tmp_path))
        checkpoint = CheckpointFiles(feed.context.store, NAME).read(feed.batch)
        assert checkpoint is not None
        patience.append(checkpoint.audit.patience_ms)
    assert patience == [PATIENCE_MS, 4 * PATIENCE_MS]


def _last_ms(path: Path) -> int:
    """Greatest time in a segment, or in the file of its winners (rows that may still count)."""
    return int(max(pq.read_table(path).column("timestamp").to_pylist()))


def test_checkpoints_do_not_pile_up(tmp_path: Path) -> None:
    """The feed keeps only the files of the last two batches."""
    entries = recorded_entries("roll-3.4-3.9-3.4")
    for end in range(20, 100, 20):
        archived(tmp_path, entries[:end])
        feed_in(tmp_path).advance()
    feed = feed_in(tmp_path)
    files = CheckpointFiles(feed.context.store, NAME)
    last_two = [checkpoint for batch in (2, 3) if (checkpoint := files.read(batch)) is not None]
    assert len(last_two) == 2
    named = {file.file for checkpoint in last_two for file in checkpoint.files}
    indexes = {f"cluster={NAME}/batch-{batch:010}.json" for batch in (2, 3)}
    assert {*feed.context.store.walk("")} == named | indexes | {"fleet-0000000003.json"}
