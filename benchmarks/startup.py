"""Start-up time of a control plane, with and without snapshots.

    python -m benchmarks.startup [--records 200000] [--rounds 3] [--quick]

An embedded log holds `--records` records: half in the config topic, half in the status topic. They
configure and stop each of 500 connectors many times, as in an old fleet, and report the status of
tasks. The time runs from `ControlPlane.open` until the plane is the writer, knows the state and
accepts commands. The table of plugins, made once per process, is excluded.

The peer is the same log without snapshots, so it is read and folded completely. In each topic,
at most 9,999 records (`TAIL`) follow the newest snapshot. With snapshots only these are read. Both
take turns; the best of several rounds counts, and both must reach the same state.
"""

import asyncio
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import click
from rich.console import Console
from rich.table import Table

from benchmarks.inputs.sample_logs import CONFIG, PARTITIONS, START_MS, STATUS, config, status
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.logs.log import Record
from controlplane.logs.sqlite import SqliteLog
from controlplane.plane import ControlPlane, Settings
from controlplane.projection.loader import load
from controlplane.projection.snapshot_writer import SnapshotSettings, keep_snapshots
from controlplane.projection.upkeep import UpkeepSettings

CONNECTORS = 500
TASKS = 8 * CONNECTORS
TAIL = SnapshotSettings().tail_records - 1
"""Records of each topic after the newest snapshot: one more would trigger the next snapshot."""

APPEND_RECORDS = 5_000

NO_UPKEEP = Settings(upkeep=UpkeepSettings(snapshots=SnapshotSettings(tail_records=10**9)))
"""Settings with which upkeep writes no snapshot: one of the logs must have none."""


class StartupFigure(NamedTuple):
    """Result of one way to start: its time, and the size of the file."""

    name: str
    seconds: float
    size: int


def records(topic: str, number: int) -> Iterator[Record]:
    """Records of a topic, one per second."""
    make, things = {CONFIG: (config, CONNECTORS), STATUS: (status, TASKS)}[topic]
    chance, partitions = Random(topic), PARTITIONS[topic]
    for place in range(number):
        thing = chance.randrange(things)
        yield Record(topic, thing % partitions, START_MS + 1_000 * place, *make(chance, thing))


async def fill(path: Path, number: int, *, snapshots: bool) -> None:
    """Create a log; its snapshots cover everything but the tail."""
    log = await SqliteLog.open(path)
    for topic, partitions in PARTITIONS.items():
        await log.create_topic(topic, partitions)
    halves = [list(records(topic, number // 2)) for topic in (CONFIG, STATUS)]
    tail = min(TAIL, number // 20)
    await _append(log, [entry for half in halves for entry in half[:-tail]])
    if snapshots:
        state = (await load(log, Profile.of("kip"))).snapshot()
        await keep_snapshots(log, state, SnapshotSettings(tail_records=1, lateness_ms=0))
    await _append(log, [entry for half in halves for entry in half[-tail:]])
    await log.close()


async def _append(log: SqliteLog, batch: Sequence[Record]) -> None:
    for first in range(0, len(batch), APPEND_RECORDS):
        await log.append(batch[first : first + APPEND_RECORDS])


async def start(path: Path) -> tuple[float, ClusterState]:
    """Seconds until a plane on this log accepts commands, and its state."""
    began = time.perf_counter()
    async with ControlPlane.open(f"sqlite:///{path}", NO_UPKEEP) as plane:
        return time.perf_counter() - began, plane.state


async def measure(number: int, rounds: int, folder: Path) -> list[StartupFigure]:
    """Figures of both ways, in turns."""
    ways = {"without snapshots": folder / "whole.db", "with snapshots": folder / "snapshots.db"}
    for name, path in ways.items():
        await fill(path, number, snapshots=name.startswith("with "))
    async with ControlPlane.open("memory:"):
        pass  # work that happens once per process is done now
    took: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        states = []
        for name, path in ways.items():
            seconds, state = await start(path)
            took[name].append(seconds)
            states.append((state.config, state.status))
        if states[0] != states[1]:
            raise click.ClickException("the state with snapshots differs from the state without")
    return [
        StartupFigure(name, min(took[name]), path.stat().st_size) for name, path in ways.items()
    ]


def table(figures: Sequence[StartupFigure], number: int) -> Table:
    """Figures, with the ratio of both ways."""
    whole, short = figures
    shown = Table("", title=f"starting on {number:,} records of the config and status topics")
    for column in ("until it takes commands", "file"):
        shown.add_column(column, justify="right")
    for figure in figures:
        shown.add_row(
            figure.name, f"{figure.seconds * 1_000:,.0f} ms", f"{figure.size / 1e6:.1f} MB"
        )
    shown.add_row(
        "ratio", f"{whole.seconds / short.seconds:.1f}×", f"{short.size / whole.size:.2f}"
    )
    return shown


@click.command()
@click.option(
    "--records",
    "number",
    default=200_000,
    show_default=True,
    help="Number of records in the config and status topics together.",
)
@click.option("--rounds", default=3, show_default=True)
@click.option("--quick", is_flag=True, help="One small round, to check that it runs.")
def main(number: int, rounds: int, quick: bool) -> None:
    """Measure start-ups with and without snapshots, and print the table."""
    if quick:
        number, rounds = 20_000, 1
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(measure(number, rounds, Path(folder)))
    Console().print(table(figures, number))


if __name__ == "__main__":
    main()
