"""Commands on Kafka: through Connect's REST API, through an attached service, and on own topics.

An attached service (`serve --connect-url`) sends each command to the worker's REST API. On own
topics (`serve --own`), a service writes the records itself, without a worker.

All share one broker of Kafka 3.9.1 and this machine. The worker runs with the options of its start
script. One connection waits for each response; its client is a process of its own
(`processes/load_client.py`). The services take turns in each round. The median of the rounds'
medians counts; a first round only warms up.

The attached service compares records with its plan after each answer. The next request comes at
once, so the comparison is part of the times.
"""

import json
import statistics
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count, product
from pathlib import Path
from typing import NamedTuple

import httpx
from rich.table import Table

from benchmarks.inputs.sample_logs import FILE_SOURCE
from benchmarks.processes.load_client import RequestParts, load
from benchmarks.processes.programs import SCRIPT_JVM, serve, until
from tests.kafka.real_kafka import Broker, KafkaWorker

RELEASE = "3.9.1"
CONNECTORS = 10
"""Stopped connectors, and as many paused ones, in each cluster."""

CREATED = 20
"""Number of connectors that a round creates."""

READY_ANSWERS = 3
"""Successive good answers after which a worker has rebalanced."""

GROUP = "own-cluster"
OWN_GOAL, PAUSE_GOAL = 0.5, 2.0
"""Greatest allowed ratio of the time on own topics to Connect's; the second is for a pause."""

ATTACHED_GOAL_MS = 3.0
"""Maximum time in ms that the attached service may add to Connect's median time."""

ANSWER_TIMEOUT_S = 60
JSON = {"content-type": "application/json"}

_numbers = count()


class CommandPhase(NamedTuple):
    """Kinds of commands that are sent in turn.

    `requests` makes the requests for the n-th connector.
    """

    kinds: tuple[str, ...]
    requests: Callable[[int], Sequence[RequestParts]]
    repeated: bool = True
    """True if the same requests are sent again until the time is over."""


def _create(number: int) -> Sequence[RequestParts]:
    return [("POST", "/connectors", _body(f"new-{number}-{next(_numbers)}", "STOPPED"))]


def _alter_and_reset(number: int) -> Sequence[RequestParts]:
    path = f"/connectors/stopped-{number}/offsets"
    offsets = [{"partition": {"filename": "f"}, "offset": {"position": number}}]
    return [("PATCH", path, json.dumps({"offsets": offsets})), ("DELETE", path, None)]


def _body(name: str, state: str) -> str:
    return json.dumps({"name": name, "config": FILE_SOURCE, "initial_state": state})


PHASES = (
    CommandPhase(("create",), _create, repeated=False),
    CommandPhase(("stop",), lambda number: [("PUT", f"/connectors/stopped-{number}/stop", None)]),
    CommandPhase(("alter", "reset"), _alter_and_reset),
    CommandPhase(("pause",), lambda number: [("PUT", f"/connectors/paused-{number}/pause", None)]),
)
KINDS = tuple(kind for phase in PHASES for kind in phase.kinds)


class KafkaCommandFigure(NamedTuple):
    """Median times of one kind of command, in milliseconds."""

    kind: str
    connect_ms: float
    attached_ms: float
    own_ms: float

    @property
    def added_ms(self) -> float:
        """Time that the attached service adds."""
        return self.attached_ms - self.connect_ms

    @property
    def ratio(self) -> float:
        """Ratio of the time on own topics to Connect's time."""
        return self.own_ms / self.connect_ms

    @property
    def goal(self) -> float:
        """Greatest allowed ratio for this kind of command."""
        return PAUSE_GOAL if self.kind == "pause" else OWN_GOAL


async def measure(folder: Path, seconds: float, rounds: int) -> list[KafkaCommandFigure]:
    """Median times of every kind of command, over the rounds without the first."""
    medians: dict[tuple[str, int], list[float]] = {}
    async with _services(folder) as urls:
        for url in (urls[0], urls[2]):
            await _make(url)
        for number in range(rounds + 1):
            for phase, (service, url) in product(PHASES, enumerate(urls)):
                await _ready(urls[0])
                times = await _phase(url, phase, seconds)
                for kind, taken in zip(phase.kinds, times, strict=True):
                    if number:  # the first round warms up
                        medians.setdefault((kind, service), []).append(statistics.median(taken))
    return [
        KafkaCommandFigure(
            kind,
            *(statistics.median(medians[kind, service]) * 1_000 for service in range(len(urls))),
        )
        for kind in KINDS
    ]


async def _phase(url: str, phase: CommandPhase, seconds: float) -> list[list[float]]:
    """Seconds of the requests of each kind, over one connection."""
    connectors = range(CONNECTORS if phase.repeated else CREATED)
    requests = [request for number in connectors for request in phase.requests(number)]
    result = await load(url, [requests], seconds if phase.repeated else 0)
    kinds = len(phase.kinds)
    return [result["took"][number::kinds] for number in range(kinds)]


async def _make(url: str) -> None:
    """Create the connectors that the requests change."""
    async with httpx.AsyncClient(base_url=url, timeout=ANSWER_TIMEOUT_S) as client:
        for number in range(CONNECTORS):
            for state in ("stopped", "paused"):
                await _created(client, _body(f"{state}-{number}", state.upper()))


async def _created(client: httpx.AsyncClient, body: str) -> None:
    """Create a connector, perhaps in several attempts: a worker may rebalance."""

    async def attempt() -> bool:
        sent = await client.post("/connectors", content=body, headers=JSON)
        return sent.is_success

    await until(attempt, f"{client.base_url} has created {body}")


async def _ready(url: str) -> None:
    """Wait until a worker has rebalanced: offsets cannot be altered before."""
    (method, path, body), _ = _alter_and_reset(0)
    good = 0
    async with httpx.AsyncClient(base_url=url, timeout=ANSWER_TIMEOUT_S) as client:

        async def ready() -> bool:
            nonlocal good
            sent = await client.request(method, path, content=body, headers=JSON)
            good = good + 1 if sent.is_success else 0
            return good == READY_ANSWERS

        await until(ready, f"{url} alters offsets")


# --- the services --------------------------------------------------------------------------------


@asynccontextmanager
async def _services(folder: Path) -> AsyncIterator[tuple[str, str, str]]:
    """Yield the URLs of a worker, of a service attached to it, and of a plane on own topics."""
    async with AsyncExitStack() as stack:
        broker = await stack.enter_async_context(Broker(RELEASE, folder))
        worker = KafkaWorker(RELEASE, broker, jvm=SCRIPT_JVM, session__timeout__ms=60_000)
        await stack.enter_async_context(worker)
        kafka = f"kafka://{broker.bootstrap}"
        trail = f"sqlite:///{folder / 'trail.db'}"
        connect = ("--connect-url", worker.url, "--trail", trail, "--port", "0", "--quiet")
        attached = await stack.enter_async_context(serve(kafka, *connect))
        properties = ("--own", "--worker-properties", str(_own_properties(folder)))
        options = ("--release", RELEASE, "--port", "0", "--quiet")
        own = await stack.enter_async_context(serve(kafka, *properties, *options))
        yield worker.url, attached.url, own.url


def _own_properties(folder: Path) -> Path:
    """Write the worker properties of the service on own topics; return the path of the file."""
    settings = {"group.id": GROUP}
    for store in ("config", "offset", "status"):
        settings[f"{store}.storage.topic"] = f"{GROUP}-{store}"
        settings[f"{store}.storage.replication.factor"] = "1"
    settings["command.storage.topic"] = f"{GROUP}-commands"
    path = folder / "own.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), "utf-8")
    return path


# --- output --------------------------------------------------------------------------------------


def table(figures: Sequence[KafkaCommandFigure]) -> Table:
    """Table with one row per kind of command, and its goal."""
    goals = f"attached adds ≤ {ATTACHED_GOAL_MS:.0f} ms; own topics ≤ {OWN_GOAL}×, pause ≤ 2×"
    shown = Table("p50 of commands on Kafka", title=goals)
    for column in ("Connect", "attached", "added", "own topics", "ratio", "goals"):
        shown.add_column(column, justify="right")
    for figure in figures:
        reached = figure.added_ms <= ATTACHED_GOAL_MS, figure.ratio <= figure.goal
        shown.add_row(
            figure.kind,
            *(f"{ms:.2f} ms" for ms in (figure.connect_ms, figure.attached_ms, figure.added_ms)),
            f"{figure.own_ms:.2f} ms",
            f"{figure.ratio:.2f}×",
            ", ".join("reached" if goal else "missed" for goal in reached),
        )
    return shown
