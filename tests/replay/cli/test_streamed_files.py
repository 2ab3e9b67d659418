"""`--file` of `state` and `diff` is written cluster by cluster, and is whole or absent."""

import weakref
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from replay.cli.options.archives import ArchiveInput
from replay.cluster_problem import ClusterProblem
from tests.replay.cli.replay_calls import call, content, refusal
from tests.replay.fleet.fleets import CLUSTERS, damage_files, fleet_in

COMMANDS = [("state",), ("diff", "--from", "config@3")]


class ClusterRows(list[str]):
    """Answer that a test can watch."""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archive of recorded clusters."""
    return fleet_in(tmp_path_factory.mktemp("fleet"))


def test_an_answer_is_released_before_the_next_is_made() -> None:
    """A command that streams holds one answer at a time; problems are printed at the end."""
    archive = ArchiveInput("fleet", (), exactly_once=False, trusting=False, failed=[])
    made: list[weakref.ref[ClusterRows]] = []

    def answers() -> Iterator[ClusterRows | ClusterProblem]:
        for number in range(3):
            assert not any(reference() for reference in made)
            rows = ClusterRows([str(number)])
            made.append(weakref.ref(rows))
            yield rows
            del rows
        yield ClusterProblem("b", "is damaged")

    for answer in archive.each_readable(answers()):
        assert answer
        assert not archive.failed
        del answer
    assert (len(made), archive.failed) == (3, ["b"])


@pytest.mark.parametrize("words", COMMANDS)
def test_a_file_has_the_rows_of_each_cluster(
    words: tuple[str, ...], fleet: Path, tmp_path: Path
) -> None:
    """The file of the whole fleet has the rows of the clusters one after the other."""
    command, *rest = words
    parts = []
    for name in CLUSTERS:
        file = tmp_path / f"{name}.parquet"
        call(command, fleet, *rest, "--cluster", name, "-o", "parquet", "--file", file)
        parts += pq.read_table(file).to_pylist()
    whole = tmp_path / "whole.parquet"
    call(command, fleet, *rest, "-o", "parquet", "--file", whole)
    assert pq.read_table(whole).to_pylist() == parts
    metadata = pq.read_metadata(whole)
    assert all(metadata.row_group(at).num_rows for at in range(metadata.num_row_groups))


@pytest.mark.parametrize("words", COMMANDS)
def test_a_refusal_leaves_no_file(words: tuple[str, ...], fleet: Path, tmp_path: Path) -> None:
    """An unknown connector, or a fleet of damaged clusters, leaves no file."""
    command, *rest = words
    parquet = ("-o", "parquet", "--file", tmp_path / "rows.parquet")
    assert "'nobody'" in refusal(call(command, fleet, *rest, "--connector", "nobody", *parquet))
    damaged = fleet_in(tmp_path / "damaged", {"life": CLUSTERS["life"]})
    damage_files(damaged, "life")
    assert "was altered" in refusal(call(command, damaged, *rest, *parquet))
    assert not [name for name in content(tmp_path) if not name.startswith("damaged/")]
