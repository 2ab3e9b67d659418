"""Contestants of the benchmark of fleets: this engine and other tools.

The output is Parquet by cluster. It has the last record of every key of the offsets topic, with its
partition and offset. Keys whose last record is a tombstone are left out.
"""

import os
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.replay.archive_engines import CORES, PROFILE, with_partitions
from controlplane.core.state import Topics
from controlplane.logs.end_vectors import FittedEnds
from replay.archive.archived_cluster import ArchivedCluster, open_cluster
from replay.archive.layout import clusters
from replay.archive.stores.concurrent_requests import concurrently
from replay.archive.stores.store import open_store
from replay.engine.local_engine import LocalEngine, LocalOptions

TOPIC = Topics().offsets


class LastRecordsJob(NamedTuple):
    """A cluster of an archive, and the folder of the output."""

    archive: str
    cluster: str
    output: str


FleetEngine = Callable[[str, str], None]
"""Writes the last records of the archive in one folder to another."""


# --- ours ---------------------------------------------------------------------------------------


def write_last_records(job: LastRecordsJob) -> Iterator[int]:
    """Write the last records of one cluster, here or in a task; yield their number."""
    cluster = open_cluster(open_store(job.archive), job.cluster)
    folder = Path(job.output) / f"cluster={job.cluster}"
    folder.mkdir(parents=True)
    table = _last_records(cluster)
    pq.write_table(
        table,
        folder / "0.parquet",
        compression="zstd",
        use_dictionary=["partition"],  # each key occurs once
        column_encoding={"offset": "DELTA_BINARY_PACKED"},
    )
    yield table.num_rows


def _last_records(cluster: ArchivedCluster) -> pa.Table:
    local = LocalEngine(cluster, LocalOptions(derived=False))
    plan = local.plan_at(FittedEnds({TOPIC: cluster.ends[TOPIC]}), [PROFILE])
    rows = with_partitions(plan, local.reduced(plan, [PROFILE]))
    values = rows.column("value")
    return rows.filter(pc.is_valid(values)) if values.null_count else rows


def _written_rows(job: LastRecordsJob) -> int:
    return sum(write_last_records(job))


def _jobs(archive: str, output: str) -> Sequence[LastRecordsJob]:
    return [LastRecordsJob(archive, name, output) for name in clusters(open_store(archive))]


def _local(_: ExitStack) -> FleetEngine:
    def write(archive: str, output: str) -> None:
        jobs = _jobs(archive, output)
        deque(concurrently(_written_rows, jobs, min(len(jobs), CORES)), maxlen=0)

    return write


def _spark(stack: ExitStack) -> FleetEngine:
    from replay.engine.spark.executor import SparkExecutor  # noqa: PLC0415 - memory is measured
    from replay.engine.spark.location import SparkLocation  # noqa: PLC0415
    from replay.engine.spark.session import session  # noqa: PLC0415

    spark = stack.enter_context(session(SparkLocation(f"local[{CORES}]", {})))

    def write(archive: str, output: str) -> None:
        for rows in SparkExecutor(spark).run(write_last_records, _jobs(archive, output)):
            list(rows)

    return write


# --- others -------------------------------------------------------------------------------------


def _files(archive: str) -> str:
    return f"{archive}/cluster=*/topic={TOPIC}/partition=*/segment-*.parquet"


def _duckdb(stack: ExitStack) -> FleetEngine:
    import duckdb  # noqa: PLC0415

    connection = stack.enter_context(duckdb.connect())
    connection.execute(f"SET threads = {CORES}")

    def write(archive: str, output: str) -> None:
        connection.execute(
            'COPY (SELECT cluster, partition::INT AS partition, max("offset") AS "offset", key, '
            'arg_max_null(value, "offset") AS value '
            f"FROM read_parquet('{_files(archive)}', hive_partitioning = true) "
            "GROUP BY cluster, partition, key HAVING value IS NOT NULL) "
            f"TO '{output}' (FORMAT parquet, COMPRESSION zstd, PARTITION_BY (cluster))"
        )

    return write


def _polars(_: ExitStack) -> FleetEngine:
    os.environ["POLARS_MAX_THREADS"] = str(CORES)  # polars reads it once, at its import
    import polars as pl  # noqa: PLC0415

    kinds = {"cluster": pl.String, "topic": pl.String, "partition": pl.Int32}

    def write(archive: str, output: str) -> None:
        records = pl.scan_parquet(_files(archive), hive_partitioning=True, hive_schema=kinds)
        last = records.group_by("cluster", "partition", "key").agg(pl.col("offset", "value").last())
        live = last.filter(pl.col("value").is_not_null())
        live.sink_parquet(
            pl.PartitionBy(output, key="cluster", include_key=False), mkdir=True, engine="streaming"
        )

    return write


ENGINES: Mapping[str, Callable[[ExitStack], FleetEngine]] = {
    "spark": _spark,
    "local": _local,
    "duckdb": _duckdb,
    "polars": _polars,
}


def run_contestant(name: str, archive: str, output: str) -> None:
    """Print `ready`. At each line of the input, replace the output and print the seconds."""
    pa.set_cpu_count(CORES)
    with ExitStack() as stack:
        write = ENGINES[name](stack)
        print("ready", flush=True)
        for _ in sys.stdin:
            shutil.rmtree(output, ignore_errors=True)
            began = time.perf_counter()
            write(archive, output)
            print(time.perf_counter() - began, flush=True)
