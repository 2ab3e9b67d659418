"""How fast Connect's REST API is answered: ours beside a real worker, on the same machine.

    python -m benchmarks.rest [--seconds 3] [--rounds 3] [--quick]

A worker of Kafka 3.9.1, with the options that its start script gives it, has 100 connectors on a
broker of its own; `controlplane serve` has an import of the worker's topics in a file, where each
command is durable. All connectors are stopped, so that the worker has nothing to run but its API,
which flatters it. One connection that asks and waits gives the latency, 16 of them the throughput.
Who asks is a process of its own (`benchmarks.asking`), the same for both. By turns, the best of
each.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import click
from rich.console import Console
from rich.table import Table

from benchmarks.boot import SCRIPT_JVM, until
from tests.kafka.process import NotReady
from tests.kafka.real import Broker, Worker

RELEASE = "3.9.1"
CONNECTORS = 100
CONNECTIONS = 16
WARMING_S = 5
"""A JVM is slow before it has seen what it is to do."""

READS_GOAL = 2
"""How many times as many reads as a worker we have to answer."""
COMMANDS_GOAL = 0.5
"""What part of a worker's median a command may take."""

CONFIG = {
    "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
    "topic": "t",
    "file": "f",
}

_numbers = count()

Ask = tuple[str, str, str | None]


class Kind(NamedTuple):
    """A kind of request: how to ask it of a connector."""

    name: str
    reads: bool
    ask: Callable[[str], Ask]
    fresh: int = 0
    """How many connectors that are not there yet each connection needs; 0: it takes those there."""


def _create(name: str) -> Ask:
    return "POST", "/connectors", json.dumps(_stopped(f"{name}-{next(_numbers)}"))


def _stopped(name: str) -> dict[str, Any]:
    return {"name": name, "config": CONFIG, "initial_state": "STOPPED"}


KINDS = (
    Kind("GET /connectors", True, lambda _: ("GET", "/connectors", None)),
    Kind("GET /connectors/{c}", True, lambda name: ("GET", f"/connectors/{name}", None)),
    Kind("GET …/status", True, lambda name: ("GET", f"/connectors/{name}/status", None)),
    Kind("PUT …/pause", False, lambda name: ("PUT", f"/connectors/{name}/pause", None)),
    Kind("PUT …/stop", False, lambda name: ("PUT", f"/connectors/{name}/stop", None)),
    Kind("POST /connectors", False, _create, fresh=20),
)


class Figure(NamedTuple):
    """What came of one kind: milliseconds of one connection, requests a second of many."""

    p50_ms: float
    p99_ms: float
    rate: float
    took_ms: Sequence[float]
    """By one connection, ascending: as many as there are percentiles."""

    def better(self, other: "Figure") -> "Figure":
        """The best of both."""
        return Figure(
            min(self.p50_ms, other.p50_ms),
            min(self.p99_ms, other.p99_ms),
            max(self.rate, other.rate),
            min(self.took_ms, other.took_ms, key=median),
        )


async def measure(seconds: float, rounds: int, folder: Path) -> list[tuple[Figure, Figure]]:
    """The best figures of each kind: the worker's and ours."""
    async with (
        Broker(RELEASE, folder) as broker,
        Worker(RELEASE, broker, jvm=SCRIPT_JVM, session__timeout__ms=60_000) as worker,
    ):
        names = [f"c-{number:03}" for number in range(CONNECTORS)]
        await _make(worker, names)
        async with _ours(broker, folder / "state.db") as url:
            contestants = (worker.url, url)
            for one in contestants:
                await _figure(one, KINDS[1], names, min(seconds, WARMING_S))
            return [await _best(contestants, kind, names, seconds, rounds) for kind in KINDS]


async def _best(
    contestants: Sequence[str], kind: Kind, names: Sequence[str], seconds: float, rounds: int
) -> tuple[Figure, Figure]:
    theirs, ours = [await _figure(one, kind, names, seconds) for one in contestants]
    for _ in range(rounds - 1):
        again = [await _figure(one, kind, names, seconds) for one in contestants]
        theirs, ours = theirs.better(again[0]), ours.better(again[1])
    return theirs, ours


async def _make(worker: Worker, names: Sequence[str]) -> None:
    """Connectors that are stopped, and known to be."""
    for name in names:
        (await worker.rest.post("/connectors", json=_stopped(name))).raise_for_status()

    async def known() -> bool:
        return len((await worker.rest.get("/connectors?expand=status")).json()) == len(names)

    await until(known, "all connectors have a status")


@asynccontextmanager
async def _ours(broker: Broker, file: Path) -> AsyncIterator[str]:
    """`controlplane serve` of a copy of the worker's topics; the block gets its address."""
    imported = await _started("import", f"kafka://{broker.bootstrap}", str(file))
    if await imported.wait():
        raise NotReady("controlplane import has failed")
    where = ("--port", "0", "--release", RELEASE, "--quiet")
    serving = await _started("serve", f"sqlite:///{file}", *where)
    assert serving.stdout is not None
    try:
        line = (await serving.stdout.readline()).decode()
        yield line.rpartition(" on ")[2].strip()
    finally:
        serving.terminate()
        await serving.communicate()


async def _started(*arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "controlplane", *arguments), stdout=asyncio.subprocess.PIPE
    )


async def _figure(url: str, kind: Kind, names: Sequence[str], seconds: float) -> Figure:
    alone = await _asked(url, kind, [names], seconds)
    shares = [names[number::CONNECTIONS] for number in range(CONNECTIONS)]
    many = await _asked(url, kind, shares, seconds)
    ascending = sorted(alone["took"])
    took_ms = [ascending[len(ascending) * part // 100] * 1_000 for part in range(100)]
    return Figure(took_ms[50], took_ms[99], len(many["took"]) / many["seconds"], took_ms)


async def _asked(
    url: str, kind: Kind, shares: Sequence[Sequence[str]], seconds: float
) -> dict[str, Any]:
    """What `benchmarks.asking` tells of requests by so many connections."""
    if kind.fresh:
        shares, seconds = [[own[0]] * kind.fresh for own in shares], 0
    where = urlsplit(url)
    told = {
        "host": where.hostname,
        "port": where.port,
        "seconds": seconds,
        "requests": [[kind.ask(name) for name in own] for own in shares],
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.asking"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate(json.dumps(told).encode())
    if process.returncode:
        raise NotReady(f"{kind.name} was not answered well by {url}")
    result: dict[str, Any] = json.loads(said)
    return result


def table(figures: Sequence[tuple[Figure, Figure]]) -> Table:
    """The figures, the worker's beside ours, and how ours stand to them."""
    goals = f"≥ {READS_GOAL}× the reads/s, p50 of commands ≤ {COMMANDS_GOAL}×"
    shown = Table("", title=f"worker {RELEASE} / controlplane; to reach: {goals}")
    for column in ("p50 ms", "ratio", "p99 ms", "requests/s", "ratio"):
        shown.add_column(column, justify="right")
    for kind, (theirs, ours) in zip(KINDS, figures, strict=True):
        shown.add_row(
            kind.name,
            f"{theirs.p50_ms:.2f} / {ours.p50_ms:.2f}",
            f"{ours.p50_ms / theirs.p50_ms:.2f}×",
            f"{theirs.p99_ms:.2f} / {ours.p99_ms:.2f}",
            f"{theirs.rate:,.0f} / {ours.rate:,.0f}",
            f"{ours.rate / theirs.rate:.1f}×",
        )
    worker_ms, our_ms = (_together(column) for column in zip(*figures, strict=True))
    medians = f"{worker_ms:.2f} / {our_ms:.2f}"
    shown.add_row("commands together", medians, f"{our_ms / worker_ms:.2f}×")
    return shown


def _together(figures: Sequence[Figure]) -> float:
    """The median of all kinds of commands, each asked as often."""
    commands = (one for kind, one in zip(KINDS, figures, strict=True) if not kind.reads)
    return median(took_ms for one in commands for took_ms in one.took_ms)


@click.command()
@click.option("--seconds", default=3.0, show_default=True, help="Time for each kind, twice.")
@click.option("--rounds", default=3, show_default=True)
@click.option("--quick", is_flag=True, help="One short round: does it still run?")
def main(seconds: float, rounds: int, quick: bool) -> None:
    """Measure and print."""
    if quick:
        seconds, rounds = 0.2, 1
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(measure(seconds, rounds, Path(folder)))
    Console().print(table(figures))


if __name__ == "__main__":
    main()
