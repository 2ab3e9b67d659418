"""`state --folder`, and `state` and `diff` of a fleet with a damaged cluster in the middle."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.dataset as ds
import pytest

import replay
from replay.cli.execution import engine_choice
from replay.cli.options.engines import EngineChoice
from replay.engine.executors import Executor, SerialExecutor
from replay.tables.schemas import STATE_SCHEMAS
from tests.replay.cli.replay_calls import call, content, refusal
from tests.replay.fleet.fleets import CLUSTERS, damage_files, fleet_in, rows_of


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archive of recorded clusters."""
    return fleet_in(tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fleet with altered files in one cluster."""
    folder = fleet_in(tmp_path_factory.mktemp("damaged"))
    damage_files(folder, "life")
    return folder


@pytest.mark.slow
def test_a_folder_has_all_tables(fleet: Path, tmp_path: Path) -> None:
    """The command writes the rows of the API, and prints a line per state."""
    folder = tmp_path / "states"
    words = ("-o", "parquet", "--folder", folder, "--release", "3.4", "--release", "3.9")
    result = call("state", fleet, *words)
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines()[-1] == f"{folder}: {2 * len(CLUSTERS)} states"
    for name, schema in STATE_SCHEMAS.items():
        written = ds.dataset(folder / name, partitioning="hive").to_table().select(schema.names)
        expected = replay.open(str(fleet)).state(name, release=["3.4", "3.9"])
        assert rows_of(written) == rows_of(expected)


def test_the_other_clusters_of_a_damaged_one_are_written(damaged: Path, tmp_path: Path) -> None:
    """`state` writes the other clusters, names the damaged one and exits with code 2."""
    result = call("state", damaged, "-o", "parquet", "--folder", tmp_path / "states")
    assert result.code == 2
    assert result.err.startswith("Error: cluster=life/")
    assert f"{len(CLUSTERS) - 1} states" in result.out
    assert not (tmp_path / "states" / "tasks" / "cluster=life").exists()


def test_damaged_clusters_alone_are_refused(damaged: Path, tmp_path: Path) -> None:
    """`state` refuses a damaged cluster and writes no file."""
    words = ("--cluster", "life", "-o", "parquet", "--folder", tmp_path / "states")
    assert "was altered" in refusal(call("state", damaged, *words))
    assert content(tmp_path) == {}


def test_a_folder_needs_parquet_and_whole_tables(fleet: Path, tmp_path: Path) -> None:
    """`--folder` needs Parquet, writes whole tables, and needs a new folder."""
    folder = tmp_path / "states"
    folder.mkdir()
    (folder / "mine").touch()
    parquet = ("-o", "parquet", "--folder", folder)
    assert "has files: name a new folder" in refusal(call("state", fleet, *parquet))
    for words, message in (
        (("--folder", folder), "--folder FOLDER needs -o parquet"),
        ((*parquet, "--file", tmp_path / "x"), "--folder FOLDER needs -o parquet, and no --file"),
        ((*parquet, "--connector", "pages"), "leave --connector out"),
        (("-o", "parquet"), "-o parquet and --file FILE belong together"),
    ):
        result = call("state", fleet, *words)
        assert (result.code, message in result.err) == (2, True)


def test_explain_writes_no_folder(fleet: Path, tmp_path: Path) -> None:
    """`--explain` prints the read plan, also with `--folder`, and writes nothing."""
    parquet = ("-o", "parquet", "--folder", tmp_path / "states")
    result = call("state", fleet, *parquet, "--explain")
    assert result == call("state", fleet, "--explain")
    assert content(tmp_path) == {}


def test_a_damaged_cluster_hides_no_state(fleet: Path, damaged: Path) -> None:
    """`state` shows the other clusters, names the damaged one and exits with code 2."""
    others = [word for name in CLUSTERS if name != "life" for word in ("--cluster", name)]
    expected = call("state", fleet, *others, "-o", "json")
    result = call("state", damaged, "-o", "json")
    assert (result.code, result.json) == (2, expected.json)
    assert result.err.startswith("Error: cluster=life/")


def test_a_damaged_cluster_hides_no_difference(fleet: Path, damaged: Path) -> None:
    """`diff` compares the other clusters and names the damaged one; exit code 2 wins over 1."""
    others = [word for name in CLUSTERS if name != "life" for word in ("--cluster", name)]
    words = ("--from", "config@3", "-o", "json")
    expected = call("diff", fleet, *others, *words)
    result = call("diff", damaged, *words)
    assert expected.code == 1
    assert (result.code, result.json) == (2, expected.json)
    assert result.err.startswith("Error: cluster=life/")


@pytest.mark.parametrize("words", [("state",), ("diff", "--from", "config@3")])
def test_a_problem_is_named_once_if_auto_selects_spark(
    words: tuple[str, ...], fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks plan the readable clusters again, and not a cluster whose problem is printed."""
    archive = shutil.copytree(fleet, tmp_path / "archive")
    shutil.rmtree(archive / "cluster=life" / "_manifest")
    expected = call(*words, archive, "-o", "json")

    @contextmanager
    def in_spark(*_: object) -> Iterator[Executor]:
        yield SerialExecutor()

    monkeypatch.setattr(engine_choice, "WORTH_IT", 0)
    monkeypatch.setattr(EngineChoice, "in_spark", in_spark)
    result = call(*words, archive, "-o", "json")
    assert "\nusing Spark (" in result.err
    assert (result.code, result.json) == (expected.code, expected.json) == (2, expected.json)
    assert result.err.count("cluster=life/") == expected.err.count("cluster=life/") == 1
