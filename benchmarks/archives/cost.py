"""Size of the archive of one cluster: bytes per record and files per day, before and after a merge.

    python -m benchmarks.archives.cost [--tasks 400] [--every 60] [--hours 24]

A cluster runs `--tasks` source tasks, four per connector. Each commits one source offset a minute,
Connect's default (`offset.flush.interval.ms`). Keys and values resemble those of the JDBC source.
The offsets topic has 25 partitions, as by default. Configs and statuses are written once, at the
start. The log is captured every `--every` seconds; the default is that of `replay capture`. One
capture is a *look*. At the end the archive is merged. Sizes do not depend on the machine.
"""

import random
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import click
from rich.console import Console
from rich.table import Table

from controlplane.core.entry import Entry, batch_of
from controlplane.core.state import Topics
from replay.archive.appender import Appender
from replay.archive.stores.store import ArchiveStore, open_store
from replay.engine.snapshots.daily_snapshots import daily

NAME = "cost"
TOPICS = Topics()
OFFSET_PARTITIONS, STATUS_PARTITIONS = 25, 5
TASKS_PER_CONNECTOR = 4
"""Number of source tasks of each connector."""
START_MS = 1_767_225_600_000
"""Start of the log in ms since 1970: 2026-01-01T00:00:00Z."""
MINUTE_MS = 60_000


class ArchiveSize(NamedTuple):
    """Files and bytes of an archive."""

    records: int
    files: int
    bytes: int
    bytes_by_kind: Counter[str]
    """Bytes of each kind of file: segments, winners, snapshots, and the folder of manifests.

    Winners are copies of the rows of a segment that may still affect a state.
    """

    @property
    def per_record(self) -> float:
        """Bytes of the archive per record of the log."""
        return self.bytes / self.records


class SourceLog:
    """Log of a cluster whose source tasks commit an offset every minute."""

    def __init__(self, tasks: int, seed: int = 0) -> None:
        self._tasks = range(tasks)
        self._random = random.Random(seed)
        self._rows = [self._random.randrange(10**6) for _ in self._tasks]
        self._ends: Counter[tuple[str, int]] = Counter()

    def start(self) -> list[Entry]:
        """Configs and statuses of all connectors and tasks."""
        connectors = sorted({task // TASKS_PER_CONNECTOR for task in self._tasks})
        texts = [(f"connector-orders-{name}", _config(name)) for name in connectors]
        texts += [
            (_of_task("task", task), _config(task // TASKS_PER_CONNECTOR)) for task in self._tasks
        ]
        texts += [
            (f"commit-orders-{name}", f'{{"tasks":{TASKS_PER_CONNECTOR}}}') for name in connectors
        ]
        entries = [self._entry(TOPICS.config, 0, key, value, START_MS) for key, value in texts]
        statuses = [f"status-connector-orders-{name}" for name in connectors]
        statuses += [_of_task("status-task", task) for task in self._tasks]
        return entries + [
            self._entry(
                TOPICS.status, crc32(key.encode()) % STATUS_PARTITIONS, key, RUNNING, START_MS
            )
            for key in statuses
        ]

    def minute(self, number: int) -> Iterator[Entry]:
        """Offsets that the tasks commit in one minute."""
        begin_ms = START_MS + number * MINUTE_MS
        for task in self._tasks:
            self._rows[task] += self._random.randrange(1, 500)
            time_ms = begin_ms + task * MINUTE_MS // len(self._tasks)
            table = f"db.sales.orders_{task:05}"
            name = f"orders-{task // TASKS_PER_CONNECTOR}"
            key = f'["{name}",{{"protocol":"1","table":"{table}"}}]'
            value = (
                f'{{"timestamp_nanos":{self._random.randrange(10**9)},'
                f'"incrementing":{self._rows[task]},"timestamp":{time_ms - 1_500}}}'
            )
            partition = crc32(key.encode()) % OFFSET_PARTITIONS
            yield self._entry(TOPICS.offsets, partition, key, value, time_ms)

    def _entry(self, topic: str, partition: int, key: str, value: str, time_ms: int) -> Entry:
        offset = self._ends[topic, partition]
        self._ends[topic, partition] += 1
        return Entry(topic, partition, offset, time_ms, key.encode(), value.encode())


RUNNING = '{"state":"RUNNING","trace":null,"worker_id":"10.0.0.1:8083","generation":7}'


def _of_task(kind: str, task: int) -> str:
    return f"{kind}-orders-{task // TASKS_PER_CONNECTOR}-{task % TASKS_PER_CONNECTOR}"


def _config(connector: int) -> str:
    properties = (
        f'"name":"orders-{connector}","connector.class":"io.example.JdbcSourceConnector",'
        f'"connection.url":"jdbc:postgresql://db-{connector}.example/sales","mode":"incrementing",'
        f'"incrementing.column.name":"id","topic.prefix":"sales.","tasks.max":"{TASKS_PER_CONNECTOR}"'
    )
    return f'{{"properties":{{{properties}}}}}'


def capture_minutes(store: ArchiveStore, tasks: int, minutes: int, minutes_per_look: int) -> int:
    """Archive the log look by look; return the number of records."""
    log = SourceLog(tasks)
    pending, records = log.start(), 0
    for minute in range(minutes):
        pending += log.minute(minute)
        if (minute + 1) % minutes_per_look == 0:
            _look(store, pending)
            records += len(pending)
            pending = []
    return records


def _look(store: ArchiveStore, entries: list[Entry]) -> None:
    appender = Appender(store, NAME, TOPICS)
    by_partition: dict[tuple[str, int], list[Entry]] = defaultdict(list)
    for entry in entries:
        by_partition[entry.topic, entry.partition].append(entry)
    for topic, partitions in (
        (TOPICS.offsets, OFFSET_PARTITIONS),
        (TOPICS.status, STATUS_PARTITIONS),
    ):
        for partition in range(partitions):
            by_partition.setdefault((topic, partition), [])
    for (topic, partition), read in sorted(by_partition.items()):
        start = appender.end_of(topic, partition) or 0
        if read:
            appender.add(batch_of(read))
        appender.reached(topic, partition, start, start + len(read))
    appender.commit(daily)


def size_of(folder: Path, records: int) -> ArchiveSize:
    """Measure an archive in a folder."""
    kinds: Counter[str] = Counter()
    paths = [path for path in folder.rglob("*") if path.is_file()]
    for path in paths:
        kinds[_kind(path)] += path.stat().st_size
    return ArchiveSize(records, len(paths), sum(kinds.values()), kinds)


def _kind(path: Path) -> str:
    if path.parent.name == "_manifest":
        return "manifests"
    if path.name.startswith("segment-"):
        return "segments"
    return "winners" if path.name.startswith("_winners-") else "snapshots"


def merge(folder: Path) -> None:
    """Merge the archive in place, with `replay compact-archive` in a process of its own."""
    words = [sys.executable, "-m", "replay", "compact-archive", str(folder)]
    subprocess.run(words, check=True, capture_output=True)


def sizes_table(title: str, sizes: dict[str, ArchiveSize]) -> Table:
    """Table with one row per archive; the keys of `sizes` are the titles of the rows."""
    table = Table(title=title)
    kinds = ("segments", "winners", "snapshots", "manifests")
    for head in (
        "",
        "Records",
        "Files",
        "MB",
        "Bytes per record",
        *(f"{kind}, MB" for kind in kinds),
    ):
        table.add_column(head)
    for state, size in sizes.items():
        megabytes = (f"{size.bytes_by_kind[kind] / 1e6:.2f}" for kind in kinds)
        numbers = (f"{size.records:,}", f"{size.files:,}", f"{size.bytes / 1e6:.1f}")
        table.add_row(state, *numbers, f"{size.per_record:.1f}", *megabytes)
    return table


@click.command()
@click.option(
    "--tasks",
    type=click.IntRange(1),
    default=400,
    show_default=True,
    help="Source tasks; one offset a minute.",
)
@click.option(
    "--every",
    type=click.IntRange(60),
    default=60,
    show_default=True,
    help="Seconds between looks; full minutes.",
)
@click.option(
    "--hours", type=click.IntRange(1), default=24, show_default=True, help="Captured time."
)
def main(tasks: int, every: int, hours: int) -> None:
    """Measure the archive of a cluster before and after its merge."""
    if every % 60 or every > hours * 3_600:
        raise click.UsageError("--every must be full minutes (60, 120, …), at most --hours")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        records = capture_minutes(open_store(name), tasks, hours * 60, every // 60)
        sizes = {"looks": size_of(folder, records)}
        merge(folder)
        sizes["merged"] = size_of(folder, records)
        title = f"{tasks:,} tasks, {hours} hours, a look every {every} s"
        Console(width=120).print(sizes_table(title, sizes))


if __name__ == "__main__":
    main()
