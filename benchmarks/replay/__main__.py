"""Speed of queries on archives: this engine with and without Spark, compared with other tools.

    python -m benchmarks.replay [--records 1 --records 10 --records 30] [--rounds 5] [--folder DIR]
    python -m benchmarks.replay --records 100 --rounds 3 --folder DIR
    python -m benchmarks.replay --quick [--only NAME ...]

`--records` counts millions. Archives are generated from a seed (`inputs/large_cluster.py`) and
reused where the folder has them. Each contestant is a process of its own
(`archive_engines.py`) and is warmed up: its first answers do not count. Contestants take
turns; the median counts. Slow contestants take part in three rounds, up to 30 million records.
For each query, the digests of all contestants must be equal. Memory is the peak of a contestant
with its JVM and its workers.
"""

import json
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import click
from click.testing import CliRunner
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks.inputs.large_cluster import NAME, RECORDS_PER_DAY, generate
from benchmarks.processes.contestant_process import ContestantProcess
from benchmarks.replay.archive_engines import CORES, PROFILE
from controlplane.core.releases.profiles import PROFILES
from replay.archive.archived_cluster import ArchivedCluster, open_cluster
from replay.archive.layout import clusters
from replay.archive.stores.store import open_store
from replay.cli.main import main as replay_command
from replay.engine.executors import ProcessExecutor
from replay.engine.local_engine import LocalEngine, LocalOptions
from replay.timeline.passes import digests
from replay.timeline.work_shares import TimelineJob, TimelineQuery

MILLION = 1_000_000


class EngineEntry(NamedTuple):
    """Program that takes part, with its limits."""

    name: str
    """Name of the contestant in `benchmarks.replay.archive_engines`."""
    what: str
    slow: bool = False
    """Far slower than the others: measured less often, and with one query only."""
    reads_only: bool = False
    """True if the contestant only reads the rows, and prints no digest."""

    def takes_part(self, records: int) -> bool:
        """True if it can finish with that many records."""
        return not self.slow or records <= SLOW_MOST

    def questions(self, *, counts: bool) -> Sequence[str]:
        """Queries of a counted round, or of the warm-up."""
        return ("final",) if self.reads_only or (self.slow and counts) else ("final", "half")


SLOW_MOST = 30 * MILLION
SLOW_ROUNDS = 3

ENTRANTS = (
    EngineEntry("spark", "ours, Spark"),
    EngineEntry("local", "ours, local"),
    EngineEntry("derived", "ours, local, derived"),
    EngineEntry("duckdb", "DuckDB"),
    EngineEntry("polars", "Polars"),
    EngineEntry("scan", "pyarrow: reads five columns, no more", reads_only=True),
    EngineEntry("python", "plain Python fold", slow=True),
    EngineEntry("max_by", "Spark `max_by`", slow=True),
)


class SpeedGoal(NamedTuple):
    """Greatest allowed ratio to another contestant's time."""

    ours: str
    other: str
    times: Mapping[int, float]
    """Greatest allowed ratio, by the number of records."""
    question: str = "final"


def _at_both_sizes(times: float) -> Mapping[int, float]:
    return {10 * MILLION: times, 30 * MILLION: times}


GOALS = (
    SpeedGoal("spark", "duckdb", {10 * MILLION: 1.3, 30 * MILLION: 1.1}),
    SpeedGoal("spark", "scan", {30 * MILLION: 1.0}),
    SpeedGoal("spark", "python", _at_both_sizes(1 / 24)),
    SpeedGoal("spark", "max_by", _at_both_sizes(1 / 15)),
    SpeedGoal("spark", "duckdb", _at_both_sizes(1.0), "half"),
    SpeedGoal("local", "duckdb", _at_both_sizes(1.0), "half"),
    SpeedGoal("derived", "duckdb", _at_both_sizes(1.0), "half"),
)

TAIL_GOAL_S = 0.5
DIGESTS_GOAL_S = 10
TABLES_GOAL = 4
"""Greatest allowed ratio of the time to write the state's tables to the time of the scan."""
MEMORY_GOAL_MB = 2_000


class QueryFigure(NamedTuple):
    """Median times, digests and memory of one contestant on one archive."""

    seconds: dict[str, float]
    """Median seconds by query."""
    rounds: int
    digests: dict[str, set[str]]
    """Digests of all answers, by query."""
    memory_mb: float
    shuffled: int


class EngineProcess:
    """Process that runs one contestant; it takes queries on standard input."""

    def __init__(self, entrant: EngineEntry, archive: Path) -> None:
        self._process = ContestantProcess(
            entrant.what, "benchmarks.replay.archive_engines", entrant.name, str(archive)
        )
        self.entrant = entrant
        self.took: dict[str, list[float]] = {}
        self.shuffled = 0
        self.digests: dict[str, set[str]] = {}

    def answer_queries(self, *, counts: bool) -> None:
        """Send the queries and record the answers."""
        for question in self.entrant.questions(counts=counts):
            self._ask(question, counts=counts)

    def _ask(self, question: str, *, counts: bool) -> None:
        figure: dict[str, Any] = json.loads(self._process.ask(question))
        if counts:
            self.took.setdefault(question, []).append(figure["seconds"])
            self.shuffled = max(self.shuffled, figure["shuffled"])
        if "digest" in figure:
            self.digests.setdefault(question, set()).add(figure["digest"])

    def ended(self) -> QueryFigure:
        """End the process; return the result of the contestant."""
        memory_mb = sum(self._process.end())
        seconds = {question: median(took) for question, took in self.took.items()}
        rounds = len(self.took["final"])
        return QueryFigure(seconds, rounds, self.digests, memory_mb, self.shuffled)


# --- rounds ---------------------------------------------------------------------------------------


def contest(
    entrants: Sequence[EngineEntry], archive: Path, rounds: int, progress: Progress
) -> dict[str, QueryFigure]:
    """Result of each contestant on one archive."""
    bar = progress.add_task("rounds", total=len(entrants) + rounds)
    contestants = []
    for entrant in entrants:
        contestants.append(EngineProcess(entrant, archive))
        contestants[-1].answer_queries(counts=False)
        progress.advance(bar)
    for number in range(rounds):
        for contestant in contestants:
            if number < SLOW_ROUNDS or not contestant.entrant.slow:
                contestant.answer_queries(counts=True)
        progress.advance(bar)
    figures = {contestant.entrant.name: contestant.ended() for contestant in contestants}
    check_equal({name: figure.digests for name, figure in figures.items()})
    return figures


def check_equal(digests: Mapping[str, Mapping[str, set[str]]]) -> None:
    """Compare the digests of all contestants.

    Raises:
        click.ClickException: the digests differ; it names the contestants.
    """
    for question in ("final", "half"):
        names_of: dict[str, list[str]] = {}
        for name, of_contestant in digests.items():
            for digest in of_contestant.get(question, ()):
                names_of.setdefault(digest, []).append(name)
        if len(names_of) > 1:
            sides = "; ".join(
                f"{', '.join(names)}: {answer[:8]}…" for answer, names in names_of.items()
            )
            raise click.ClickException(f"{question}: answers differ: {sides}")


# --- queries of this engine alone -----------------------------------------------------------------


class InProcessTimes(NamedTuple):
    """Seconds of further queries, started by this process."""

    segments: float
    """A whole state (configs, statuses, offsets) from segments alone."""
    tail: float
    """A whole state from the last snapshot and later records, in seconds."""
    read: int
    """Number of rows that `tail` reads."""
    digests: float
    """Digests of every release after every config record."""
    tables: float
    """All tables of the state, written to Parquet by `replay state`, in this process."""


def ours(archive: Path, cluster: ArchivedCluster, rounds: int) -> InProcessTimes:
    """Measure queries that other contestants cannot answer."""
    plan = LocalEngine(cluster).plan(None, [PROFILE])
    return InProcessTimes(
        _median(rounds, lambda: _state(cluster, derived=False)),
        _median(rounds, lambda: _state(cluster, derived=True)),
        sum(part.rows for part in plan.parts),
        _median(1, lambda: _digests(cluster)),
        _median(rounds, lambda: _write_tables(archive)),
    )


def _state(cluster: ArchivedCluster, *, derived: bool) -> None:
    local = LocalEngine(cluster, LocalOptions(derived=derived))
    local.states(local.plan(None, [PROFILE]), [PROFILE])


def _digests(cluster: ArchivedCluster) -> None:
    plan = LocalEngine(cluster, LocalOptions(derived=False)).plan(None, PROFILES)
    job = TimelineJob(cluster, plan, TimelineQuery(PROFILES))
    deque(digests([job], lambda _: None, ProcessExecutor(CORES)), maxlen=0)


def _write_tables(archive: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = ["state", str(archive), "--release", PROFILE.release, "-o", "parquet"]
        result = CliRunner().invoke(replay_command, [*command, "--folder", f"{folder}/tables"])
        if result.exit_code:
            raise click.ClickException(result.output)


def _median(rounds: int, work: Callable[[], None]) -> float:
    took = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    return median(took)


# --- the table ------------------------------------------------------------------------------------


def figures_table(records: int, figures: Mapping[str, QueryFigure]) -> Table:
    """Table of seconds, memory and shuffled bytes, one contestant per row."""
    shown = Table("", title=f"{records:,} records: the last value of each key of the offsets topic")
    for column in ("s", "× DuckDB", "half (s)", "× DuckDB", "rounds", "memory", "shuffled"):
        shown.add_column(column, justify="right")
    for entrant in ENTRANTS:
        if (figure := figures.get(entrant.name)) is not None:
            cells = [cell for name in ("final", "half") for cell in _cells(figure, figures, name)]
            memory, shuffled = f"{figure.memory_mb:,.0f} MB", f"{figure.shuffled:,} B"
            measures = str(figure.rounds), memory, shuffled if "Spark" in entrant.what else ""
            shown.add_row(entrant.what, *cells, *measures)
    return shown


def _cells(
    figure: QueryFigure, figures: Mapping[str, QueryFigure], question: str
) -> tuple[str, str]:
    seconds = figure.seconds.get(question)
    if seconds is None:
        return "", ""
    peer = figures.get("duckdb")
    return f"{seconds:.2f}", f"{seconds / peer.seconds[question]:.2f}×" if peer else ""


def goals(records: int, figures: Mapping[str, QueryFigure], own: InProcessTimes) -> Iterator[str]:
    """Goals and whether they were reached, for the present contestants."""
    for goal in GOALS:
        if records in goal.times and {goal.ours, goal.other} <= figures.keys():
            ratio = _ratio(goal, figures)
            most = goal.times[records]
            sentence = f"{goal.ours} / {goal.other}, {goal.question}"
            yield _judged(f"{sentence}: {ratio:.3f}×", f"≤ {most:.3f}×", good=ratio <= most)
    if "spark" in figures:
        yield from _goals_of_spark(figures["spark"])
    if "derived" in figures:
        tail = figures["derived"].seconds["final"]
        sentence = f"rows from the last snapshot and later records: {tail:.2f} s"
        yield _judged(sentence, f"< {TAIL_GOAL_S} s", good=tail < TAIL_GOAL_S)
    yield f"a whole state from snapshot and later records, {own.read:,} rows: {own.tail:.2f} s"
    yield f"a whole state from segments alone: {own.segments:.2f} s"
    if "scan" in figures:
        ratio = own.tables / figures["scan"].seconds["final"]
        sentence = f"state to Parquet: {own.tables:.2f} s, {ratio:.1f}× the scan"
        yield _judged(sentence, f"≤ {TABLES_GOAL}×", good=ratio <= TABLES_GOAL)
    every = f"all releases after every config record: {own.digests:.1f} s"
    if records == 10 * MILLION:
        yield _judged(every, f"< {DIGESTS_GOAL_S} s", good=own.digests < DIGESTS_GOAL_S)
    else:
        yield every


def _ratio(goal: SpeedGoal, figures: Mapping[str, QueryFigure]) -> float:
    ours, other = (figures[name].seconds[goal.question] for name in (goal.ours, goal.other))
    return ours / other


def _goals_of_spark(spark: QueryFigure) -> Iterator[str]:
    yield _judged(f"Spark shuffles {spark.shuffled} B", "0", good=not spark.shuffled)
    memory = f"Spark takes {spark.memory_mb:,.0f} MB in all"
    yield _judged(memory, f"< {MEMORY_GOAL_MB:,} MB", good=spark.memory_mb < MEMORY_GOAL_MB)


def _judged(sentence: str, goal: str, *, good: bool) -> str:
    return f"{sentence}; to reach: {goal}: {'reached' if good else 'missed'}"


@contextmanager
def _archive_folder(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


def _archive(folder: Path, records: int, progress: Progress) -> ArchivedCluster:
    store = open_store(str(folder))
    exists = NAME in clusters(store)
    return open_cluster(store, NAME) if exists else generate(folder, records, progress)


@click.command(help=__doc__)
@click.option(
    "--records", "millions", type=int, multiple=True, default=(1, 10, 30), show_default=True
)
@click.option("--rounds", default=5, show_default=True)
@click.option(
    "--folder", type=click.Path(path_type=Path), help="Folder of the archives. [a new one]"
)
@click.option(
    "--only",
    type=click.Choice([entrant.name for entrant in ENTRANTS]),
    multiple=True,
    help="Contestant to measure. May be repeated. [all]",
)
@click.option("--quick", is_flag=True, help="A small run that only shows that it works.")
def main(
    millions: tuple[int, ...],
    rounds: int,
    folder: Path | None,
    only: tuple[str, ...],
    *,
    quick: bool,
) -> None:
    """Measure the contestants on every archive, and print tables and goals."""
    many = [RECORDS_PER_DAY // 50] if quick else [million * MILLION for million in millions]
    console = Console()
    with _archive_folder(folder) as place:
        for records in many:
            with Progress(console=console, transient=True) as progress:
                archive = place / f"{records}"
                cluster = _archive(archive, records, progress)
                able = [entrant for entrant in ENTRANTS if entrant.takes_part(records)]
                entrants = [entrant for entrant in able if not only or entrant.name in only]
                figures = contest(entrants, archive, 1 if quick else rounds, progress)
                own = ours(archive, cluster, 1 if quick else rounds)
            console.print(figures_table(records, figures))
            for line in goals(records, figures, own):
                console.print(line)


if __name__ == "__main__":
    main()
