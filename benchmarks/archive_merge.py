"""Archives of many small looks, before and after `replay compact-archive`.

    python -m benchmarks.archive_merge [--looks 300] [--records 9000] [--folder DIR]

A cluster is captured in `--looks` looks, with `--records` records in all: a config, statuses in 4
partitions and source offsets in 5. Opening is the median of five; `replay state` and `replay verify`
are whole processes, the median of three. Page cache is warm.
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

from controlplane.core.entry import Entry, batch_of
from controlplane.core.state import Topics
from replay.archive.appender import Appender
from replay.archive.archived_cluster import open_cluster
from replay.archive.store import ArchiveStore, open_store
from replay.engine.daily_snapshots import daily

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
    """Measure an archive."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return ArchiveFigure(
        state,
        len(files),
        sum(path.stat().st_size for path in files) / 1e6,
        _median(lambda: open_cluster(open_store(str(folder)), NAME), OPENINGS),
        _median(lambda: _run("state", folder), RUNS),
        _median(lambda: _run("verify", folder), RUNS),
    )


def _run(command: str, folder: Path) -> str:
    words = [sys.executable, "-m", "replay", command, str(folder)]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def _median(action: Callable[[], object], times: int) -> float:
    return median(_seconds(action) for _ in range(times))


def _seconds(action: Callable[[], object]) -> float:
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun


def shown(title: str, figures: Sequence[ArchiveFigure]) -> Table:
    """Figures as a table."""
    table = Table(title=title)
    for head in ("", "Files", "MB", "Open, s", "`replay state`, s", "`replay verify`, s"):
        table.add_column(head)
    for figure in figures:
        seconds = (figure.open_s, figure.state_s, figure.verify_s)
        cells = (f"{figure.files:,}", f"{figure.megabytes:.1f}")
        table.add_row(figure.state, *cells, *(f"{value:.2f}" for value in seconds))
    return table


@contextmanager
def _somewhere(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        yield folder
        return
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


@click.command()
@click.option("--looks", default=300, show_default=True, help="Looks of the capture.")
@click.option("--records", default=9_000, show_default=True, help="Records in all looks together.")
@click.option("--folder", type=click.Path(path_type=Path), help="New folder of the archive.")
def main(looks: int, records: int, folder: Path | None) -> None:
    """Measure an archive before and after its merge."""
    with _somewhere(folder) as place:
        capture_looks(open_store(str(place)), NAME, looks, records)
        before = measured(place, "looks")
        answers = _run("state", place)
        seconds = _seconds(lambda: _run("compact-archive", place))
        after = measured(place, "merged")
        assert _run("state", place) == answers
        title = f"{looks:,} looks, {records:,} records; merged in {seconds:.1f} s"
        Console().print(shown(title, [before, after]))


if __name__ == "__main__":
    main()
