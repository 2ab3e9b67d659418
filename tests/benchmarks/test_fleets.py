"""Benchmark of fleets: all contestants write the same rows, and goals are judged."""

from pathlib import Path

import click
import pytest
from rich.progress import Progress

from benchmarks.fleets.__main__ import ContestantFigure, check_equal, contest, goals
from benchmarks.fleets.fleet_engines import ENGINES
from benchmarks.fleets.memory import generate

KEYS, CLUSTERS = 300, 2


@pytest.mark.prove
@pytest.mark.parametrize(
    "names",
    [
        ("local", "duckdb", "polars"),
        pytest.param((*ENGINES,), marks=pytest.mark.java),
    ],
    ids=["without Spark", "all"],
)
def test_all_write_the_last_records(names: tuple[str, ...], tmp_path: Path) -> None:
    """Each contestant writes one row per key of each cluster."""
    archive = tmp_path / "archive"
    for number in range(CLUSTERS):
        generate(archive, f"cluster-{number}", KEYS)
    with Progress(disable=True) as progress:
        figures = contest(archive, tmp_path / "output", names, 1, progress)
    assert figures.keys() == {*names}
    assert {figure.output[0] for figure in figures.values()} == {CLUSTERS * KEYS}


def test_different_outputs_end_the_benchmark() -> None:
    """The benchmark fails and names contestants with different results."""
    figure = ContestantFigure(1.0, 100.0, 100.0, (2, 7))
    check_equal({"local": figure, "duckdb": figure})
    with pytest.raises(click.ClickException, match="differ: local: 2 rows; duckdb: 2 rows"):
        check_equal({"local": figure, "duckdb": figure._replace(output=(2, 8))})


def test_goals_are_judged() -> None:
    """Spark's time counts from 30 million records on; its driver's memory always does."""
    figure = ContestantFigure(1.0, 100.0, 100.0, (1, 1))
    slow, large = figure._replace(seconds=1.1), figure._replace(process_mb=601.0)
    small_fleet = {"spark": slow, "local": figure, "duckdb": figure}
    large_fleet = {"spark": slow, "local": slow, "duckdb": figure}
    assert [*goals({1: small_fleet, 500: large_fleet}, 20_000)] == [
        "ours, local, fleet of 1: 1.00×; goal: ≤ 1.0× DuckDB: reached",
        "ours, local, fleet of 500: 1.10×; goal: ≤ 1.0× DuckDB: missed",
        "ours, Spark, fleet of 500: 1.10×; goal: ≤ 1.0× DuckDB: missed",
        "Spark's driver: at most 100 MB; goal: ≤ 600 MB: reached",
    ]
    (*_, memory) = goals({1: {**small_fleet, "spark": large}}, 20_000)
    assert memory == "Spark's driver: at most 601 MB; goal: ≤ 600 MB: missed"
