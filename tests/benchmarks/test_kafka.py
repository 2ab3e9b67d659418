"""Benchmark of Kafka in small, and the verdict on its goals."""

import subprocess
import sys

import pytest
from rich.console import Console
from rich.table import Table

from benchmarks.kafka import commands, fold
from benchmarks.kafka.commands import KafkaCommandFigure
from benchmarks.kafka.fold import KafkaFoldFigure
from tests.tidy.source import ROOT


def rows(table: Table) -> list[list[str]]:
    """Cells of a printed table, row by row."""
    console = Console(width=200, no_color=True)
    with console.capture() as printed:
        console.print(table)
    lines = (line for line in printed.get().splitlines() if line.startswith("│"))
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines]


@pytest.mark.parametrize(
    ("figure", "judged"),
    [
        (KafkaCommandFigure("stop", 10, 13, 5), "reached, reached"),
        (KafkaCommandFigure("stop", 10, 13.5, 5.5), "missed, missed"),
        (KafkaCommandFigure("pause", 10, 12, 20), "reached, reached"),
        (KafkaCommandFigure("pause", 10, 12, 21), "reached, missed"),
    ],
)
def test_goals_of_commands_are_judged(figure: KafkaCommandFigure, judged: str) -> None:
    """An attached command may take 3 ms more than Connect's.

    A plane with topics of its own may take half of Connect's time for a stop, twice for a pause.
    """
    ((*_, cell),) = rows(commands.table([figure]))
    assert cell == judged


def test_a_fold_shows_its_ratios_to_the_worker() -> None:
    """Time and memory are shown with their ratios to the worker's."""
    figures = KafkaFoldFigure(90.0, 2_000.0), KafkaFoldFigure(6.0, 500.0)
    assert rows(fold.table(figures, 10_000_000, 2)) == [
        ["known after", "90.0 s", "6.0 s", "15.0×"],
        ["peak memory", "2,000 MiB", "500 MiB", "4.0×"],
    ]


@pytest.mark.prove
@pytest.mark.java
@pytest.mark.broker
@pytest.mark.parametrize(
    ("part", "count"),
    [("appends", 8), ("fold", 2), ("commands", 5)],
)
def test_quick_prints_a_row_per_figure(part: str, count: int) -> None:
    """`--quick` prints a row per figure."""
    command = [sys.executable, "-m", "benchmarks.kafka", "--quick", "--only", part]
    printed = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    lines = [line for line in printed.stdout.splitlines() if line.startswith("│")]
    assert len([line for line in lines if line.split("│")[1].strip()]) == count
