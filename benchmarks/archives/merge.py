"""Archives of many small looks, before and after `replay compact-archive`.

    python -m benchmarks.archives.merge [--looks 300] [--records 9000] [--folder DIR]
    python -m benchmarks.archives.merge --clusters 1000 --looks 3 --records 300 [--latency-ms 30]

A cluster is captured in `--looks` looks; a *look* is one capture of all partitions. The cluster has
`--records` records: configs in one partition, statuses in 4 and source offsets in 5. Opening is the
median of five; `replay state` and `replay verify` are whole processes, the median of three. Page
cache is warm.

With `--clusters`, the folder has a fleet: this number of such clusters. `replay state --explain`
plans which rows to read for the states of the whole fleet. The states are those at the end, and at
a record in the middle. The same plans are also made through a store that answers each request after
`--latency-ms`, like an object store.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import click
from rich.console import Console
from rich.table import Table

from benchmarks.archives.distant_store import DistantSource
from controlplane.core.entry import Entry, batch_of
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Topics
from replay.archive import layout
from replay.archive.appender import Appender
from replay.archive.archived_cluster import open_cluster
from replay.archive.stores.store import ArchiveStore, open_store
from replay.engine.snapshots.daily_snapshots import daily
from replay.fleet.archive_source import ArchiveSource
from replay.fleet.cluster_plans import planned_each
from replay.fleet.cluster_summaries import FleetQuestion

NAME = "small"
TOPICS = Topics()
PARTITIONS = [
    (TOPICS.config, 0),
    *((TOPICS.status, partition) for partition in range(4)),
    *((TOPICS.offsets, partition) for partition in range(5)),
]
CONNECTORS = 100
START_MS = 1_767_225_600_000
LOOK_MS = 60_000
OPENINGS, RUNS = 5, 3


class ArchiveFigure(NamedTuple):
    """Size of an archive, and times on it."""

    state: str
    files: int
    megabytes: float
    open_s: float
    state_s: float
    verify_s: float


def capture_looks(store: ArchiveStore, name: str, looks: int, records: int) -> None:
    """Append a growing cluster look by look."""
    each = max(1, records // looks // len(PARTITIONS))
    for look in range(looks):
        appender = Appender(store, name, TOPICS)
        for topic, partition in PARTITIONS:
            start = look * each
            entries = [
                _record(topic, partition, offset, START_MS + look * LOOK_MS + offset - start)
                for offset in range(start, start + each)
            ]
            appender.add(batch_of(entries))
            appender.reached(topic, partition, start, start + each)
        appender.commit(daily)


def _record(topic: str, partition: int, offset: int, time_ms: int) -> Entry:
    connector = (offset * 7 + partition) % CONNECTORS
    key = {
        TOPICS.config: f"connector-c{connector}",
        TOPICS.status: f"status-connector-c{connector}",
        TOPICS.offsets: f'["c{connector}",{{"table":"t{offset % 10}"}}]',
    }[topic]
    value = {
        TOPICS.config: f'{{"properties":{{"connector.class":"io.example.Jdbc","v":"{offset}"}}}}',
        TOPICS.status: '{"state":"RUNNING","trace":null,"worker_id":"w:8083","generation":1}',
        TOPICS.offsets: f'{{"file":"bin.1","pos":{offset}}}',
    }[topic]
    return Entry(topic, partition, offset, time_ms, key.encode(), value.encode())


def measured(folder: Path, state: str) -> ArchiveFigure:
    """Measure files, bytes and times of the archive in a folder; `state` names it in the table."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return ArchiveFigure(
        state,
        len(files),
        sum(path.stat().st_size for path in files) / 1e6,
        _median(lambda: open_cluster(open_store(str(folder)), NAME), OPENINGS),
        _median(lambda: _run("state", folder), RUNS),
        _median(lambda: _run("verify", folder), RUNS),
    )


def _run(command: str, folder: Path, *options: str) -> str:
    words = [sys.executable, "-m", "replay", command, str(folder), *options]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def _median(action: Callable[[], object], times: int) -> float:
    return median(_seconds(action) for _ in range(times))


def _seconds(action: Callable[[], object]) -> float:
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun


def planned(source: ArchiveSource, moment: str | None = None) -> int:
    """Plan the states of all clusters at a moment, as `replay state` does."""
    question = FleetQuestion(source, moment, (Profile.of("kip"),))
    names = layout.clusters(source.store)
    return sum(1 for _ in planned_each(question.query, names, [moment]))


def _plan_fleet(folder: Path, clusters: int, middle: str, latency_s: float) -> Iterator[str]:
    """Measure the planning of a fleet at its end and in the middle, before and after its merge."""
    distant = DistantSource(str(folder), latency_s=latency_s)
    for state in ("looks", "merged"):
        if state == "merged":
            seconds = _seconds(lambda: _run("compact-archive", folder))
            yield f"{clusters:,} clusters are merged in {seconds:.1f} s"
        for moment in (None, middle):
            yield from _plan_at(folder, moment, distant, f"{state}, {clusters:,} clusters")


def _plan_at(folder: Path, moment: str | None, distant: ArchiveSource, fleet: str) -> Iterator[str]:
    """Measure the planning at a moment: in the folder, and in a distant store."""
    place = f"{fleet}, {moment or 'end'}"
    as_of = [] if moment is None else ["--as-of", moment]
    seconds = _seconds(lambda: _run("state", folder, "--explain", *as_of))
    yield f"{place}: `replay state --explain`: {seconds:.1f} s"
    seconds = _seconds(lambda: planned(distant, moment))
    yield f"{place}: planned in a distant store: {seconds:.1f} s"


def figures_table(title: str, figures: Sequence[ArchiveFigure]) -> Table:
    """Table with one row per archive."""
    table = Table(title=title)
    for head in ("", "Files", "MB", "Open, s", "`replay state`, s", "`replay verify`, s"):
        table.add_column(head)
    for figure in figures:
        seconds = (figure.open_s, figure.state_s, figure.verify_s)
        cells = (f"{figure.files:,}", f"{figure.megabytes:.1f}")
        table.add_row(figure.state, *cells, *(f"{value:.2f}" for value in seconds))
    return table


@contextmanager
def _archive_folder(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        yield folder
        return
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


@click.command()
@click.option("--looks", default=300, show_default=True, help="Looks of the capture.")
@click.option("--records", default=9_000, show_default=True, help="Records in all looks together.")
@click.option(
    "--clusters",
    default=1,
    show_default=True,
    help="Number of clusters. For 2 or more, only their planning and merging are timed.",
)
@click.option("--latency-ms", default=30, show_default=True, help="Time of a request.")
@click.option("--folder", type=click.Path(path_type=Path), help="New folder of the archive.")
def main(looks: int, records: int, clusters: int, latency_ms: int, folder: Path | None) -> None:
    """Measure an archive before and after its merge."""
    with _archive_folder(folder) as place:
        if clusters > 1:
            for number in range(clusters):
                capture_looks(open_store(str(place)), f"c{number:04}", looks, records)
            middle = f"config@{records // len(PARTITIONS) // 2}"
            for line in _plan_fleet(place, clusters, middle, latency_ms / 1_000):
                print(line, flush=True)
            return
        capture_looks(open_store(str(place)), NAME, looks, records)
        before = measured(place, "looks")
        answers = _run("state", place)
        seconds = _seconds(lambda: _run("compact-archive", place))
        after = measured(place, "merged")
        assert _run("state", place) == answers
        title = f"{looks:,} looks, {records:,} records; merged in {seconds:.1f} s"
        Console().print(figures_table(title, [before, after]))


if __name__ == "__main__":
    main()
