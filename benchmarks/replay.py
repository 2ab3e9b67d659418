"""How fast an archive is asked: ours under Spark and without a JVM, beside what others would take.

    python -m benchmarks.replay [--records 1 --records 10 --records 30] [--rounds 5] [--folder DIR]
    python -m benchmarks.replay --quick

Archives are drawn from a seed (`benchmarks.fleet`), in millions of records; those that lie in the
folder are used again. Each contestant is a process of its own (`benchmarks.contestants`), warm: its
first answer does not count. They answer by turns; medians. All must say the same, by digest.
Memory is the most that a contestant ever had, with its JVM and its workers.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import click
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks.contestants import CORES, PROFILE
from benchmarks.fleet import A_DAY, NAME, generate
from controlplane.core.profiles import PROFILES
from replay.archive.cluster import Cluster, open_cluster
from replay.archive.layout import clusters
from replay.archive.store import open_store
from replay.engine.executors import Processes
from replay.engine.local import Local, Options
from replay.timeline.sharing import Job, Question
from replay.timeline.telling import digests

MILLION = 1_000_000


class Entrant(NamedTuple):
    """Somebody who is measured."""

    name: str
    """As `benchmarks.contestants` calls it."""
    what: str
    most: int = 100 * MILLION
    """Records beyond which it takes too long."""


ENTRANTS = (
    Entrant("spark", "ours, Spark"),
    Entrant("local", "ours, local"),
    Entrant("derived", "ours, local, derived"),
    Entrant("duckdb", "DuckDB"),
    Entrant("polars", "Polars"),
    Entrant("scan", "pyarrow: reads five columns, no more"),
    Entrant("python", "plain Python fold", 30 * MILLION),
    Entrant("max_by", "Spark `max_by`", 30 * MILLION),
)

SLOW = ("python", "max_by")
"""They are asked once in all: their times are far from all others."""


class Goal(NamedTuple):
    """How many times as long as another one ours may take at the most."""

    ours: str
    other: str
    records: int
    times: float
    question: str = "final"


GOALS = (
    Goal("spark", "duckdb", 10 * MILLION, 1.3),
    Goal("spark", "duckdb", 30 * MILLION, 1.1),
    Goal("spark", "scan", 30 * MILLION, 1.0),
    Goal("spark", "python", 10 * MILLION, 1 / 24),
    Goal("spark", "max_by", 10 * MILLION, 1 / 15),
    Goal("local", "duckdb", 10 * MILLION, 1.0, "half"),
    Goal("derived", "duckdb", 10 * MILLION, 1.0, "half"),
)

TAIL_GOAL_S = 0.5
DIGESTS_GOAL_S = 10
MEMORY_GOAL_MB = 2_000


class Figure(NamedTuple):
    """What came of one."""

    seconds: dict[str, float]
    """By question."""
    memory_mb: float
    shuffled: int


class Contestant:
    """A process that answers."""

    def __init__(self, entrant: Entrant, archive: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.contestants", entrant.name, str(archive)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.entrant = entrant
        self.took: dict[str, list[float]] = {}
        self.shuffled = 0
        self.digests: dict[str, str] = {}
        self._said()

    def asked(self, question: str, *, counts: bool) -> None:
        """Ask, and note what it answers."""
        assert self._process.stdin is not None
        print(question, file=self._process.stdin, flush=True)
        told: dict[str, Any] = json.loads(self._said())
        if counts:
            self.took.setdefault(question, []).append(told["seconds"])
            self.shuffled = max(self.shuffled, told["shuffled"])
        if "digest" in told:
            self.digests[question] = told["digest"]

    def _said(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise click.ClickException(f"{self.entrant.what} has died")
        return line

    def ended(self) -> Figure:
        """What came of it."""
        memory_mb = sum(map(_peak_mb, _family(self._process.pid)))
        self._process.communicate()
        seconds = {question: median(took) for question, took in self.took.items()}
        return Figure(seconds, memory_mb, self.shuffled)


def _family(pid: int) -> Iterator[int]:
    """A process and all that it has started, and they."""
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            yield from _family(int(child))


def _peak_mb(pid: int) -> float:
    """The most memory that a process ever had."""
    status = Path(f"/proc/{pid}/status").read_text()
    lines = (line.split() for line in status.splitlines() if line.startswith("VmHWM"))
    return sum(int(line[1]) for line in lines) / 1_024


# --- rounds ---------------------------------------------------------------------------------------


def contest(archive: Path, records: int, rounds: int, progress: Progress) -> dict[str, Figure]:
    """What comes of each entrant on one archive."""
    entrants = [one for one in ENTRANTS if records <= one.most]
    bar = progress.add_task(f"{records:,} records", total=len(entrants) + rounds)
    slow = {one.name: _alone(one, archive, progress, bar) for one in entrants if one.name in SLOW}
    fast = [Contestant(one, archive) for one in entrants if one.name not in SLOW]
    for one in fast:
        _ask_all(one, counts=False)
        progress.advance(bar)
    for _ in range(rounds):
        for one in fast:
            _ask_all(one, counts=True)
        progress.advance(bar)
    _check_equal(fast)
    return {one.entrant.name: one.ended() for one in fast} | slow


def _alone(entrant: Entrant, archive: Path, progress: Progress, bar: Any) -> Figure:
    """One that is asked once, when it is warm."""
    contestant = Contestant(entrant, archive)
    for counts in (False, True):
        contestant.asked("final", counts=counts)
    progress.advance(bar)
    return contestant.ended()


def _ask_all(one: Contestant, *, counts: bool) -> None:
    one.asked("final", counts=counts)
    if one.entrant.name != "scan":
        one.asked("half", counts=counts)


def _check_equal(contestants: Sequence[Contestant]) -> None:
    """Nothing is measured where somebody says something else."""
    for question in ("final", "half"):
        told = {one.digests[question] for one in contestants if question in one.digests}
        if len(told) > 1:
            raise click.ClickException(f"{question}: not all say the same")


# --- what only ours is asked ----------------------------------------------------------------------


class Ours(NamedTuple):
    """Seconds, in this process."""

    segments: float
    """A whole state: configs folded, statuses, offsets; from segments alone."""
    tail: float
    """The same from the last snapshot and the records behind it."""
    read: int
    """How many rows that were."""
    digests: float
    """What every release knows after every config record, as digests."""


def ours(cluster: Cluster, rounds: int) -> Ours:
    """What no other contestant can be asked."""
    plan = Local(cluster).plan(None, [PROFILE])
    return Ours(
        _median(rounds, lambda: _state(cluster, derived=False)),
        _median(rounds, lambda: _state(cluster, derived=True)),
        sum(part.rows for part in plan.parts),
        _median(1, lambda: _digests(cluster)),
    )


def _state(cluster: Cluster, *, derived: bool) -> None:
    local = Local(cluster, Options(derived=derived))
    local.states(local.plan(None, [PROFILE]), [PROFILE])


def _digests(cluster: Cluster) -> None:
    plan = Local(cluster, Options(derived=False)).plan(None, PROFILES)
    job = Job(cluster, plan, Question(PROFILES))
    deque(digests([job], lambda _: None, Processes(CORES)), maxlen=0)


def _median(rounds: int, work: Callable[[], None]) -> float:
    took = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    return median(took)


# --- the table ------------------------------------------------------------------------------------


def told(records: int, figures: dict[str, Figure]) -> Table:
    """The contestants beside each other."""
    shown = Table("", title=f"{records:,} records: the last value of each key of the offsets topic")
    for column in ("s", "× DuckDB", "half (s)", "× DuckDB", "memory", "shuffled"):
        shown.add_column(column, justify="right")
    for one in ENTRANTS:
        if (figure := figures.get(one.name)) is not None:
            cells = [cell for name in ("final", "half") for cell in _cells(figure, figures, name)]
            memory, shuffled = f"{figure.memory_mb:,.0f} MB", f"{figure.shuffled:,} B"
            shown.add_row(one.what, *cells, memory, shuffled if "park" in one.what else "")
    return shown


def _cells(figure: Figure, figures: dict[str, Figure], question: str) -> tuple[str, str]:
    seconds = figure.seconds.get(question)
    if seconds is None:
        return "", ""
    return f"{seconds:.2f}", f"{seconds / figures['duckdb'].seconds[question]:.2f}×"


def goals(records: int, figures: dict[str, Figure], own: Ours) -> Iterator[str]:
    """What was to be reached, and whether it was."""
    for one in GOALS:
        if one.records == records:
            other = figures[one.other].seconds[one.question]
            ratio = figures[one.ours].seconds[one.question] / other
            what = f"{one.ours} / {one.other}, {one.question}"
            yield _judged(f"{what}: {ratio:.3f}×", f"≤ {one.times:.3f}×", good=ratio <= one.times)
    spark = figures["spark"]
    yield _judged(f"Spark shuffles {spark.shuffled} B", "0", good=not spark.shuffled)
    memory = f"Spark takes {spark.memory_mb:,.0f} MB in all"
    yield _judged(memory, f"< {MEMORY_GOAL_MB:,} MB", good=spark.memory_mb < MEMORY_GOAL_MB)
    tail = figures["derived"].seconds["final"]
    what = f"rows from a snapshot and what came on the last day: {tail:.2f} s"
    yield _judged(what, f"< {TAIL_GOAL_S} s", good=tail < TAIL_GOAL_S)
    yield f"a whole state of them, {own.read:,} rows: {own.tail:.2f} s"
    yield f"a whole state from segments alone: {own.segments:.2f} s"
    every = f"all releases after every config record: {own.digests:.1f} s"
    if records == 10 * MILLION:
        yield _judged(every, f"< {DIGESTS_GOAL_S} s", good=own.digests < DIGESTS_GOAL_S)
    else:
        yield every


def _judged(what: str, goal: str, *, good: bool) -> str:
    return f"{what}; to reach: {goal}: {'reached' if good else 'missed'}"


@contextmanager
def _somewhere(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


def _archive(folder: Path, records: int, progress: Progress) -> Cluster:
    store = open_store(str(folder))
    there = NAME in clusters(store)
    return open_cluster(store, NAME) if there else generate(folder, records, progress)


@click.command(help=__doc__)
@click.option("--records", "millions", type=int, multiple=True, default=(1, 10), show_default=True)
@click.option("--rounds", default=5, show_default=True)
@click.option("--folder", type=click.Path(path_type=Path), help="Where archives lie. [a new one]")
@click.option("--quick", is_flag=True, help="A small run that only shows that it works.")
def main(millions: tuple[int, ...], rounds: int, folder: Path | None, *, quick: bool) -> None:
    """Measure and print."""
    many = [A_DAY // 10] if quick else [one * MILLION for one in millions]
    console = Console()
    with _somewhere(folder) as place:
        for records in many:
            with Progress(console=console, transient=True) as progress:
                archive = place / f"{records}"
                cluster = _archive(archive, records, progress)
                figures = contest(archive, records, 1 if quick else rounds, progress)
                own = ours(cluster, 1 if quick else rounds)
            console.print(told(records, figures))
            for line in goals(records, figures, own):
                console.print(line)


if __name__ == "__main__":
    main()
