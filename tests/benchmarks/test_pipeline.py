"""Benchmark of pipelines in small; its ratios are those to the Java worker."""

import os
import subprocess
import sys

import pytest

from benchmarks.pipeline import __main__ as pipeline
from benchmarks.pipeline.__main__ import PipelineFigure
from tests.benchmarks.test_kafka import rows
from tests.tidy.source import ROOT


def test_ratios_of_pipelines_are_judged() -> None:
    """The ratios are of speed, processor time, start and memory; the goal is judged."""
    figures = {
        "Java worker": PipelineFigure(50_000, 20.0, 500, 400),
        "controlplane on Kafka": PipelineFigure(25_000, 30.0, 100, 120),
        "controlplane on SQLite": PipelineFigure(100_000, 10.0, 50, 125),
    }
    assert rows(pipeline.table(figures, 1_000)) == [
        ["records/s", "50,000", "25,000", "0.50×", "100,000", "2.00×"],
        ["CPU per record", "20.0 µs", "30.0 µs", "1.50×", "10.0 µs", "0.50×"],
        ["RUNNING after", "500 ms", "100 ms", "0.20×", "50 ms", "0.10×"],
        ["memory, 10 connectors", "400 MiB", "120 MiB", "0.30×", "125 MiB", "0.31×"],
        ["goal: memory ≤ 0.3×", "", "reached", "", "missed", ""],
    ]


@pytest.mark.java
@pytest.mark.broker
@pytest.mark.prove
def test_quick_prints_a_row_per_figure() -> None:
    """`--quick` prints a row per figure, and one for each source without and with the hook."""
    command = [sys.executable, "-m", "benchmarks.pipeline", "--quick"]
    wide = {**os.environ, "COLUMNS": "200"}
    printed = subprocess.run(
        command, cwd=ROOT, env=wide, stdout=subprocess.PIPE, text=True, check=True
    )
    lines = [line for line in printed.stdout.splitlines() if line.startswith("│")]
    assert len([line for line in lines if line.split("│")[1].strip()]) == 7
