"""Spark on a cluster: tasks run in processes that share nothing with the driver but the archive."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tests.conftest import ROOT
from tests.recorded import recorded_entries
from tests.replay.archived import capture, log_of
from tests.replay.cli.calling import call

# Three JVMs, for most of a minute.
pytestmark = [pytest.mark.java, pytest.mark.prove]

MASTER = "local-cluster[2,1,1024]"
"""A master and two workers that Spark starts itself, each a JVM, as on machines of their own."""


def test_tasks_elsewhere_say_the_same(tmp_path: Path) -> None:
    """Of several clusters in one job, with hashes compared where files are read."""
    for name in ("life-3.9", "roll-3.4-3.9-3.4"):
        capture(tmp_path, log_of(recorded_entries(name)), name=name)
    words = ("state", tmp_path, "--profile", "3.4", "--profile", "3.9", "-o", "json")
    done = subprocess.run(
        [sys.executable, "-m", "replay", *map(str, words), "--master", MASTER],
        cwd=ROOT,
        env=os.environ | {"SPARK_HOME": str(Path(pyspark.__file__).parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, call(*words).out), done.stderr
