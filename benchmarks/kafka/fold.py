"""Offsets folded from Kafka, compared with a Java worker on the same topics.

A broker of Kafka 3.9.1 holds source offsets in 25 partitions and 500 stopped connectors. The clock
runs from the start of each process:

- Connect's distributed worker, until `GET /connectors/{c}/offsets` has its first good answer. It
  has the options of its start script and a heap of a given size;
- `processes/startup_probe.py`, until the topics are folded and every view is there.

The contestants take turns; medians count. Memory is the peak of each process.
"""

import asyncio
import re
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich.table import Table

from benchmarks.boot import RELEASE, answered, fill, launched_worker, probe_run
from benchmarks.processes.programs import SCRIPT_JVM
from tests.kafka.real_kafka import Broker

GOAL = 10
"""Required ratio of the worker's time to ours."""

RECORDS_PER_KEY = 5
"""Number of records per key of the offsets topic."""

SCRIPT_HEAP_GB = 2
"""Heap in GB that the start script gives a worker."""

PATIENCE_S = 1_200
"""Longest wait in seconds for a worker: with too small a heap it mostly collects garbage."""

_PEAK = re.compile(r"VmHWM:\s+(\d+) kB")


class KafkaFoldFigure(NamedTuple):
    """Seconds until a program knows the offsets, and its peak memory."""

    seconds: float
    peak_mib: float


async def ours(broker: Broker) -> KafkaFoldFigure:
    """Time and peak memory of a program that embeds the library (`startup_probe`)."""
    probe = await probe_run(broker)
    return KafkaFoldFigure(probe.seconds, probe.peak_kib / 1024)


async def java(broker: Broker, heap_gb: int) -> KafkaFoldFigure:
    """Time and peak memory of a distributed worker with a heap of this size."""
    jvm = [option for option in SCRIPT_JVM if not option.startswith("-Xmx")]
    began = time.perf_counter()
    async with launched_worker(broker, [*jvm, f"-Xmx{heap_gb}G"]) as worker:
        await answered(worker.url, PATIENCE_S)
        took = time.perf_counter() - began
        status = await asyncio.to_thread(Path(f"/proc/{worker.pid}/status").read_text)
    peak = _PEAK.search(status)
    assert peak is not None
    return KafkaFoldFigure(took, int(peak[1]) / 1024)


async def measure(
    folder: Path, records: int, rounds: int, heap_gb: int
) -> tuple[KafkaFoldFigure, KafkaFoldFigure]:
    """Median figures of the worker and of this project."""
    theirs, own = [], []
    async with Broker(RELEASE, folder) as broker:
        await fill(broker, records, max(1, records // RECORDS_PER_KEY))
        for _ in range(rounds):
            own.append(await ours(broker))
            theirs.append(await java(broker, heap_gb))
    return _median(theirs), _median(own)


def _median(figures: Sequence[KafkaFoldFigure]) -> KafkaFoldFigure:
    seconds, peaks = zip(*figures, strict=True)
    return KafkaFoldFigure(statistics.median(seconds), statistics.median(peaks))


def table(figures: tuple[KafkaFoldFigure, KafkaFoldFigure], records: int, heap_gb: int) -> Table:
    """Table of the worker's figure and ours, with their ratios."""
    theirs, own = figures
    keys = records // RECORDS_PER_KEY
    shown = Table("", title=f"{records:,} offsets of {keys:,} keys from Kafka; goal: ≥ {GOAL}×")
    for column in (f"Java worker, heap {heap_gb} GB", "controlplane", "ratio"):
        shown.add_column(column, justify="right")
    ratio = theirs.seconds / own.seconds
    shown.add_row("known after", f"{theirs.seconds:.1f} s", f"{own.seconds:.1f} s", f"{ratio:.1f}×")
    peaks = theirs.peak_mib / own.peak_mib
    sizes = (f"{figure.peak_mib:,.0f} MiB" for figure in figures)
    shown.add_row("peak memory", *sizes, f"{peaks:.1f}×")
    return shown
