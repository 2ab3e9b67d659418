"""Data frames of table queries: Spark's tasks open, fold and make the rows of one cluster each.

    cluster → mapInArrow(open, plan, fold) → rows of the table

Nothing is read before an action. No row passes through the driver, unless the action collects it.
"""

from collections.abc import Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from replay.fleet.table_run import TableWork, readable_batches


def query_frame(session: SparkSession, work: TableWork) -> DataFrame:
    """Data frame of a query; each cluster is a task."""
    count = len(work.clusters)
    numbers = session.range(0, count, 1, max(1, count))
    return numbers.mapInArrow(partial(_rows, work=work), from_arrow_schema(work.query.schema))


def _rows(batches: Iterator[pa.RecordBatch], work: TableWork) -> Iterator[pa.RecordBatch]:
    """`mapInArrow` function: numbers of clusters in, rows out."""
    for batch in batches:
        for number in batch.column("id").to_pylist():
            yield from readable_batches(work, work.clusters[number])
