"""Benchmark of archives: one archive per seed, equal answers, judged goals."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import pytest
from rich.progress import Progress

from benchmarks.inputs import large_cluster
from benchmarks.replay.__main__ import (
    ENTRANTS,
    GOALS,
    MILLION,
    SLOW_MOST,
    SLOW_ROUNDS,
    InProcessTimes,
    QueryFigure,
    check_equal,
    contest,
    goals,
    main,
)
from tests.tidy.source import ROOT

pytestmark = pytest.mark.slow

RECORDS = 20_000

GENERATE = """
import sys
from pathlib import Path
from rich.progress import Progress
from benchmarks.inputs.large_cluster import generate
with Progress(disable=True) as progress:
    generate(Path(sys.argv[1]), int(sys.argv[2]), progress)
"""

ON_ONE_CORE = """
import sys
from benchmarks.replay import archive_engines
archive_engines.CORES = 1
archive_engines.main(*sys.argv[1:])
import polars, pyarrow
print(polars.thread_pool_size(), pyarrow.cpu_count())
"""

NAMED = {entrant.name: entrant for entrant in ENTRANTS}
SOME = ("local", "duckdb")


def python(*words: str, stdin: str = "") -> str:
    """Run Python to its end; return its output, 200 columns wide."""
    command, env = [sys.executable, *words], {**os.environ, "COLUMNS": "200"}
    return subprocess.run(
        command, cwd=ROOT, env=env, input=stdin, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def generated(folder: Path) -> Path:
    """Small archive, generated in this process."""
    with Progress(disable=True) as progress:
        large_cluster.generate(folder, RECORDS, progress)
    return folder


def files(folder: Path) -> dict[str, bytes]:
    """All files of an archive except manifests, which contain the time."""
    paths = (
        path for path in folder.rglob("*") if path.is_file() and path.parent.name != "_manifest"
    )
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archive that all reading tests share."""
    return generated(tmp_path_factory.mktemp("archive"))


def test_a_seed_determines_the_archive(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every process generates equal bytes from a seed; another seed gives another archive."""
    python("-c", GENERATE, str(tmp_path / "again"), str(RECORDS))
    assert len(files(archive)) > sum(large_cluster.PARTITIONS.values())
    assert files(tmp_path / "again") == files(archive)
    monkeypatch.setattr(large_cluster, "SEED", large_cluster.SEED + 1)
    other = files(generated(tmp_path / "other"))
    assert not set(other.values()) & set(files(archive).values())


@pytest.mark.prove
def test_all_are_compared(archive: Path) -> None:
    """The middle and the end are compared for all contestants, also slow ones with fewer rounds."""
    entrants = [NAMED[name] for name in ("derived", "duckdb", "python", "scan")]
    with Progress(disable=True) as progress:
        figures = contest(entrants, archive, SLOW_ROUNDS + 1, progress)
    derived, slow = figures["derived"], figures["python"]
    assert slow.digests.keys() == {"final", "half"}
    assert derived.digests == figures["duckdb"].digests == slow.digests
    assert not derived.digests["final"] & derived.digests["half"]
    assert figures["scan"].digests == {}
    assert (derived.rounds, slow.rounds) == (SLOW_ROUNDS + 1, SLOW_ROUNDS)
    assert [*derived.seconds, *slow.seconds] == ["final", "half", "final"]


@pytest.mark.prove
def test_differing_contestants_are_named(archive: Path, tmp_path: Path) -> None:
    """The error has both digests: DuckDB also reads a segment that no manifest names."""
    shutil.copytree(archive, tmp_path, dirs_exist_ok=True)
    topic = tmp_path / f"cluster={large_cluster.NAME}" / f"topic={large_cluster.TOPICS.offsets}"
    stray = next((topic / "partition=1").glob("segment-*.parquet"))
    shutil.copy(stray, topic / "partition=2" / "segment-stray.parquet")
    entrants = [NAMED["local"], NAMED["duckdb"]]
    with (
        Progress(disable=True) as progress,
        pytest.raises(click.ClickException, match=r"^final: .*local: \w+…; duckdb: \w+…$"),
    ):
        contest(entrants, tmp_path, 1, progress)


def test_inconsistent_contestant_is_named() -> None:
    """A variant with two different results is named in the error."""
    with pytest.raises(click.ClickException, match=r"half: .*polars: \w…; polars: \w…"):
        check_equal({"scan": {}, "polars": {"final": {"a"}, "half": {"a", "b"}}})


@pytest.mark.parametrize("records", [10 * MILLION, SLOW_MOST])
def test_goals_are_judged(records: int) -> None:
    """Equal times give ratios of 1: goals of 1.000× or more are reached, smaller ones missed."""
    alike = QueryFigure({"final": 1.0, "half": 1.0}, 1, {}, 100.0, 0)
    lines = list(
        goals(records, dict.fromkeys(NAMED, alike), InProcessTimes(1.0, 1.0, 1, 11.0, 5.0))
    )
    times = [line.partition(": 1.000×; to reach: ") for line in lines]
    judged = {name: goal for name, separator, goal in times if separator}
    scan = {"spark / scan, final": "≤ 1.000×: reached"} if records == SLOW_MOST else {}
    assert judged == scan | {
        "spark / duckdb, final": f"≤ {1.1 if scan else 1.3:.3f}×: reached",
        "spark / python, final": "≤ 0.042×: missed",
        "spark / max_by, final": "≤ 0.067×: missed",
        "spark / duckdb, half": "≤ 1.000×: reached",
        "local / duckdb, half": "≤ 1.000×: reached",
        "derived / duckdb, half": "≤ 1.000×: reached",
    }
    assert "state to Parquet: 5.00 s, 5.0× the scan; to reach: ≤ 4×: missed" in lines
    assert "Spark shuffles 0 B; to reach: 0: reached" in lines
    assert "Spark takes 100 MB in all; to reach: < 2,000 MB: reached" in lines


def test_all_sizes_that_have_goals_are_measured() -> None:
    """The default sizes of `make bench` include every size with a goal."""
    sizes = next(param.default for param in main.params if param.name == "millions")
    assert isinstance(sizes, tuple)
    assert {size for goal in GOALS for size in goal.times} <= {
        millions * MILLION for millions in sizes
    }


def test_all_contestants_have_one_thread(archive: Path) -> None:
    """Polars and pyarrow use one thread on one core; by default they use every core."""
    output = python("-c", ON_ONE_CORE, "polars", str(archive), stdin="final\n")
    assert output.splitlines()[-1] == "1 1"


@pytest.mark.parametrize(
    "names",
    [SOME, pytest.param([*NAMED], marks=[pytest.mark.java, pytest.mark.prove])],
    ids=["some", "all"],
)
def test_quick_prints_a_row_per_program(tmp_path: Path, names: Sequence[str]) -> None:
    """`--quick` prints a row per program, and all answers are equal."""
    only = [word for name in names for word in ("--only", name)]
    output = python("-m", "benchmarks.replay", "--quick", "--folder", str(tmp_path), *only)
    rows = [line.split("│")[1].strip() for line in output.splitlines() if line.startswith("│")]
    assert rows == [NAMED[name].what for name in names]
    assert ("Spark shuffles 0 B; to reach: 0: reached" in output) == ("spark" in names)
