"""Sentences about problems name the cluster once."""

from pathlib import Path

import pytest

from replay.cli.options.archives import ArchiveInput
from replay.cluster_problem import ClusterProblem
from replay.fleet.archive_source import UnreadableCluster
from tests.replay.cli.replay_calls import call, refusal
from tests.replay.fleet.fleets import fleet_in

TWO = {"life": "life-3.9", "roll": "roll-3.4-3.9-3.4"}
EARLY = ("--as-of", "2001-01-01")
BEFORE = "'2001-01-01' is before the first record"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archive of two recorded clusters."""
    return fleet_in(tmp_path_factory.mktemp("fleet"), TWO)


@pytest.mark.parametrize(
    ("problem", "sentence"),
    [
        ("no such moment", "a: no such moment"),
        ("offsets of cluster=ab/topic=t/x.parquet", "a: offsets of cluster=ab/topic=t/x.parquet"),
        ("cluster=a/topic=t/x.parquet is missing", "cluster=a/topic=t/x.parquet is missing"),
        ("there is no archive of a cluster a here", "there is no archive of a cluster a here"),
        ("there is no archive of a cluster ab here", "a: there is no archive of a cluster ab here"),
    ],
)
def test_a_reason_that_names_the_cluster_stays_as_it_is(problem: str, sentence: str) -> None:
    """A reason that names the cluster gets no prefix; a longer name is another cluster."""
    assert ClusterProblem("a", problem).sentence == sentence


@pytest.mark.parametrize(
    "words",
    [
        ("state",),
        ("state", "-o", "parquet", "--folder", "states"),
        ("timeline",),
        ("history", "--connector", "pages"),
        ("diff", "--from", "config@3"),
        ("diff", "--from", "config@3", "-o", "parquet", "--folder", "differences"),
    ],
)
def test_a_moment_before_every_cluster_names_each(
    words: tuple[str, ...], fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each error names its cluster. Regression: `state --folder` once named no cluster."""
    monkeypatch.chdir(tmp_path)
    command, *options = words
    result = call(command, fleet, *options, *EARLY)
    assert [line.partition(" (")[0] for line in result.err.splitlines()] == [
        f"Error: {cluster}: {BEFORE}" for cluster in TWO
    ]
    assert result.code == 2
    assert not [*tmp_path.iterdir()]


def test_only_some_of_very_many_problems_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    """If no cluster has an answer, 20 are named, and the others are counted."""
    problems = [ClusterProblem(f"c{number}", "no such moment") for number in range(22)]
    archive = ArchiveInput("fleet", (), exactly_once=False, trusting=False, failed=[])
    with pytest.raises(UnreadableCluster, match=r"^… and 2 more clusters$"):
        archive.readable(problems)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"Error: c{number}: no such moment" for number in range(20)]


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("audit", ()),
        ("lint", ("--release", "3.9")),
        ("compat", ("--from", "3.9", "--to", "3.4")),
    ],
)
def test_each_cluster_without_the_moment_is_named_once(
    command: str, options: tuple[str, ...], fleet: Path
) -> None:
    """Each error names its cluster once, in a run on all clusters and with `--cluster`."""
    lines = call(command, fleet, *options, *EARLY).err.splitlines()
    assert [line.partition(" (")[0] for line in lines] == [
        f"Error: {cluster}: {BEFORE}" for cluster in TWO
    ]
    alone = refusal(call(command, fleet, *options, *EARLY, "--cluster", "roll"))
    assert alone.startswith(f"roll: {BEFORE}")


def test_a_comparison_names_the_cluster_that_is_damaged(fleet: Path, tmp_path: Path) -> None:
    """`diff` names the second side's cluster, which is damaged, and not the first side's."""
    damaged = fleet_in(tmp_path, TWO)
    (damaged / "cluster=roll" / "_manifest" / "0000000001.json").write_text("{}")
    words = ("diff", damaged, "--cluster", "life", "--to-cluster", "roll")
    assert refusal(call(*words)).startswith("cluster=roll/_manifest/0000000001.json is no manifest")
