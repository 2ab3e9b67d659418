"""Speed of commands: stop, pause, create and reset on the embedded log.

    python -m benchmarks.commands [--seconds 2] [--quick]

Each command is durable (`synchronous=FULL`) and read back before its answer. One caller gives the
latency. 64 concurrent callers with their own connectors give the throughput, because they share
commits. There is no peer: the figures are compared with goals.
"""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple

import click
from rich.console import Console
from rich.table import Table

from controlplane.core.commands import (
    AnyCommand,
    CreateConnector,
    PauseConnector,
    ResetOffsets,
    StopConnector,
)
from controlplane.garbage_collection import freeze_long_lived
from controlplane.plane import ControlPlane

CALLERS = 64
CONNECTORS = 8
"""Connectors per caller, used in turn."""

GOAL_P50_MS = 2
GOAL_RATE = 5_000

CONFIG = {
    "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
    "topic": "t",
    "file": "f",
}

CommandMaker = Callable[[str, int], AnyCommand]


class CommandKind(NamedTuple):
    """A kind of command, with a function that makes the n-th one for a connector."""

    name: str
    make: CommandMaker


KINDS = (
    CommandKind("stop", lambda name, _: StopConnector(name)),
    CommandKind("reset offsets", lambda name, _: ResetOffsets(name)),
    CommandKind("pause", lambda name, _: PauseConnector(name)),
    CommandKind("create", lambda name, number: CreateConnector(f"{name}-{number}", CONFIG)),
)
"""Order of the kinds: offsets are reset while the connectors are stopped."""


class CommandFigure(NamedTuple):
    """Result of one kind: milliseconds with one caller, commands per second with many."""

    kind: str
    p50_ms: float
    p99_ms: float
    many_p50_ms: float
    many_p99_ms: float
    rate: float


async def measure(folder: Path, seconds: float) -> list[CommandFigure]:
    """Figures of every kind, with one caller and with many."""
    async with ControlPlane.open(f"sqlite:///{folder / 'state.db'}") as plane:
        names = [[f"c{caller}-{n}" for n in range(CONNECTORS)] for caller in range(CALLERS)]
        for name in (connector for own in names for connector in own):
            await plane.execute(CreateConnector(name, CONFIG))
        freeze_long_lived()  # as in `controlplane serve`
        return [await _figure(plane, kind, names, seconds) for kind in KINDS]


async def _figure(
    plane: ControlPlane, kind: CommandKind, names: Sequence[Sequence[str]], seconds: float
) -> CommandFigure:
    numbers = count()
    alone = await _run(plane, kind, names[:1], numbers, seconds)
    began = time.perf_counter()
    many = await _run(plane, kind, names, numbers, seconds)
    rate = len(many) / (time.perf_counter() - began)
    return CommandFigure(kind.name, *_percentiles(alone), *_percentiles(many), rate)


async def _run(
    plane: ControlPlane,
    kind: CommandKind,
    names: Sequence[Sequence[str]],
    numbers: "count[int]",
    seconds: float,
) -> list[float]:
    """Seconds of each command; the callers run concurrently, each on its own connectors."""
    took: list[float] = []
    deadline = time.perf_counter() + seconds

    async def caller(own: Sequence[str]) -> None:
        for name in own:  # every connector at least once, because later kinds rely on it
            await timed(name)
        while time.perf_counter() < deadline:
            for name in own:
                await timed(name)

    async def timed(name: str) -> None:
        began = time.perf_counter()
        await plane.execute(kind.make(name, next(numbers)))
        took.append(time.perf_counter() - began)

    callers: list[Awaitable[None]] = [caller(own) for own in names]
    await asyncio.gather(*callers)
    return took


def _percentiles(seconds: list[float]) -> tuple[float, float]:
    ascending = sorted(seconds)
    return tuple(ascending[int(len(ascending) * part)] * 1_000 for part in (0.5, 0.99))  # type: ignore[return-value]


def table(figures: Sequence[CommandFigure]) -> Table:
    """Table of the figures, with the goals in its title."""
    shown = Table(
        "durable commands",
        title=f"to reach: p50 ≤ {GOAL_P50_MS} ms alone, ≥ {GOAL_RATE:,} commands/s by {CALLERS}",
    )
    for column in ("alone p50", "p99", f"{CALLERS} callers p50", "p99", "commands/s"):
        shown.add_column(column, justify="right")
    for figure in figures:
        times = (figure.p50_ms, figure.p99_ms, figure.many_p50_ms, figure.many_p99_ms)
        shown.add_row(figure.kind, *(f"{ms:.2f} ms" for ms in times), f"{figure.rate:,.0f}")
    return shown


@click.command()
@click.option(
    "--seconds",
    default=2.0,
    show_default=True,
    help=f"Seconds for each kind with one caller, and as many with {CALLERS} callers.",
)
@click.option("--quick", is_flag=True, help="One short round, to check that it runs.")
def main(seconds: float, quick: bool) -> None:
    """Measure every kind of command on a new log, and print the table."""
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(measure(Path(folder), 0.05 if quick else seconds))
    Console().print(table(figures))


if __name__ == "__main__":
    main()
