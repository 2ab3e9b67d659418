"""Audits after a retention do not misread missing records.

A retention removes superseded records: no state at or after its cut (a time) depends on them.
"""

from pathlib import Path

import pyarrow as pa
import pytest

import replay
from tests.replay.archive.archives import capture, log_of
from tests.replay.audit.planted_log import DAY, MINUTE, STARTED, STOPPED, PlantedLog
from tests.replay.retention.retention_archives import retained


def findings(folder: Path, kind: str) -> list[tuple[str, str]]:
    """Connector and sentence of each finding of a kind."""
    table: pa.Table = replay.open(str(folder)).audit()
    return [(row["connector"], row["sentence"]) for row in table.to_pylist() if row["kind"] == kind]


@pytest.mark.slow
def test_removed_moves_are_no_pause(tmp_path: Path) -> None:
    """Only the last offset of each source partition stays; the audit reports no stalled source."""
    log = PlantedLog().running("a")
    for number in range(20):
        log.wait(MINUTE).offset("a", {"line": 9}, f"file-{number}")
    for line in range(3 * 24 * 12):
        log.wait(5 * MINUTE).offset("a", {"line": line}, "large")
    capture(tmp_path, log_of(log.entries))
    assert findings(tmp_path, "source-stalled") == []
    assert retained(tmp_path, log.now_ms).expired
    assert findings(tmp_path, "source-stalled") == []


def test_a_pause_behind_the_cut_is_found(tmp_path: Path) -> None:
    """An audit finds a stalled source after the cut both with and without the retention."""
    log = PlantedLog().running("a").moving("a", MINUTE)
    cut_ms = log.now_ms
    log.moving("a", MINUTE).moving("a", MINUTE).wait(DAY).config("other")
    capture(tmp_path, log_of(log.entries))
    before = findings(tmp_path, "source-stalled")
    assert len(before) == 1
    assert retained(tmp_path, cut_ms).expired
    assert [name for name, _ in findings(tmp_path, "source-stalled")] == ["a"]


def test_a_removed_stop_is_no_missing_stop(tmp_path: Path) -> None:
    """A retention removes the superseded target state; the audit's finding stays the same."""
    log = PlantedLog().running("a").tasks("a", 0).target("a", STOPPED).target("a", STARTED)
    log.status("connector-a", "RUNNING").wait(DAY).config("other")
    capture(tmp_path, log_of(log.entries))
    before = findings(tmp_path, "stop-half-done")
    assert len(before) == 1
    assert "was resumed" in before[0][1]
    assert retained(tmp_path, log.now_ms).expired
    assert findings(tmp_path, "stop-half-done") == before
