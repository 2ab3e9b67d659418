"""Batches killed by `kill -9` count whole or not at all; a second run has all rows."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import PROVE
from tests.recorded_requests import recorded_entries
from tests.replay.feed.feed_laws import archive_in, archived, assert_adds_up, feed_in, rows_of
from tests.tidy.source import ROOT

pytestmark = pytest.mark.slow

EVERY = 1 if PROVE else 40
"""Number of steps between two crashes."""


def test_a_repeated_batch_has_the_same_rows(tmp_path: Path) -> None:
    """A repeated batch has the rows and states of a run without crash, and replaces its files."""
    entries = recorded_entries("roll-3.4-3.9-3.4")
    prepared, whole, killed = (tmp_path / name for name in ("prepared", "whole", "killed"))
    archived(prepared, entries[:60])
    feed_in(prepared).advance()
    archived(prepared, entries)
    shutil.copytree(prepared, whole)
    feed_in(whole).advance()
    expected = rows_of(feed_in(whole))
    module = "tests.replay.feed.feed_crashes"
    command = [sys.executable, "-W", "ignore", "-m", module, str(prepared), str(killed)]
    subprocess.run([*command, str(EVERY)], cwd=ROOT, check=True)
    folders = sorted(killed.iterdir())
    counted, drafts = [], 0
    for folder in folders:
        feed = feed_in(folder)
        counted.append(feed.batch)
        drafts += not feed.batch and any((folder / "tables").glob("*/batch=1/*"))
        feed.advance()
        assert rows_of(feed) == expected
        assert {path.name for path in (folder / "tables" / "batches").iterdir()} == {
            "batch=0",
            "batch=1",
        }
    assert_adds_up(feed_in(folders[0]), archive_in(folders[0]))
    assert counted == sorted(counted), "a kill at a later step never undoes the batch"
    assert {*counted} == {0, 1}
    assert drafts, "some crashes leave rows of a batch that does not count"
