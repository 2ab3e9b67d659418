"""Peak memory of the process that runs a command on a whole fleet with Spark: the driver.

    python -m benchmarks.fleets.driver_memory [--clusters 1 --clusters 8 --clusters 64]
        [--keys 5000] [--folder DIR]

The commands are `state --folder`, `diff --folder` and `report`, each a process of its own with
`--master local[2]`. The JVM and the Python processes of Spark's tasks do not count. Clusters are
generated as for `fleets.memory`. `diff` compares the first config record with the end.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import click
from rich.console import Console
from rich.table import Table

from benchmarks.fleets.memory import DRIVER_GOAL_MB, generate
from benchmarks.processes.process_memory import peak_mb

POLL_S = 0.05
"""Time between two looks at the memory of a process. The kernel keeps the peak itself, so only a
peak in the last moment before the end is missed."""

DIFFERENT = 1
"""Exit code of `replay diff` if there are differences."""

COMMANDS = {
    "state --folder": ("state", "-o", "parquet", "--folder"),
    "diff --folder": ("diff", "--from", "config@0", "-o", "parquet", "--folder"),
    "report": ("report", "--release", "3.9", "--file"),
}
"""Words of each command, before its target."""


class DriverFigure(NamedTuple):
    """Time of a command, and the peak memory of its process."""

    seconds: float
    driver_mb: float


def run(archive: Path, words: tuple[str, ...]) -> DriverFigure:
    """Run a command of `replay` with Spark on all clusters of an archive.

    Raises:
        click.ClickException: the command failed.
    """
    with tempfile.TemporaryDirectory() as name:
        command = (*words, str(Path(name) / "target"), "--engine", "spark", "--master", "local[2]")
        began, peak = time.perf_counter(), 0.0
        process = subprocess.Popen(
            [sys.executable, "-m", "replay", command[0], str(archive), *command[1:]],
            stdout=subprocess.DEVNULL,
        )
        while process.poll() is None:
            peak = max(peak, peak_mb(process.pid))
            time.sleep(POLL_S)
        if process.returncode not in {0, DIFFERENT}:
            raise click.ClickException(f"{words[0]} has failed: exit code {process.returncode}")
        return DriverFigure(time.perf_counter() - began, peak)


def figures(folder: Path, clusters: tuple[int, ...], keys: int) -> dict[str, list[DriverFigure]]:
    """Measure each command on fleets of several sizes, in their order."""
    measured: dict[str, list[DriverFigure]] = {command: [] for command in COMMANDS}
    for count in clusters:
        archive = folder / f"{count}-{keys}"
        if not archive.exists():
            for number in range(count):
                generate(archive, f"cluster-{number:03}", keys)
        for command, words in COMMANDS.items():
            measured[command].append(run(archive, words))
    return measured


def figures_table(
    clusters: tuple[int, ...], keys: int, measured: dict[str, list[DriverFigure]]
) -> Table:
    """Table with a row per command and a column per fleet."""
    table = Table("driver", title=f"clusters of {keys:,} keys, with Spark")
    for count in clusters:
        table.add_column(f"{count} clusters", justify="right")
    for command, row in measured.items():
        table.add_row(command, *(f"{each.driver_mb:,.0f} MB, {each.seconds:.1f} s" for each in row))
    return table


@click.command(help=__doc__)
@click.option("--clusters", type=int, multiple=True, default=(1, 8, 64), show_default=True)
@click.option("--keys", default=5_000, show_default=True, help="Source partitions per cluster.")
@click.option("--folder", type=click.Path(path_type=Path), help="Folder of the archives. [new]")
def main(clusters: tuple[int, ...], keys: int, folder: Path | None) -> None:
    """Measure each command on fleets of several sizes, and print the table."""
    console = Console()
    with tempfile.TemporaryDirectory() as name:
        measured = figures(folder or Path(name), clusters, keys)
    console.print(figures_table(clusters, keys, measured))
    most = max(each.driver_mb for row in measured.values() for each in row)
    reached = "reached" if most <= DRIVER_GOAL_MB else "missed"
    console.print(f"driver: at most {most:,.0f} MB; goal: {DRIVER_GOAL_MB} MB: {reached}")


if __name__ == "__main__":
    main()
