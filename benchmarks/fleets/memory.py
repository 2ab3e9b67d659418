"""Memory and time of folding whole fleets to Parquet, with and without Spark.

    python -m benchmarks.fleets.memory [--clusters 1 --clusters 8 --clusters 64] [--keys 200000]
    python -m benchmarks.fleets.memory --large 10000000 [--bucket-rows 2000000] [--limit-mb 3000]

Each cluster has `--keys` source partitions of 100 connectors in 25 partitions of the offsets topic,
with three records each. It has the configs and statuses of these connectors as well. The state of
every cluster is written as partitioned Parquet. Each run is a process of its own. *Driver* is the
peak of the Python process that runs the query. *Worker* is the greatest peak of a Python process of
Spark's tasks.

`--large` is one cluster, folded in buckets of keys and then by one task. Digests must be equal.
With `--limit-mb` the task may fail, because the cluster needs more memory than a worker may use.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table

import replay
from benchmarks.processes.process_memory import family, peak_mb, program
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Topics
from replay.archive.appender import Appender
from replay.archive.segments.segment_files import SCHEMA
from replay.archive.stores.store import open_store
from replay.engine.slices import LIMITS
from replay.engine.spark.location import SparkLocation
from replay.engine.spark.session import session
from replay.fleet.archive_source import ArchiveSource
from replay.fleet.cluster_summaries import FleetQuestion, joined
from replay.fleet.spark.fleet_jobs import SparkFleet
from replay.fleet.state_files import new_folder
from replay.tables.schemas import STATE_SCHEMAS

TOPICS = Topics()
CONNECTORS = 100
OFFSET_PARTITIONS = 25
RECORDS_PER_KEY = 3
START_MS = 1_767_225_600_000
CHUNK_KEYS = 50_000

DRIVER_GOAL_MB = 600
"""Greatest allowed peak of the driver's Python process, for a fleet of any size."""


class FleetFigure(NamedTuple):
    """Time and peak memory of one run, and the digests of its output."""

    seconds: float
    driver_mb: float
    worker_mb: float
    """Greatest peak of a Python worker of Spark in MB; 0 without Spark."""
    rows: int
    digests: list[str]


# --- archives -----------------------------------------------------------------------------------


def generate(folder: Path, name: str, keys: int) -> None:
    """Archive a cluster with this number of source partitions."""
    appending = Appender(open_store(str(folder)), name, TOPICS)
    for topic, partition, tables in _topics(keys):
        segment_writer = appending.segment_writer((topic, partition), 0)
        offset = 0
        for table in tables:
            segment_writer.add(_rows(table, offset))
            offset += len(table.keys)
        segment_writer.write()
        appending.take_over(segment_writer.segments)
        appending.reached(topic, partition, 0, offset)
    appending.commit()


class KeyValues(NamedTuple):
    """Keys and values of consecutive records."""

    keys: pa.Array
    values: pa.Array


def _topics(keys: int) -> Iterator[tuple[str, int, Iterator[KeyValues]]]:
    yield TOPICS.config, 0, iter([_configs()])
    yield TOPICS.status, 0, iter([_statuses()])
    for partition in range(OFFSET_PARTITIONS):
        numbers = np.arange(partition, keys, OFFSET_PARTITIONS)
        yield TOPICS.offsets, partition, _offsets(numbers)


def _configs() -> KeyValues:
    pairs: list[tuple[bytes, bytes]] = []
    for number in range(CONNECTORS):
        name = b"connector-%04d" % number
        pairs += [
            (b"connector-" + name, b'{"properties":{"name":"%s","tasks.max":"1"}}' % name),
            (b"task-%s-0" % name, b'{"properties":{"task.class":"io.example.Task"}}'),
            (b"commit-" + name, b'{"tasks":1}'),
        ]
    return _key_values(pairs)


def _statuses() -> KeyValues:
    value = b'{"state":"RUNNING","trace":null,"worker_id":"w:8083","generation":1}'
    names = [b"connector-%04d" % number for number in range(CONNECTORS)]
    return _key_values([(prefix % name, value) for name in names for prefix in _STATUS_KEYS])


_STATUS_KEYS = (b"status-connector-%s", b"status-task-%s-0")


def _key_values(pairs: list[tuple[bytes, bytes]]) -> KeyValues:
    keys, values = zip(*pairs, strict=True)
    return KeyValues(pa.array(keys, pa.binary()), pa.array(values, pa.binary()))


def _offsets(numbers: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> Iterator[KeyValues]:
    for turn in range(RECORDS_PER_KEY):
        for first in range(0, len(numbers), CHUNK_KEYS):
            chunk = numbers[first : first + CHUNK_KEYS]
            connector, table = _digits(chunk % CONNECTORS, 4), _digits(chunk, 8)
            yield KeyValues(
                _joined('["connector-', connector, '",{"table":"t', table, '"}]'),
                _joined(f'{{"file":"binlog.{turn:06}","pos":', _digits(chunk, 1), "}"),
            )


def _digits(numbers: "np.ndarray[tuple[int], np.dtype[np.int64]]", width: int) -> pa.Array:
    """Numbers as text with leading zeros."""
    return pc.utf8_lpad(pc.cast(pa.array(numbers), pa.string()), width, "0")


def _joined(*parts: "str | pa.Array") -> pa.Array:
    """Concatenate the texts of each row; the result is binary."""
    return pc.binary_join_element_wise(*parts, "").cast(pa.binary())


def _rows(pairs: KeyValues, offset: int) -> pa.Table:
    count = len(pairs.keys)
    offsets = np.arange(offset, offset + count)
    columns = [
        pa.array(offsets),
        pa.array(START_MS + offsets),
        *pairs,
        pa.nulls(count, SCHEMA.field("headers").type),
        pa.array(np.zeros(count, bool)),
    ]
    return pa.table(columns, schema=SCHEMA)


# --- runs ---------------------------------------------------------------------------------------


def measure(archive: str, engine: str, bucket_rows: int, limit_mb: int) -> FleetFigure:
    """Write the states of an archive, and measure this process and its workers.

    `limit_mb` bounds the address space of each worker; 0 is no limit.
    """
    with tempfile.TemporaryDirectory() as name:
        target = str(Path(name) / "state")
        began = time.perf_counter()
        if engine == "local":
            table = replay.open(archive).write_state(target)
            return _figure(began, table, 0)
        limits = LIMITS._replace(fold_rows=sys.maxsize)  # by one task
        if bucket_rows:
            limits = LIMITS._replace(fold_rows=0, bucket_rows=bucket_rows)
        conf = {"spark.executor.pyspark.memory": f"{limit_mb}m"} if limit_mb else {}
        with session(SparkLocation("local[2]", conf)) as spark:
            began = time.perf_counter()
            opened = replay.open(archive)
            source = ArchiveSource(archive)
            question = FleetQuestion(source, None, (Profile.of("kip"),))
            with new_folder(target, source.settings) as place:
                fleet = SparkFleet(spark, limits)
                summaries = fleet.summaries(question, opened.names, place, tuple(STATE_SCHEMAS))
                table = place.finish(joined(summaries), opened.names)
            workers = [peak_mb(pid) for pid in family(os.getpid()) if "python" in program(pid)]
            return _figure(began, table, max(workers[1:], default=0))


def _figure(began: float, table: pa.Table, worker_mb: float) -> FleetFigure:
    seconds = time.perf_counter() - began
    rows = sum(table.column("offsets").to_pylist())
    digests = table.column("digest").to_pylist()
    return FleetFigure(seconds, peak_mb(os.getpid()), worker_mb, rows, digests)


def run(archive: Path, engine: str, bucket_rows: int = 0, limit_mb: int = 0) -> FleetFigure:
    """Measure in a process of its own.

    Raises:
        subprocess.CalledProcessError: the run failed, for instance for lack of memory.
    """
    words = [str(archive), engine, str(bucket_rows), str(limit_mb)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.fleets.memory", "measure", *words],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    document: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return FleetFigure(*document)


def check_equal(figures: list[FleetFigure]) -> None:
    """Compare digests.

    Raises:
        click.ClickException: they differ.
    """
    if any(figure.digests != figures[0].digests for figure in figures):
        raise click.ClickException("digests differ")


def figures_table(title: str, rows: Sequence[tuple[str, FleetFigure | None]]) -> Table:
    """Table with one row per run; a failed run has no figure."""
    table = Table("", title=title)
    for column in ("rows of offsets", "s", "driver", "worker"):
        table.add_column(column, justify="right")
    for name, figure in rows:
        if figure is None:
            table.add_row(name, "fails", "", "", "")
            continue
        memory = f"{figure.driver_mb:,.0f} MB", f"{figure.worker_mb:,.0f} MB"
        table.add_row(name, f"{figure.rows:,}", f"{figure.seconds:.1f}", *memory)
    return table


def fleets(folder: Path, clusters: tuple[int, ...], keys: int) -> list[tuple[str, FleetFigure]]:
    """Measure fleets of several sizes, by both engines."""
    rows = []
    for count in clusters:
        archive = folder / f"{count}-{keys}"
        for number in range(count):
            generate(archive, f"cluster-{number:03}", keys)
        figures = {engine: run(archive, engine) for engine in ("spark", "local")}
        check_equal(list(figures.values()))
        rows += [(f"{count} clusters, {engine}", figure) for engine, figure in figures.items()]
    return rows


def large(
    folder: Path, keys: int, bucket_rows: int, limit_mb: int = 0
) -> list[tuple[str, FleetFigure | None]]:
    """Measure one cluster, folded by one task and in buckets; None: a run failed."""
    archive = folder / f"large-{keys}"
    generate(archive, "large", keys)
    divided = run(archive, "spark", bucket_rows, limit_mb)
    try:
        undivided = run(archive, "spark", limit_mb=limit_mb)
    except subprocess.CalledProcessError:
        undivided = None
    check_equal([figure for figure in (undivided, divided) if figure is not None])
    return [("one task", undivided), (f"buckets of {bucket_rows:,} rows", divided)]


@click.command(help=__doc__)
@click.option("--clusters", type=int, multiple=True, default=(1, 8, 64), show_default=True)
@click.option("--keys", default=200_000, show_default=True, help="Source partitions per cluster.")
@click.option("--large", "large_keys", type=int, help="Measure one cluster with this many keys.")
@click.option("--bucket-rows", default=LIMITS.bucket_rows, show_default=True)
@click.option("--limit-mb", default=0, help="Address space of a worker, for --large. [no limit]")
def main(
    clusters: tuple[int, ...], keys: int, large_keys: int | None, bucket_rows: int, limit_mb: int
) -> None:
    """Measure fleets of several sizes or one large cluster, and print the table."""
    console = Console()
    with tempfile.TemporaryDirectory() as name:
        if large_keys is not None:
            large_rows = large(Path(name), large_keys, bucket_rows, limit_mb)
            console.print(figures_table(f"one cluster of {large_keys:,} keys", large_rows))
            return
        rows = fleets(Path(name), clusters, keys)
        console.print(figures_table(f"clusters of {keys:,} keys, all tables to Parquet", rows))
        most = max(figure.driver_mb for name, figure in rows if "spark" in name)
        reached = "reached" if most <= DRIVER_GOAL_MB else "missed"
        console.print(f"driver: at most {most:,.0f} MB; goal: {DRIVER_GOAL_MB} MB: {reached}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        print(json.dumps(measure(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))))
    else:
        main()
