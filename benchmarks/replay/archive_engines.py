"""Contestants of the archive benchmark: this engine and other tools, one process each.

    python -m benchmarks.replay.archive_engines NAME ARCHIVE

The process prints `ready`. It then answers each input line (`final` or `half`) with one line. The
answer has the seconds until the rows were in Arrow, their number, their digest, and the shuffled
bytes. A repeated query is warm. No contestant uses more threads than `CORES`.

The query is the last value of every key of the offsets topic, which has nine tenths of the records.
`half` is the same query up to the middle of each partition, given by an offset vector.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from benchmarks.inputs.large_cluster import NAME, TOPICS
from controlplane.core.releases.profiles import Profile
from controlplane.logs.end_vectors import FittedEnds
from replay.archive.archived_cluster import ArchivedCluster, open_cluster
from replay.archive.stores.store import open_store
from replay.engine.local_engine import LocalEngine, LocalOptions
from replay.engine.plans.read_plan import ReadPlan

CORES = 2
PROFILE = Profile.of("3.9")


class OffsetsQuery(NamedTuple):
    """End offset of each partition, and the location of the data."""

    name: str
    folder: str
    """Path of the folder with the segments of the offsets topic."""
    ends: list[int]
    whole: bool
    """True if nothing lies after the ends."""


class OffsetRows(NamedTuple):
    """Rows with partition (if given), offset, key and value; tombstones may be included."""

    rows: pa.Table
    shuffled: int = 0


EngineFunction = Callable[[OffsetsQuery], OffsetRows]

COLUMNS = ["topic", "partition", "offset", "key", "value"]


def _dataset(question: OffsetsQuery) -> ds.Dataset:
    return ds.dataset(
        question.folder,
        format="parquet",
        partitioning=ds.partitioning(flavor="hive"),
        partition_base_dir=question.folder.rpartition("topic=")[0],
    )


# --- the lower limit, and other tools -----------------------------------------------------------


def _scan(_: ArchivedCluster, __: ExitStack) -> EngineFunction:
    """Read the five columns in batches, without any work."""

    def ask(question: OffsetsQuery) -> OffsetRows:
        for _batch in _dataset(question).to_batches(columns=COLUMNS):
            pass
        return OffsetRows(pa.table({}))

    return ask


def _plain_python(_: ArchivedCluster, __: ExitStack) -> EngineFunction:
    """The obvious program: a dict by raw key."""

    def ask(question: OffsetsQuery) -> OffsetRows:
        last: dict[Any, tuple[int, bytes | None]] = {}
        for fragment in _dataset(question).get_fragments():
            partition = int(fragment.path.rpartition("partition=")[2].partition("/")[0])
            for batch in fragment.to_batches(columns=["offset", "key", "value"]):
                columns = (batch.column(name).to_pylist() for name in ("offset", "key", "value"))
                for offset, key, value in zip(*columns, strict=True):
                    if offset < question.ends[partition]:
                        last[partition, key] = offset, value
        offsets, values = zip(*last.values(), strict=True)
        partitions, keys = zip(*last, strict=True)
        return OffsetRows(_rows(partitions, offsets, keys, values))

    return ask


def _rows(partitions: Any, offsets: Any, keys: Any, values: Any) -> pa.Table:
    return pa.table(
        {
            "partition": pa.array(partitions, pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
        }
    )


def _duckdb(_: ArchivedCluster, stack: ExitStack) -> EngineFunction:
    import duckdb  # noqa: PLC0415 - memory is measured: other contestants do without

    connection = stack.enter_context(duckdb.connect())
    connection.execute(f"SET threads = {CORES}")

    def ask(question: OffsetsQuery) -> OffsetRows:
        bounds = ", ".join(f"({number}, {end})" for number, end in enumerate(question.ends))
        files = f"read_parquet('{question.folder}/*/segment-*.parquet', hive_partitioning = true)"
        bounded = (
            f"{files} JOIN (VALUES {bounds}) AS bound(number, upto) "
            'ON partition = number AND "offset" < upto'
        )
        return OffsetRows(
            connection.sql(
                'SELECT partition, max("offset") AS "offset", key, '
                'arg_max_null(value, "offset") AS value '
                f"FROM {files if question.whole else bounded} GROUP BY partition, key"
            ).to_arrow_table()
        )

    return ask


def _polars(_: ArchivedCluster, __: ExitStack) -> EngineFunction:
    os.environ["POLARS_MAX_THREADS"] = str(CORES)  # polars reads it once, at its import
    import polars as pl  # noqa: PLC0415

    def ask(question: OffsetsQuery) -> OffsetRows:
        frame = pl.scan_parquet(
            f"{question.folder}/*/segment-*.parquet",
            hive_partitioning=True,
            hive_schema={"cluster": pl.String, "topic": pl.String, "partition": pl.Int32},
        ).select("partition", "offset", "key", "value")
        if not question.whole:
            numbers = range(len(question.ends))  # a join would not keep the order of rows
            upto = pl.col("partition").replace_strict(list(numbers), question.ends)
            frame = frame.filter(pl.col("offset") < upto)
        last = frame.group_by("partition", "key").agg(pl.col("offset", "value").last())
        return OffsetRows(last.collect(engine="streaming").to_arrow())

    return ask


def _max_by(_: ArchivedCluster, stack: ExitStack) -> EngineFunction:
    """Spark with its aggregate functions `max` and `max_by` per key, as textbooks suggest."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    from replay.engine.spark.location import SparkLocation  # noqa: PLC0415
    from replay.engine.spark.session import session  # noqa: PLC0415

    spark = stack.enter_context(
        session(SparkLocation(f"local[{CORES}]", {"spark.driver.memory": "4g"}))
    )

    def ask(question: OffsetsQuery) -> OffsetRows:
        base = question.folder.rpartition("topic=")[0]
        rows = spark.read.option("basePath", base).parquet(question.folder)
        if not question.whole:
            upto = f.array(*map(f.lit, question.ends))
            rows = rows.where(f.col("offset") < upto[f.col("partition")])
        last = rows.groupBy("partition", "key").agg(
            f.max("offset").alias("offset"), f.max_by("value", "offset").alias("value")
        )
        return OffsetRows(last.toArrow(), _shuffled(spark))

    return ask


def _shuffled(spark: Any) -> int:
    """Bytes that the executors of this session have shuffled so far."""
    store = spark.sparkContext._jsc.sc().statusStore()  # noqa: SLF001 - Spark has no other API
    executors = store.executorList(False)
    return sum(executors.apply(at).totalShuffleWrite() for at in range(executors.size()))


# --- ours ---------------------------------------------------------------------------------------


def _plan(local: LocalEngine, question: OffsetsQuery) -> ReadPlan:
    return local.plan_at(FittedEnds({TOPICS.offsets: question.ends}), [PROFILE])


def with_partitions(plan: ReadPlan, tables: list[pa.Table]) -> pa.Table:
    """Rows of a plan's partitions, with the number of the partition."""
    rows = pa.concat_tables(table.select(["offset", "key", "value"]) for table in tables)
    partitions = np.array([part.partition for part in plan.busy], np.int32)
    numbers = np.repeat(partitions, [table.num_rows for table in tables])
    return rows.append_column("partition", pa.array(numbers))


def _ours(cluster: ArchivedCluster, *, derived: bool) -> EngineFunction:
    local = LocalEngine(cluster, LocalOptions(derived=derived))

    def ask(question: OffsetsQuery) -> OffsetRows:
        plan = _plan(local, question)
        return OffsetRows(with_partitions(plan, local.reduced(plan, [PROFILE])))

    return ask


def _ours_in_spark(cluster: ArchivedCluster, stack: ExitStack) -> EngineFunction:
    from replay.engine.query import StateQuery  # noqa: PLC0415
    from replay.engine.spark.engine import SparkEngine  # noqa: PLC0415
    from replay.engine.spark.location import SparkLocation  # noqa: PLC0415
    from replay.engine.spark.session import session  # noqa: PLC0415

    spark = stack.enter_context(session(SparkLocation(f"local[{CORES}]", {})))
    engine, local = SparkEngine(spark), LocalEngine(cluster, LocalOptions(derived=False))

    def ask(question: OffsetsQuery) -> OffsetRows:
        plan = _plan(local, question)
        tables = engine.rows(engine.works([StateQuery(local, plan, [PROFILE])]))
        return OffsetRows(with_partitions(plan, tables), _shuffled(spark))

    return ask


CONTESTANTS: Mapping[str, Callable[[ArchivedCluster, ExitStack], EngineFunction]] = {
    "scan": _scan,
    "duckdb": _duckdb,
    "polars": _polars,
    "spark": _ours_in_spark,
    "local": lambda cluster, _: _ours(cluster, derived=False),
    # Derived files are snapshots, and winners: copies of the rows of a segment that may still
    # affect a state. Without these files only segments are read.
    "derived": lambda cluster, _: _ours(cluster, derived=True),
    "python": _plain_python,
    "max_by": _max_by,
}


def digest(rows: pa.Table) -> str:
    """Digest of the rows without tombstones, independent of their order."""
    live = rows.filter(pc.is_valid(rows.column("value"))).select(["key", "offset", "value"])
    ordered = live.cast(
        pa.schema([("key", pa.binary()), ("offset", pa.int64()), ("value", pa.binary())])
    )
    ordered = ordered.sort_by([("key", "ascending"), ("offset", "ascending")])
    whole = sha256()
    for batch in ordered.combine_chunks().to_batches():
        for column in batch.columns:
            for buffer in column.buffers()[1:]:
                whole.update(buffer)
    return whole.hexdigest()


def main(name: str, where: str) -> None:
    """Answer queries until the input ends."""
    pa.set_cpu_count(CORES)
    cluster = open_cluster(open_store(where), NAME)
    folder = f"{where}/cluster={NAME}/topic={TOPICS.offsets}"
    ends = list(cluster.ends[TOPICS.offsets])
    questions = {
        "final": OffsetsQuery("final", folder, ends, whole=True),
        "half": OffsetsQuery("half", folder, [end // 2 for end in ends], whole=False),
    }
    with ExitStack() as stack:
        ask = CONTESTANTS[name](cluster, stack)
        print("ready", flush=True)
        before = 0
        for line in sys.stdin:
            began = time.perf_counter()
            rows, shuffled = ask(questions[line.strip()])
            took = time.perf_counter() - began
            figure = {"seconds": took, "rows": rows.num_rows, "shuffled": shuffled - before}
            if name != "scan":
                figure["digest"] = digest(rows)
            before = shuffled
            print(json.dumps(figure), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
