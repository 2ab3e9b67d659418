"""Benchmark of fleets: both engines and both folds give one digest."""

from pathlib import Path

import click
import pytest

from benchmarks.fleets import driver_memory
from benchmarks.fleets.driver_memory import COMMANDS, ENGINES, MeasuredRun
from benchmarks.fleets.memory import FleetFigure, check_equal, fleets, large

pytestmark = pytest.mark.java


@pytest.mark.prove
def test_engines_write_every_key_of_every_cluster(tmp_path: Path) -> None:
    """Spark and this process write every key of every cluster."""
    rows = dict(fleets(tmp_path, (2,), 300))
    assert {figure.rows for figure in rows.values()} == {600}
    assert rows["2 clusters, spark"].worker_mb > 0
    assert rows["2 clusters, local"].worker_mb == 0


@pytest.mark.prove
def test_buckets_of_a_large_cluster_give_the_same_state(tmp_path: Path) -> None:
    """One task and buckets of keys give the same state."""
    undivided, divided = (figure for _, figure in large(tmp_path, 300, 100))
    assert undivided is not None
    assert divided is not None
    assert undivided.digests == divided.digests
    assert divided.rows == 300


@pytest.mark.prove
def test_the_process_of_each_command_is_measured(tmp_path: Path) -> None:
    """Each command runs with each engine, and a process of Python has tens of megabytes."""
    runs = [MeasuredRun(command, engine) for command in COMMANDS for engine in ENGINES]
    measured = driver_memory.figures(tmp_path, (2,), 100, runs)
    assert list(measured) == runs
    for measured_run, (figure,) in measured.items():
        assert figure.process_mb > 20
        assert (figure.task_mb > 20) == (measured_run.engine == "spark")
    with pytest.raises(click.ClickException, match="state has failed: exit code 2"):
        driver_memory.run(tmp_path / "nothing", MeasuredRun("state", "local"))


def test_different_digests_end_the_benchmark() -> None:
    """The benchmark fails if the engines give different states."""
    figure = FleetFigure(1, 1, 1, 1, ["a"])
    with pytest.raises(click.ClickException, match="digests differ"):
        check_equal([figure, figure._replace(digests=["b"])])
