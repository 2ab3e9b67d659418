"""Spark on a standalone cluster: tasks run in processes of its workers."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from replay.tables.schemas import STATE_SCHEMAS
from tests.cli.command_calls import CommandResult
from tests.replay.archive.buckets import archived, bucket
from tests.replay.cli.replay_calls import call
from tests.replay.fleet.fleets import CLUSTERS, fleet_in, rows_of
from tests.replay.spark.standalone_cluster import (
    StandaloneCluster,
    run_driver,
    standalone,
)

# Up to six JVMs, for most of a minute.
pytestmark = [pytest.mark.java, pytest.mark.prove]

COMMANDS = (
    ("state", "--profile", "3.4", "--profile", "3.9", "-o", "json"),
    ("audit", "-o", "json"),
)

WITHOUT_RIGHTS = """#!/bin/sh
exec setpriv --bounding-set=-dac_override,-dac_read_search {} "$@"
"""
"""Shell script that starts Python without root's right to read every file."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder for the files of Spark's processes."""
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[StandaloneCluster]:
    """A master and two workers of Spark."""
    with standalone(folder) as started:
        yield started


@pytest.fixture
def archives(tmp_path: Path) -> Iterator[list[list[str]]]:
    """Arguments for an archive in a folder, and for the same archive in an object store."""
    folder = tmp_path / "archive"
    folder.mkdir()
    with bucket("far") as store:
        where = archived(store, "archive", folder)
        yield [[str(folder)], [where, *store.conf()]]


@pytest.fixture
def expected(archives: list[list[str]]) -> list[CommandResult]:
    """Outputs of the commands in this process."""
    return [call(*words, *archives[0]) for words in COMMANDS]


def test_tasks_of_workers_give_the_same_output(
    cluster: StandaloneCluster,
    folder: Path,
    archives: list[list[str]],
    expected: list[CommandResult],
) -> None:
    """Commands on the cluster print what this process prints; each worker starts an executor.

    `state` is computed by kernels (functions on Arrow columns), and `audit` record by record.
    """
    for words, local in zip(COMMANDS, expected, strict=True):
        for archive in archives:
            remote = run_driver(*words, *archive, *cluster.options())
            assert (remote.code, remote.out) == (local.code, local.out), remote.err
    logs = (folder / f"worker-{number}.log" for number in range(2))
    assert all("Asked to launch executor" in log.read_text() for log in logs)


# --- executors without access -------------------------------------------------------------------


@pytest.fixture
def without_access(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Archive with a cluster, `life`, that executors may not read."""
    archive = fleet_in(tmp_path / "archive")
    python = tmp_path / "python"
    python.write_text(WITHOUT_RIGHTS.format(sys.executable))
    python.chmod(0o755)
    if os.geteuid() == 0:
        monkeypatch.setenv("PYSPARK_PYTHON", str(python))
    (archive / "cluster=life").chmod(0)
    yield archive
    (archive / "cluster=life").chmod(0o700)


OTHERS = [name for name in CLUSTERS if name != "life"]
SELECTED = [word for name in OTHERS for word in ("--cluster", name)]


def test_a_cluster_without_access_is_named(
    cluster: StandaloneCluster, without_access: Path
) -> None:
    """The cluster is named with the reason and exit code 2; commands answer about the others."""
    for words in COMMANDS:
        remote = run_driver(words[0], str(without_access), *words[1:], *cluster.options())
        local = call(words[0], without_access, *words[1:], *SELECTED)
        assert without_failed(remote) == without_failed(local)
        assert_named(remote)


def without_failed(result: CommandResult) -> Any:
    """Answer without the list `failed`, which only `audit` prints."""
    document = result.json
    if isinstance(document, dict):
        document.pop("failed")
    return document


def assert_named(result: CommandResult) -> None:
    """Check that the only error is that of the cluster without access."""
    assert result.code == 2
    (line,) = (line for line in result.err.splitlines() if line.startswith("Error: "))
    assert "cluster=life" in line
    assert "cannot be read (Permission denied)" in line


def test_states_without_access_are_reported(
    cluster: StandaloneCluster, without_access: Path, tmp_path: Path
) -> None:
    """`state` writes the other clusters; the summaries have the problem of the unreadable one."""
    out = tmp_path / "there", tmp_path / "here"
    words = ("state", str(without_access), "-o", "parquet", "--folder")
    assert_named(run_driver(*words, str(out[0]), *cluster.options()))
    call(*words, out[1], *SELECTED)
    for table in STATE_SCHEMAS:
        remote, local = (ds.dataset(each / table, partitioning="hive").to_table() for each in out)
        assert rows_of(remote) == rows_of(local)
    summaries = ds.dataset(out[0] / "summaries").to_table().to_pylist()
    problems = {row["cluster"]: row["problem"] for row in summaries if row["problem"]}
    assert problems.keys() == {"life"}


def test_a_feed_without_access_continues_with_access(
    cluster: StandaloneCluster, without_access: Path, tmp_path: Path
) -> None:
    """The first batch has the rows of the other clusters, and the only error names `life`.

    With access, the next batch has the changes of `life`.
    """
    words = (
        "watch",
        str(without_access),
        "--once",
        "-o",
        "json",
        "--checkpoint",
        str(tmp_path / "feed"),
    )
    first = run_driver(*words, *cluster.options())
    assert_named(first)
    local = call("watch", without_access, "--once", "-o", "json", *SELECTED)
    rows = [row for row in first.out.splitlines() if '"cluster": "life"' not in row]
    assert sorted(rows) == sorted(local.out.splitlines())
    (without_access / "cluster=life").chmod(0o700)
    second = run_driver(*words, *cluster.options())
    assert (second.code, second.err) == (0, "")
    assert '"rows_of": "state_changes", "batch": 1, "cluster": "life"' in second.out
