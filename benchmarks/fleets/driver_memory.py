"""Peak memory of the process that runs a command on a whole fleet, and of Spark's tasks.

    python -m benchmarks.fleets.driver_memory [--command diff --command report]
        [--engine spark --engine local] [--clusters 1 --clusters 8 --clusters 64]
        [--keys 5000] [--folder DIR]

Each command is a process of its own. With Spark, it gets `--master local[2]`, and this process is
the driver. *Task* is the greatest peak of a Python process of Spark's tasks. The JVM does not
count. Clusters are generated as for `fleets.memory`. `diff` compares the first config record with
the end. `compat` and `report` assess one change of release, since more releases take more time.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import click
from rich.console import Console
from rich.table import Table

from benchmarks.fleets.memory import DRIVER_GOAL_MB, generate
from benchmarks.processes.process_memory import family, peak_mb, program

POLL_S = 0.05
"""Time between two looks at the memory of a process. The kernel keeps the peak itself, so only a
peak in the last moment before the end is missed."""

COMPLETE = {0, 1}
"""Exit codes of a complete answer; 1 tells of differences or findings."""

COMMANDS = {
    "state": ("-o", "parquet", "--folder", "{target}"),
    "diff": ("--from", "config@0", "-o", "parquet", "--folder", "{target}"),
    "report": ("--release", "3.9", "--towards", "4.1", "--file", "{target}"),
    "compat": ("--from", "3.9", "--to", "4.1", "-o", "json"),
    "lint": ("--release", "3.9", "-o", "json"),
}
"""Options of each command; `{target}` is a new file or folder."""

ENGINES = {
    "spark": ("--engine", "spark", "--master", "local[2]"),
    "local": ("--engine", "local"),
}
"""Options of each engine."""


class MemoryFigure(NamedTuple):
    """Time of a command, and the peak memory of its process and of Spark's tasks."""

    seconds: float
    process_mb: float
    task_mb: float
    """Greatest peak of a Python process of Spark's tasks; 0 without Spark."""


class MeasuredRun(NamedTuple):
    """Command and engine: a row of the table."""

    command: str
    engine: str


def run(archive: Path, measured_run: MeasuredRun) -> MemoryFigure:
    """Run a command of `replay` on all clusters of an archive.

    Raises:
        click.ClickException: the command failed.
    """
    command, engine = measured_run
    with tempfile.TemporaryDirectory() as name:
        target = str(Path(name) / "target")
        options = [word.format(target=target) for word in COMMANDS[command]]
        began, peak, task_peak = time.perf_counter(), 0.0, 0.0
        process = subprocess.Popen(
            [sys.executable, "-m", "replay", command, str(archive), *options, *ENGINES[engine]],
            stdout=subprocess.DEVNULL,
        )
        while process.poll() is None:
            peak = max(peak, peak_mb(process.pid))
            task_peak = max(task_peak, _task_peak_mb(process.pid))
            time.sleep(POLL_S)
        if process.returncode not in COMPLETE:
            raise click.ClickException(f"{command} has failed: exit code {process.returncode}")
        return MemoryFigure(time.perf_counter() - began, peak, task_peak)


def _task_peak_mb(pid: int) -> float:
    """Greatest peak of the Python processes below a process; 0 if there are none."""
    peak = 0.0
    with suppress(OSError):  # a process may end while its figures are read
        for child in family(pid):
            if child != pid and "python" in program(child):
                peak = max(peak, peak_mb(child))
    return peak


def figures(
    folder: Path,
    clusters: tuple[int, ...],
    keys: int,
    runs: Sequence[MeasuredRun],
    tell: Callable[[str], object] = lambda _: None,
) -> dict[MeasuredRun, list[MemoryFigure]]:
    """Measure each run on fleets of several sizes, in their order; `tell` receives each figure."""
    measured: dict[MeasuredRun, list[MemoryFigure]] = {each: [] for each in runs}
    for count in clusters:
        archive = folder / f"{count}-{keys}"
        if not archive.exists():
            for number in range(count):
                generate(archive, f"cluster-{number:03}", keys)
        for each, row in measured.items():
            row.append(run(archive, each))
            tell(f"{', '.join(each)}, {count} clusters: {_cell(row[-1])}")
    return measured


def figures_table(
    clusters: tuple[int, ...], keys: int, measured: dict[MeasuredRun, list[MemoryFigure]]
) -> Table:
    """Table with a row per run and a column per fleet."""
    table = Table("", title=f"process, task, time; clusters of {keys:,} keys")
    for count in clusters:
        table.add_column(f"{count} clusters", justify="right")
    for (command, engine), row in measured.items():
        table.add_row(f"{command}, {engine}", *map(_cell, row))
    return table


def _cell(figure: MemoryFigure) -> str:
    seconds, process_mb, task_mb = figure
    task = f", {task_mb:,.0f} MB" if task_mb else ""
    return f"{process_mb:,.0f} MB{task}, {seconds:.0f} s"


@click.command(help=__doc__)
@click.option(
    "--command",
    "commands",
    type=click.Choice([*COMMANDS]),
    multiple=True,
    default=("state", "diff", "report"),
    show_default=True,
)
@click.option(
    "--engine",
    "engines",
    type=click.Choice([*ENGINES]),
    multiple=True,
    default=("spark",),
    show_default=True,
)
@click.option("--clusters", type=int, multiple=True, default=(1, 8, 64), show_default=True)
@click.option("--keys", default=5_000, show_default=True, help="Source partitions per cluster.")
@click.option("--folder", type=click.Path(path_type=Path), help="Folder of the archives. [new]")
def main(
    commands: tuple[str, ...],
    engines: tuple[str, ...],
    clusters: tuple[int, ...],
    keys: int,
    folder: Path | None,
) -> None:
    """Measure each command on fleets of several sizes, and print the table."""
    console = Console()
    runs = [MeasuredRun(command, engine) for command in commands for engine in engines]
    with tempfile.TemporaryDirectory() as name:
        measured = figures(folder or Path(name), clusters, keys, runs, console.print)
    console.print(figures_table(clusters, keys, measured))
    most = max(figure.process_mb for row in measured.values() for figure in row)
    reached = "reached" if most <= DRIVER_GOAL_MB else "missed"
    console.print(f"process: at most {most:,.0f} MB; goal: {DRIVER_GOAL_MB} MB: {reached}")


if __name__ == "__main__":
    main()
