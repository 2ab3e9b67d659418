"""`diff --folder`, and the differences that `write_diff` of the API writes."""

import json
from pathlib import Path

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import replay
from replay.fleet.archive_source import UnreadableCluster
from replay.timeline.timeline_rows import CHANGES, COMPARISONS
from tests.replay.cli.replay_calls import call, content, refusal
from tests.replay.fleet.fleets import CLUSTERS, damage_files, fleet_in, rows_of

pytestmark = pytest.mark.slow

MOMENTS = ("--from", "config@3")


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


def parquet(folder: Path) -> tuple[object, ...]:
    """Options that write differences into a folder."""
    return "-o", "parquet", "--folder", folder


def test_a_folder_has_the_differences_of_all_clusters(fleet: Path, tmp_path: Path) -> None:
    """The files have the rows of the API; the command prints the numbers of the printed `diff`."""
    folder = tmp_path / "differences"
    result = call("diff", fleet, *MOMENTS, *parquet(folder))
    printed = call("diff", fleet, *MOMENTS)
    assert (result.code, result.err) == (1, printed.err)
    *numbers, total = result.out.splitlines()
    assert printed.out.splitlines()[-len(CLUSTERS) :] == numbers
    read = ds.dataset(folder / "differences", partitioning="hive").to_table()
    expected = replay.open(str(fleet)).diff("config@3")
    assert rows_of(read.select(CHANGES.names)) == rows_of(expected)
    assert total == f"{folder}: {expected.num_rows} differences"
    assert read["cluster"].to_pylist() == [row["cluster"] for row in read["from"].to_pylist()]
    assert (folder / "_SUCCESS").exists()


def test_the_api_writes_the_same_files(fleet: Path, tmp_path: Path) -> None:
    """`write_diff` and the command write equal bytes; the counts are those of the rows."""
    archive = replay.open(str(fleet))
    table = archive.write_diff(str(tmp_path / "api"), "config@3", connectors="pages")
    words = (*MOMENTS, "--connector", "pages", *parquet(tmp_path / "command"))
    assert call("diff", fleet, *words).code == 1
    assert content(tmp_path / "api") == content(tmp_path / "command")
    assert table.schema.equals(COMPARISONS)
    assert table["cluster"].to_pylist() == [*CLUSTERS]
    for row in table.to_pylist():
        (file,) = (tmp_path / "api" / "differences" / f"cluster={row['cluster']}").iterdir()
        assert pq.read_metadata(file).num_rows == row["differences"]


def test_the_counts_have_the_certain_moments_of_both_sides(fleet: Path, tmp_path: Path) -> None:
    """`certain_from` has the moments of `diff -o json`, also for a cluster with doubts."""
    words = ("diff", fleet, "--from", "config@3", "--to", "config@9")
    printed = {each["from"]["cluster"]: each for each in call(*words, "-o", "json").json}
    assert len(printed) == len(CLUSTERS)
    call(*words, *parquet(tmp_path / "written"))
    (file,) = (tmp_path / "written" / "comparisons").iterdir()
    rows = pq.read_table(file).to_pylist()
    assert {row["cluster"] for row in rows if row["doubts"]} == {"aborted"}
    for row in rows:
        moments = [row["certain_from"][side] for side in ("from", "to")]
        expected = printed[row["cluster"]]["certain_from"]
        assert [json.loads(moment) for moment in moments] == expected


def test_equal_states_have_files_without_rows(fleet: Path, tmp_path: Path) -> None:
    """Without differences, the exit code is 0, and readers still see the columns."""
    folder = tmp_path / "differences"
    words = ("--cluster", "roll", "--to-cluster", "roll", *parquet(folder))
    result = call("diff", fleet, *words)
    assert (result.code, result.out) == (0, f"roll: no differences\n{folder}: 0 differences\n")
    table = ds.dataset(folder / "differences", partitioning="hive").to_table()
    assert (table.num_rows, {*table.column_names}) == (0, {*CHANGES.names, "cluster"})


def test_the_other_clusters_of_a_damaged_one_are_compared(damaged: Path, tmp_path: Path) -> None:
    """`diff` writes the other clusters, names the damaged one and exits with code 2."""
    folder = tmp_path / "differences"
    result = call("diff", damaged, *MOMENTS, *parquet(folder))
    assert result.code == 2
    assert result.err.startswith("Error: cluster=life/")
    assert not (folder / "differences" / "cluster=life").exists()
    rows = pq.read_table(folder / "comparisons").to_pylist()
    assert [row["cluster"] for row in rows] == [*CLUSTERS]
    assert [row["cluster"] for row in rows if row["problem"]] == ["life"]
    assert [row["cluster"] for row in rows if row["certain_from"] is None] == ["life"]


def test_a_damaged_second_cluster_is_named(damaged: Path, tmp_path: Path) -> None:
    """If the cluster to compare with is damaged, the problem names it, and no file appears."""
    words = ("--cluster", "roll", "--to-cluster", "life", *parquet(tmp_path / "command"))
    assert "cluster=life/" in refusal(call("diff", damaged, *words))
    archive = replay.open(str(damaged), clusters="roll")
    (row,) = archive.write_diff(str(tmp_path / "api"), to_cluster="life").to_pylist()
    assert row["problem"].startswith("life: cluster=life/")
    strict = replay.open(str(damaged), clusters="roll", unreadable="raise")
    with pytest.raises(UnreadableCluster, match=r"^roll: life: cluster=life/"):
        strict.write_diff(str(tmp_path / "strict"), to_cluster="life")
    assert {path.name for path in tmp_path.iterdir()} == {"api"}


def test_refusals_leave_no_folder(fleet: Path, tmp_path: Path) -> None:
    """A wrong option or an unknown connector leaves no folder; `--explain` writes none."""
    folder = tmp_path / "differences"
    words = (*MOMENTS, "--connector", "nobody", *parquet(folder))
    assert "'nobody'" in refusal(call("diff", fleet, *words))
    result = call("diff", fleet, *MOMENTS, "--folder", folder)
    assert (result.code, "--folder FOLDER needs -o parquet" in result.err) == (2, True)
    explained = call("diff", fleet, *MOMENTS, *parquet(folder), "--explain")
    assert explained == call("diff", fleet, *MOMENTS, "--explain")
    assert content(tmp_path) == {}
