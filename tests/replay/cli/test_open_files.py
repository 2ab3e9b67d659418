"""Limit of open files in a process of `replay`."""

import os
import resource
import subprocess
from pathlib import Path

import pytest

from replay.archive.segments.segment_files import READ_AT_ONCE_BYTES, SegmentSizes
from tests.replay.archive.archives import archive
from tests.replay.archive.test_append import configs
from tests.replay.limited_process import run_limited

LIMIT, SEGMENTS = 100, 120


@pytest.fixture(scope="module")
def many_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archive of a partition with more segments than `LIMIT`, each too large to be read at once."""
    folder = tmp_path_factory.mktemp("many")
    value = os.urandom(READ_AT_ONCE_BYTES + 1)
    archive(folder, configs(*range(SEGMENTS), value=value), SegmentSizes(1, 1))
    return folder


def state_with(folder: Path, soft: int, hard: int) -> "subprocess.CompletedProcess[str]":
    """Run `replay state` in a process with these limits of open files."""
    return run_limited(resource.RLIMIT_NOFILE, soft, hard, "state", folder)


def test_a_low_limit_of_open_files_is_raised(many_files: Path) -> None:
    """A partition may have more segments than a process may usually open files."""
    result = state_with(many_files, LIMIT, 10 * LIMIT)
    assert (result.returncode, result.stderr) == (0, "")


def test_a_limit_that_cannot_be_raised_is_named(many_files: Path) -> None:
    """The error names the limit as the cause."""
    result = state_with(many_files, LIMIT, LIMIT)
    assert result.returncode == 2
    assert "Too many open files): raise the limit of open files (`ulimit -n`)" in result.stderr
