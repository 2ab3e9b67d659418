"""Pipeline of files: source → log → sink, compared with a Java worker with the same connectors.

    python -m benchmarks.pipeline [--records 200000] [--rounds 3] [--quick]

FileStream source and sink run in one worker, with equal settings. The workers are a Java worker
3.9.1, `serve --own` on the same broker, and `serve` on SQLite. The Java worker has the options of
its start script. The workers take turns, each with new topics; medians count.

- *records/s* and *CPU per record*: from 1 % to 99 % of the sink's file. The processor time is that
  of the worker, without the broker.
- *RUNNING after*: from the request that creates a connector until its task is RUNNING. The other
  connectors of the worker are idle.
- *memory*: resident memory of the worker with ten connectors.

A second table compares two sources on SQLite: one has KIP-910's hook, and adds an offset at every
commit.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import NamedTuple

import click
import httpx
from rich.console import Console
from rich.table import Table

from benchmarks.pipeline.workers import (
    RELEASE,
    OpenWorker,
    PipelineWorker,
    java_worker,
    on_kafka,
    on_sqlite,
)
from benchmarks.processes.programs import until
from tests.kafka.real_kafka import Broker

LINE_BYTES = 101
PAIRS = 5
"""Number of pairs of a source and a sink: ten connectors."""

SHARES = (0.01, 0.99)
"""Measured part of the sink's file; buffers and commits distort the rest."""

MEMORY_GOAL = 0.3
"""Greatest allowed share of the Java worker's memory."""

PATIENCE_S = 600
SOURCE, SINK = "FileStreamSource", "FileStreamSink"
WORKERS: Mapping[str, OpenWorker] = {
    "Java worker": java_worker,
    "controlplane on Kafka": on_kafka,
    "controlplane on SQLite": on_sqlite,
}
HOOKS = {
    "without update_offsets": "benchmarks.pipeline.numbered_lines.NumberedLines",
    "with update_offsets": "benchmarks.pipeline.numbered_lines.NumberedLinesWithOffsets",
}

_names = count()


class PipelineFigure(NamedTuple):
    """Figures of one worker in one round, or their medians."""

    records_per_s: float
    cpu_us: float
    """Processor time per record, in microseconds."""
    running_ms: float
    resident_mib: float


class Throughput(NamedTuple):
    """Speed of one pipeline: records per second, and processor time per record."""

    records_per_s: float
    cpu_us: float


async def measure(folder: Path, records: int, rounds: int) -> dict[str, PipelineFigure]:
    """Median figures of each worker, by its name."""
    figures: dict[str, list[PipelineFigure]] = {name: [] for name in WORKERS}
    async with Broker(RELEASE, folder) as broker:
        for number in range(rounds):
            for name, open_worker in WORKERS.items():
                own = folder / f"{name}-{number}"
                own.mkdir()
                async with open_worker(own, broker) as worker:
                    figures[name].append(await _figure(worker, own, records))
    return {
        name: PipelineFigure(*map(statistics.median, zip(*taken, strict=True)))
        for name, taken in figures.items()
    }


async def measure_hooks(folder: Path, records: int, rounds: int) -> dict[str, Throughput]:
    """Median speed of a source without and with KIP-910's hook, on SQLite."""
    figures: dict[str, list[Throughput]] = {name: [] for name in HOOKS}
    for number in range(rounds):
        for name, source in HOOKS.items():
            own = folder / f"{name}-{number}"
            own.mkdir()
            async with on_sqlite(own) as worker, _client(worker) as client:
                config = {"connector.class": source, "count": str(records)}
                figures[name].append(await _pipe(worker, client, own, config, records))
    return {
        name: Throughput(*map(statistics.median, zip(*taken, strict=True)))
        for name, taken in figures.items()
    }


async def _figure(worker: PipelineWorker, folder: Path, records: int) -> PipelineFigure:
    async with _client(worker) as client:
        lines = folder / "in.txt"
        lines.write_text("".join(f"{number:0100d}\n" for number in range(records)), "ascii")
        config = {"connector.class": SOURCE, "file": str(lines)}
        speed = await _pipe(worker, client, folder, config, records)
        few = folder / "few.txt"
        few.write_text("one\ntwo\n")
        running = [
            await _created(client, config)
            for number in range(1, PAIRS)
            for config in _pair({"connector.class": SOURCE, "file": str(few)}, folder, number)
        ]
        return PipelineFigure(
            *speed,
            running_ms=statistics.median(running) * 1_000,
            resident_mib=worker.resident_mib,
        )


def _client(worker: PipelineWorker) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=worker.url, timeout=PATIENCE_S)


async def _pipe(
    worker: PipelineWorker,
    client: httpx.AsyncClient,
    folder: Path,
    source: Mapping[str, str],
    records: int,
) -> Throughput:
    """Speed of the first pair of connectors."""
    sink_first = reversed(_pair(source, folder, 0))
    for config in sink_first:
        await _created(client, config)
    began, finish = [
        await _reached(worker, folder / "out-0.txt", int(share * records * LINE_BYTES))
        for share in SHARES
    ]
    passed = (finish.size - began.size) / LINE_BYTES
    return Throughput(
        passed / (finish.time_s - began.time_s), (finish.cpu_s - began.cpu_s) / passed * 1e6
    )


class SinkProgress(NamedTuple):
    """Size of the sink's file at a moment, with the processor time of the worker."""

    size: int
    time_s: float
    cpu_s: float


async def _reached(worker: PipelineWorker, file: Path, size: int) -> SinkProgress:
    """Wait until the sink's file has that many bytes."""

    async def is_reached() -> bool:
        return _size(file) > size

    await until(is_reached, f"{file} has {size} bytes", PATIENCE_S)
    return SinkProgress(_size(file), time.perf_counter(), worker.cpu_s)


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _pair(source: Mapping[str, str], folder: Path, number: int) -> list[dict[str, str]]:
    """Configs of a source and of its sink, with a topic and a group of their own."""
    topic = f"lines-{next(_names)}"
    sink = {"connector.class": SINK, "file": str(folder / f"out-{number}.txt")}
    return [
        {"name": f"{topic}-source", "topic": topic, **source},
        {"name": f"{topic}-sink", "topics": topic, **sink},
    ]


async def _created(client: httpx.AsyncClient, config: Mapping[str, str]) -> float:
    """Seconds from the request that creates a connector until its task is RUNNING."""
    name = config["name"]

    async def create() -> bool:
        return (await client.put(f"/connectors/{name}/config", json=dict(config))).is_success

    async def is_running() -> bool:
        status = (await client.get(f"/connectors/{name}/status")).json()
        return [task["state"] for task in status.get("tasks", ())] == ["RUNNING"]

    began = time.perf_counter()
    await until(create, f"{name} is created", PATIENCE_S)
    await until(is_running, f"{name} runs", PATIENCE_S)
    return time.perf_counter() - began


# --- output --------------------------------------------------------------------------------------


def table(figures: Mapping[str, PipelineFigure], records: int) -> Table:
    """Figures of all workers, with the ratios to the Java worker."""
    shown = Table("", title=f"{records:,} lines through one worker")
    java, *others = figures.items()
    shown.add_column(java[0], justify="right")
    for name, _ in others:
        shown.add_column(name, justify="right")
        shown.add_column("ratio", justify="right")
    for field, (quantity, form) in QUANTITIES.items():
        peer = getattr(java[1], field)
        cells = [form.format(peer)]
        for _, figure in others:
            value = getattr(figure, field)
            cells += [form.format(value), f"{value / peer:.2f}×"]
        shown.add_row(quantity, *cells)
    goal = [
        cell
        for _, figure in others
        for cell in (_judged(figure.resident_mib / java[1].resident_mib), "")
    ]
    shown.add_row(f"goal: memory ≤ {MEMORY_GOAL}×", "", *goal)
    return shown


def _judged(ratio: float) -> str:
    return "reached" if ratio <= MEMORY_GOAL else "missed"


QUANTITIES = {
    "records_per_s": ("records/s", "{:,.0f}"),
    "cpu_us": ("CPU per record", "{:.1f} µs"),
    "running_ms": ("RUNNING after", "{:.0f} ms"),
    "resident_mib": ("memory, 10 connectors", "{:.0f} MiB"),
}
"""Per figure: its name, and the form of its value."""


def hook_table(figures: Mapping[str, Throughput], records: int) -> Table:
    """Speed without and with the hook."""
    shown = Table("", title=f"KIP-910's hook: {records:,} records on SQLite")
    for column in ("records/s", "CPU per record"):
        shown.add_column(column, justify="right")
    for name, speed in figures.items():
        shown.add_row(name, f"{speed.records_per_s:,.0f}", f"{speed.cpu_us:.1f} µs")
    return shown


@click.command()
@click.option("--records", default=200_000, show_default=True, help="Lines of the file.")
@click.option("--rounds", default=3, show_default=True, help="Number of rounds.")
@click.option("--quick", is_flag=True, help="One small round, to check that it runs.")
def main(records: int, rounds: int, quick: bool) -> None:
    """Measure the workers and the two sources, and print both tables."""
    if quick:
        records, rounds = 5_000, 1
    console = Console()
    with tempfile.TemporaryDirectory() as name:
        pipelines, hooks = Path(name) / "pipelines", Path(name) / "hooks"
        pipelines.mkdir()
        hooks.mkdir()
        console.print(table(asyncio.run(measure(pipelines, records, rounds)), records))
        console.print(hook_table(asyncio.run(measure_hooks(hooks, records, rounds)), records))


if __name__ == "__main__":
    main()
