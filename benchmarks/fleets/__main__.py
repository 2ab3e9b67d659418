"""Speed and memory of queries on whole fleets: this engine with and without Spark, and others.

    python -m benchmarks.fleets [--clusters 1 --clusters 8 --clusters 64 --clusters 512]
        [--keys 20000] [--rounds 3] [--folder DIR]

Each contestant (`fleet_engines.py`) writes Parquet by cluster: the last record of every key of the
offsets topic. Each is a process of its own and is warmed up. They take turns, in an order that
rotates, and the median counts. Clusters are generated (`memory.py`): `--keys` source partitions in
25 partitions of the topic, with three records each. The outputs must be equal. *Process* is the
peak memory of the contestant's process. *All* adds the peaks of its JVM and its workers.
"""

import sys
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import click
import duckdb
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks.fleets.fleet_engines import ENGINES, run_contestant
from benchmarks.fleets.memory import DRIVER_GOAL_MB, RECORDS_PER_KEY, generate
from benchmarks.processes.contestant_process import ContestantProcess

CONTESTANT = "contestant"
"""First argument of a contestant's process."""

MILLION = 1_000_000
SHOWN = {"spark": "ours, Spark", "local": "ours, local", "duckdb": "DuckDB", "polars": "Polars"}

PEER_GOAL = 1.0
"""Greatest allowed ratio to DuckDB's time; for Spark only from `SPARK_FROM` records on."""

SPARK_FROM = 30 * MILLION


class ContestantFigure(NamedTuple):
    """Result of one contestant on one fleet."""

    seconds: float
    process_mb: float
    all_mb: float
    output: tuple[int, int]
    """Number of rows written, and the sum of their hashes."""


class FleetContestant:
    """Process of one contestant, which writes the last records of one fleet."""

    def __init__(self, name: str, archive: Path, output: Path) -> None:
        arguments = (CONTESTANT, name, str(archive), str(output))
        self._process = ContestantProcess(name, "benchmarks.fleets", *arguments)
        self._output = output
        self._seconds: list[float] = []

    def write(self, *, counts: bool) -> None:
        """Let the contestant write its output once; the time is recorded if the round counts."""
        seconds = float(self._process.ask("write"))
        if counts:
            self._seconds.append(seconds)

    def end(self) -> ContestantFigure:
        """End the process; return its result."""
        peaks = self._process.end()
        return ContestantFigure(
            median(self._seconds), peaks[0], sum(peaks), output_hash(self._output)
        )


def output_hash(folder: Path) -> tuple[int, int]:
    """Number of rows in the files of a contestant, and the sum of their hashes."""
    with duckdb.connect() as connection:
        row = connection.execute(
            'SELECT count(*), sum(hash(cluster, partition::INT, "offset"::BIGINT, key::BLOB, '
            "value::BLOB)::HUGEINT) "
            f"FROM read_parquet('{folder}/*/*.parquet', hive_partitioning = true)"
        ).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


def contest(
    archive: Path, output: Path, names: Sequence[str], rounds: int, progress: Progress
) -> dict[str, ContestantFigure]:
    """Result of each contestant.

    Raises:
        click.ClickException: the outputs differ, or a contestant has died.
    """
    bar = progress.add_task("rounds", total=(1 + rounds) * len(names))
    contestants = {name: FleetContestant(name, archive, output / name) for name in names}
    order = deque(contestants.values())
    for number in range(1 + rounds):
        for contestant in order:
            contestant.write(counts=number > 0)
            progress.advance(bar)
        order.rotate(1)  # the JVM's compiler still runs for a while, during the next turn
    figures = {name: contestant.end() for name, contestant in contestants.items()}
    check_equal(figures)
    return figures


def check_equal(figures: Mapping[str, ContestantFigure]) -> None:
    """Compare the outputs. Raises `click.ClickException` if they differ."""
    outputs = {figure.output for figure in figures.values()}
    if len(outputs) > 1:
        rows = "; ".join(f"{name}: {figure.output[0]:,} rows" for name, figure in figures.items())
        raise click.ClickException(f"outputs differ: {rows}")


FleetFigures = Mapping[int, Mapping[str, ContestantFigure]]
"""Figures by the number of clusters and the contestant's name."""


def figures_table(measured: FleetFigures, keys: int) -> Table:
    """Table of all fleets, one contestant of one fleet per row."""
    shown = Table(title=f"clusters of {keys:,} keys and {keys * RECORDS_PER_KEY:,} records")
    for column in ("clusters", "", "s", "µs per 1,000 records", "× DuckDB", "process", "all"):
        shown.add_column(column, justify="left" if not column else "right")
    for clusters, figures in measured.items():
        records = clusters * keys * RECORDS_PER_KEY
        for name, figure in figures.items():
            ratio = f"{figure.seconds / figures['duckdb'].seconds:.2f}×"
            pace = f"{figure.seconds * 1e9 / records:,.0f}"
            memory = f"{figure.process_mb:,.0f} MB", f"{figure.all_mb:,.0f} MB"
            cells = f"{clusters}", SHOWN[name], f"{figure.seconds:.2f}", pace, ratio, *memory
            shown.add_row(*cells)
    return shown


def goals(measured: FleetFigures, keys: int) -> Iterator[str]:
    """Goals, and whether they were reached."""
    for clusters, figures in measured.items():
        records = clusters * keys * RECORDS_PER_KEY
        for name in ("local", "spark"):
            if name == "local" or records >= SPARK_FROM:
                ratio = figures[name].seconds / figures["duckdb"].seconds
                verdict = "reached" if ratio <= PEER_GOAL else "missed"
                goal = f"≤ {PEER_GOAL}× DuckDB"
                yield f"{SHOWN[name]}, fleet of {clusters}: {ratio:.2f}×; goal: {goal}: {verdict}"
    most = max(figures["spark"].process_mb for figures in measured.values())
    verdict = "reached" if most <= DRIVER_GOAL_MB else "missed"
    yield f"Spark's driver: at most {most:,.0f} MB; goal: ≤ {DRIVER_GOAL_MB} MB: {verdict}"


@click.command(help=__doc__)
@click.option("--clusters", type=int, multiple=True, default=(1, 8, 64, 512), show_default=True)
@click.option("--keys", default=20_000, show_default=True, help="Source partitions per cluster.")
@click.option("--rounds", default=3, show_default=True)
@click.option("--folder", type=click.Path(path_type=Path), help="Folder of the archives. [new]")
def main(clusters: tuple[int, ...], keys: int, rounds: int, folder: Path | None) -> None:
    """Measure every contestant on every fleet, and print the table and the goals."""
    console = Console()
    measured: dict[int, dict[str, ContestantFigure]] = {}
    with tempfile.TemporaryDirectory() as name, Progress(transient=True) as progress:
        for count in clusters:
            archive = (folder or Path(name)) / f"{count}-{keys}"
            if not archive.exists():
                for number in range(count):
                    generate(archive, f"cluster-{number:03}", keys)
            output = Path(name) / f"{count}"
            measured[count] = contest(archive, output, [*ENGINES], rounds, progress)
    console.print(figures_table(measured, keys))
    for line in goals(measured, keys):
        console.print(line)


if __name__ == "__main__":
    if sys.argv[1:2] == [CONTESTANT]:
        run_contestant(*sys.argv[2:])
    else:
        main()
