"""Who is measured on an archive: ours, and what others would take; each in a process of its own.

    python -m benchmarks.contestants NAME ARCHIVE

It says `ready`, then answers each question that comes as a line (`final` or `half`) with a line:
how long it took until the rows were there as Arrow, how many, their digest, and how many bytes were
shuffled. Asked for again, a question is warm. Nobody computes in more threads than `CORES`.

The question of all: the last value of every key of the offsets topic, nine tenths of the records.
`half` is the same up to the middle of each partition, by an offset vector.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from hashlib import sha256
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from benchmarks.fleet import NAME, TOPICS
from controlplane.core.profiles import Profile
from controlplane.logs.cuts import Cut
from replay.archive.cluster import Cluster, open_cluster
from replay.archive.store import open_store
from replay.engine.local import Local, Options
from replay.engine.plan import Plan
from replay.engine.reading import Reader

CORES = 2
PROFILE = Profile.of("3.9")


class Question(NamedTuple):
    """Up to which offset of each partition is asked, and where it all lies."""

    name: str
    folder: str
    """Of the offsets topic."""
    ends: list[int]
    whole: bool
    """Whether nothing lies behind the ends."""


class Answer(NamedTuple):
    """Rows: partition (where told), offset, key, value; tombstones may be among them."""

    rows: pa.Table
    shuffled: int = 0


Asked = Callable[[Question], Answer]

COLUMNS = ["topic", "partition", "offset", "key", "value"]


def _dataset(question: Question) -> ds.Dataset:
    return ds.dataset(
        question.folder,
        format="parquet",
        partitioning=ds.partitioning(flavor="hive"),
        partition_base_dir=question.folder.rpartition("topic=")[0],
    )


# --- the limit, and what others take ------------------------------------------------------------


def _scan(_: Cluster, __: ExitStack) -> Asked:
    """Reads the five columns, batch by batch, and does nothing with them."""

    def ask(question: Question) -> Answer:
        for _batch in _dataset(question).to_batches(columns=COLUMNS):
            pass
        return Answer(pa.table({}))

    return ask


def _plain_python(_: Cluster, __: ExitStack) -> Asked:
    """What one would write first: a dict by raw key."""

    def ask(question: Question) -> Answer:
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
        return Answer(_rows(partitions, offsets, keys, values))

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


def _duckdb(_: Cluster, stack: ExitStack) -> Asked:
    import duckdb  # noqa: PLC0415 - only who is asked is loaded, for its memory is measured

    connection = stack.enter_context(duckdb.connect())
    connection.execute(f"SET threads = {CORES}")

    def ask(question: Question) -> Answer:
        bounds = ", ".join(f"({number}, {end})" for number, end in enumerate(question.ends))
        files = f"read_parquet('{question.folder}/*/segment-*.parquet', hive_partitioning = true)"
        bounded = (
            f"{files} JOIN (VALUES {bounds}) AS bound(number, upto) "
            'ON partition = number AND "offset" < upto'
        )
        return Answer(
            connection.sql(
                'SELECT partition, max("offset") AS "offset", key, '
                'arg_max_null(value, "offset") AS value '
                f"FROM {files if question.whole else bounded} GROUP BY partition, key"
            ).to_arrow_table()
        )

    return ask


def _polars(_: Cluster, __: ExitStack) -> Asked:
    os.environ["POLARS_MAX_THREADS"] = str(CORES)  # it looks at it once, when it is loaded
    import polars as pl  # noqa: PLC0415

    def ask(question: Question) -> Answer:
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
        return Answer(last.collect(engine="streaming").to_arrow())

    return ask


def _max_by(_: Cluster, stack: ExitStack) -> Asked:
    """Spark as its textbooks have it."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    from replay.engine.session import session  # noqa: PLC0415
    from replay.engine.where import Where  # noqa: PLC0415

    spark = stack.enter_context(session(Where(f"local[{CORES}]", {"spark.driver.memory": "4g"})))

    def ask(question: Question) -> Answer:
        base = question.folder.rpartition("topic=")[0]
        rows = spark.read.option("basePath", base).parquet(question.folder)
        if not question.whole:
            upto = f.array(*map(f.lit, question.ends))
            rows = rows.where(f.col("offset") < upto[f.col("partition")])
        last = rows.groupBy("partition", "key").agg(
            f.max("offset").alias("offset"), f.max_by("value", "offset").alias("value")
        )
        return Answer(last.toArrow(), _shuffled(spark))

    return ask


def _shuffled(spark: Any) -> int:
    """Bytes that executors of this session have written for others so far."""
    store = spark.sparkContext._jsc.sc().statusStore()  # noqa: SLF001 - Spark tells it nowhere else
    executors = store.executorList(False)
    return sum(executors.apply(at).totalShuffleWrite() for at in range(executors.size()))


# --- ours ---------------------------------------------------------------------------------------


def _plan(local: Local, question: Question) -> Plan:
    return local.plan_at(Cut({TOPICS.offsets: question.ends}), [PROFILE])


def _with_partitions(plan: Plan, tables: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(
        table.select(["offset", "key", "value"]).append_column(
            "partition", pa.repeat(pa.scalar(part.partition, pa.int32()), table.num_rows)
        )
        for part, table in zip(plan.busy, tables, strict=True)
    )


def _ours(cluster: Cluster, *, derived: bool) -> Asked:
    local = Local(cluster, Options(derived=derived))
    reader = Reader(cluster.store, cluster.topics, [PROFILE])

    def ask(question: Question) -> Answer:
        plan = _plan(local, question)
        with ThreadPoolExecutor(CORES) as threads:
            tables = list(threads.map(reader.reduced, plan.busy))
        return Answer(_with_partitions(plan, tables))

    return ask


def _ours_in_spark(cluster: Cluster, stack: ExitStack) -> Asked:
    from replay.engine.asked import Asked as Wanted  # noqa: PLC0415
    from replay.engine.session import session  # noqa: PLC0415
    from replay.engine.spark import Spark  # noqa: PLC0415
    from replay.engine.where import Where  # noqa: PLC0415

    spark = stack.enter_context(session(Where(f"local[{CORES}]", {})))
    engine, local = Spark(spark), Local(cluster, Options(derived=False))

    def ask(question: Question) -> Answer:
        plan = _plan(local, question)
        tables = engine.rows(engine.works([Wanted(local, plan, [PROFILE])]))
        return Answer(_with_partitions(plan, tables), _shuffled(spark))

    return ask


CONTESTANTS: Mapping[str, Callable[[Cluster, ExitStack], Asked]] = {
    "scan": _scan,
    "duckdb": _duckdb,
    "polars": _polars,
    "spark": _ours_in_spark,
    "local": lambda cluster, _: _ours(cluster, derived=False),
    "derived": lambda cluster, _: _ours(cluster, derived=True),
    "python": _plain_python,
    "max_by": _max_by,
}


def digest(rows: pa.Table) -> str:
    """Of the rows that are no tombstones, whatever order they came in."""
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
    """Answer what is asked until nobody asks any more."""
    pa.set_cpu_count(CORES)
    cluster = open_cluster(open_store(where), NAME)
    folder = f"{where}/cluster={NAME}/topic={TOPICS.offsets}"
    ends = list(cluster.ends[TOPICS.offsets])
    questions = {
        "final": Question("final", folder, ends, whole=True),
        "half": Question("half", folder, [end // 2 for end in ends], whole=False),
    }
    with ExitStack() as stack:
        ask = CONTESTANTS[name](cluster, stack)
        print("ready", flush=True)
        before = 0
        for line in sys.stdin:
            began = time.perf_counter()
            rows, shuffled = ask(questions[line.strip()])
            took = time.perf_counter() - began
            told = {"seconds": took, "rows": rows.num_rows, "shuffled": shuffled - before}
            if name != "scan":
                told["digest"] = digest(rows)
            before = shuffled
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
