"""Speed of Connect's REST API: `controlplane serve`, compared with a real worker.

    python -m benchmarks.rest [--seconds 3] [--rounds 3] [--quick]

A worker of Kafka 3.9.1 runs with the options of its start script. It has 100 connectors on a broker
of its own. `controlplane serve` works on a SQLite file, into which `controlplane import` has copied
the worker's topics. Each command is written durably to this file. All connectors are stopped, which
favours the worker: it runs nothing but its API. One connection that waits for each response gives
the latency; 16 connections give the throughput. The client is a process of its own
(`processes/load_client.py`), the same for both servers. The servers take turns; the best value of
each figure counts.
"""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import click
from rich.console import Console
from rich.table import Table

from benchmarks.inputs.sample_logs import FILE_SOURCE
from benchmarks.processes.load_client import RequestParts, load
from benchmarks.processes.programs import SCRIPT_JVM, serve, started, until
from tests.kafka.process import ProgramNotReady
from tests.kafka.real_kafka import Broker, KafkaWorker

RELEASE = "3.9.1"
CONNECTORS = 100
CONNECTIONS = 16
WARMING_S = 5
"""Longest warm-up of each server in seconds: over one connection, then over many."""

READS_GOAL = 2
"""Required ratio of reads per second to a worker's."""
COMMANDS_GOAL = 0.5
"""Greatest allowed share of a worker's median time for a command."""

_numbers = count()


class RequestKind(NamedTuple):
    """A kind of request, with a function that makes it for a connector."""

    name: str
    reads: bool
    ask: Callable[[str], RequestParts]
    fresh: int = 0
    """Number of different requests of each connection; 0: one request per connector, repeated."""


def _create(name: str) -> RequestParts:
    return "POST", "/connectors", json.dumps(_stopped(f"{name}-{next(_numbers)}"))


def _uncached_status(name: str) -> RequestParts:
    """Request that no cache can answer: each has another parameter, which servers ignore."""
    return "GET", f"/connectors/{name}/status?n={next(_numbers)}", None


def _stopped(name: str) -> dict[str, Any]:
    return {"name": name, "config": FILE_SOURCE, "initial_state": "STOPPED"}


KINDS = (
    RequestKind("GET /connectors", True, lambda _: ("GET", "/connectors", None)),
    RequestKind("GET /connectors/{c}", True, lambda name: ("GET", f"/connectors/{name}", None)),
    RequestKind("GET …/status", True, lambda name: ("GET", f"/connectors/{name}/status", None)),
    RequestKind("GET …/status, uncached", True, _uncached_status, fresh=1_000),
    RequestKind("PUT …/pause", False, lambda name: ("PUT", f"/connectors/{name}/pause", None)),
    RequestKind("PUT …/stop", False, lambda name: ("PUT", f"/connectors/{name}/stop", None)),
    RequestKind("POST /connectors", False, _create, fresh=20),
)


class RequestFigure(NamedTuple):
    """Result of one kind: milliseconds of one connection, requests per second of many."""

    p50_ms: float
    p99_ms: float
    rate: float
    took_ms: Sequence[float]
    """Times of one connection, ascending: one per percentile."""

    def better(self, other: "RequestFigure") -> "RequestFigure":
        """Combine the better value of each field of two figures."""
        return RequestFigure(
            min(self.p50_ms, other.p50_ms),
            min(self.p99_ms, other.p99_ms),
            max(self.rate, other.rate),
            min(self.took_ms, other.took_ms, key=median),
        )


async def measure(
    seconds: float, rounds: int, folder: Path
) -> list[tuple[RequestFigure, RequestFigure]]:
    """Best figures of each kind: the worker's and ours."""
    async with (
        Broker(RELEASE, folder) as broker,
        KafkaWorker(RELEASE, broker, jvm=SCRIPT_JVM, session__timeout__ms=60_000) as worker,
    ):
        names = [f"c-{number:03}" for number in range(CONNECTORS)]
        await _make(worker, names)
        async with _ours(broker, folder / "state.db") as url:
            contestants = (worker.url, url)
            for contestant in contestants:
                await _figure(contestant, KINDS[1], names, min(seconds, WARMING_S))
            return [await _best(contestants, kind, names, seconds, rounds) for kind in KINDS]


async def _best(
    contestants: Sequence[str], kind: RequestKind, names: Sequence[str], seconds: float, rounds: int
) -> tuple[RequestFigure, RequestFigure]:
    theirs, ours = [await _figure(contestant, kind, names, seconds) for contestant in contestants]
    for _ in range(rounds - 1):
        again = [await _figure(contestant, kind, names, seconds) for contestant in contestants]
        theirs, ours = theirs.better(again[0]), ours.better(again[1])
    return theirs, ours


async def _make(worker: KafkaWorker, names: Sequence[str]) -> None:
    """Create stopped connectors, and wait until all have a status."""
    for name in names:
        (await worker.rest.post("/connectors", json=_stopped(name))).raise_for_status()

    async def have_statuses() -> bool:
        return len((await worker.rest.get("/connectors?expand=status")).json()) == len(names)

    await until(have_statuses, "all connectors have a status")


@asynccontextmanager
async def _ours(broker: Broker, file: Path) -> AsyncIterator[str]:
    """Yield the address of `controlplane serve` on a copy of the worker's topics."""
    imported = await started("controlplane", "import", f"kafka://{broker.bootstrap}", str(file))
    if await imported.wait():
        raise ProgramNotReady("controlplane import has failed")
    where = ("--port", "0", "--release", RELEASE, "--quiet")
    async with serve(f"sqlite:///{file}", *where) as served:
        yield served.url


async def _figure(
    url: str, kind: RequestKind, names: Sequence[str], seconds: float
) -> RequestFigure:
    alone = await _load_result(url, kind, [names], seconds)
    shares = [names[number::CONNECTIONS] for number in range(CONNECTIONS)]
    many = await _load_result(url, kind, shares, seconds)
    ascending = sorted(alone["took"])
    took_ms = [ascending[len(ascending) * part // 100] * 1_000 for part in range(100)]
    return RequestFigure(took_ms[50], took_ms[99], len(many["took"]) / many["seconds"], took_ms)


async def _load_result(
    url: str, kind: RequestKind, shares: Sequence[Sequence[str]], seconds: float
) -> dict[str, Any]:
    """Result of `load_client` for requests over these connections."""
    if kind.fresh:
        shares, seconds = [[own[0]] * kind.fresh for own in shares], 0
    return await load(url, [[kind.ask(name) for name in own] for own in shares], seconds)


def table(figures: Sequence[tuple[RequestFigure, RequestFigure]]) -> Table:
    """Figures of both servers, with their ratio."""
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


def _together(figures: Sequence[RequestFigure]) -> float:
    """Median over all kinds of commands, equally weighted."""
    commands = (figure for kind, figure in zip(KINDS, figures, strict=True) if not kind.reads)
    return median(took_ms for figure in commands for took_ms in figure.took_ms)


@click.command()
@click.option(
    "--seconds",
    default=3.0,
    show_default=True,
    help=f"Seconds for each kind over one connection, and as many over {CONNECTIONS}.",
)
@click.option("--rounds", default=3, show_default=True)
@click.option("--quick", is_flag=True, help="One short round, to check that it runs.")
def main(seconds: float, rounds: int, quick: bool) -> None:
    """Measure both servers, and print the table."""
    if quick:
        seconds, rounds = 0.2, 1
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(measure(seconds, rounds, Path(folder)))
    Console().print(table(figures))


if __name__ == "__main__":
    main()
