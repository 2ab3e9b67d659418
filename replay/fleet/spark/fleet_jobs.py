"""Answers of Spark for whole fleets: data frames of tables, and summaries of folds and files."""

from collections.abc import Generator, Iterator, Sequence
from functools import partial
from itertools import chain

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from controlplane.core.text.safe_text import utf8_text
from replay.cluster_problem import ClusterProblem
from replay.engine.executors import Executor
from replay.engine.slices import LIMITS, TaskLimits
from replay.engine.spark.executor import SparkExecutor
from replay.engine.spark.jobs import run
from replay.engine.spark.worker_process import in_worker
from replay.engine.states.state_digest import offsets_sum
from replay.fleet.answer_warnings import warn_of_plans
from replay.fleet.archive_source import ArchiveSource
from replay.fleet.cluster_summaries import FleetQuestion, StateSummary, added_marks, joined
from replay.fleet.comparisons import DifferenceQuery
from replay.fleet.difference_files import (
    ComparedCluster,
    ComparisonCut,
    DifferencePlanTask,
    DifferenceTask,
)
from replay.fleet.order_facts import MarksByRelease, facts_of_offsets
from replay.fleet.spark.bucketed_states import (
    FoldedBucket,
    LargeCluster,
    bucket_frame,
    divided,
)
from replay.fleet.state_files import OFFSETS_TABLE, StateFolder, StateTask
from replay.fleet.table_queries import StateTableQuery
from replay.fleet.table_run import OnUnreadable, TableWork, readable_batches, skip_or_raise
from replay.progress import NoProgress, ProgressListener
from replay.tables.schemas import OFFSETS
from replay.tables.state_tables import STATE_TABLES, OrderFacts

_SUMMARIES = pa.schema([("summary", pa.binary())])
_DECODER = msgspec.msgpack.Decoder(StateSummary)


class SparkFleet:
    """Answers questions about fleets in Spark's tasks; the driver sees plans and summaries only."""

    def __init__(
        self,
        session: SparkSession,
        limits: TaskLimits = LIMITS,
        progress: ProgressListener | None = None,
    ) -> None:
        self._session = session
        self._limits = limits
        self._progress = progress or NoProgress()
        self.executor: Executor = SparkExecutor(session, self._progress)
        self.requests = self.executor

    def frame(self, work: TableWork) -> DataFrame:
        """Lazy data frame of a table query.

        For offsets, a first job plans the clusters, because very large ones are folded in buckets.

        Raises:
            NoSpark: that job has failed.
        """
        query = work.query
        if not isinstance(query, StateTableQuery) or query.table != OFFSETS_TABLE:
            return query_frame(self._session, work)
        question = FleetQuestion(work.source, query.moment, query.profiles)
        others, large = divided(question, work.clusters, self._limits, self.executor)
        names = [cut.cluster for cut in others]
        frame = query_frame(self._session, work._replace(clusters=names))
        if not large:
            return frame
        warn_of_plans([each.plan for each in large])
        make = partial(offset_rows, unreadable=work.unreadable)
        return frame.unionAll(bucket_frame(self._session, large, self._limits, make, OFFSETS))

    def state_frames(
        self, work: TableWork, query: StateTableQuery, tables: Sequence[str]
    ) -> dict[str, DataFrame]:
        """Lazy data frames of the tables of a state, by their names.

        Raises:
            NoSpark: the job that plans offsets has failed.
        """
        queries = {table: msgspec.structs.replace(query, table=table) for table in tables}
        return {table: self.frame(work._replace(query=each)) for table, each in queries.items()}

    def small_frame(self, table: pa.Table) -> DataFrame:
        """Data frame of a table that lies in this process."""
        return self._session.createDataFrame(table)

    def summaries(
        self,
        question: FleetQuestion,
        clusters: Sequence[str],
        folder: StateFolder | None = None,
        tables: Sequence[str] = (),
    ) -> Generator[StateSummary, None, None]:
        """Fold all clusters, write tables if a folder is given; yield summaries of all parts.

        Raises:
            NoSpark: Spark has failed.
            NotWritable: no room, or no permission.
        """
        others, large = divided(question, clusters, self._limits, self.executor)
        task = StateTask(question, folder, tuple(tables))
        yield from chain.from_iterable(self.executor.run(task, others))
        parts = joined(self._of_buckets(large, folder if OFFSETS_TABLE in tables else None))
        yield from parts
        # A cluster with a damaged bucket gets no files. The others get the facts of all buckets.
        damaged = {part.cluster for part in parts if part.problem is not None}
        sound = [each.cut for each in large if each.cluster not in damaged]
        facts = _facts_by_cluster(parts)
        without_offsets = msgspec.structs.replace(task, offsets=False, offset_facts=facts)
        yield from chain.from_iterable(self.executor.run(without_offsets, sound))

    def differences(
        self,
        query: DifferenceQuery,
        source: ArchiveSource,
        clusters: Sequence[str],
        folder: StateFolder,
    ) -> Iterator[ComparedCluster]:
        """Compare the sides of all clusters in tasks, which write the differences; yield counts.

        A first job fixes the ends of the sides.

        Raises:
            NoSpark: Spark has failed.
            NotWritable: no room, or no permission.
        """
        plan = DifferencePlanTask(query, source)
        planned = list(chain.from_iterable(self.executor.run(plan, clusters)))
        cuts = [each for each in planned if isinstance(each, ComparisonCut)]
        yield from (each for each in planned if isinstance(each, ComparedCluster))
        task = DifferenceTask(query, source, folder)
        yield from chain.from_iterable(self.executor.run(task, cuts))

    def _of_buckets(
        self, large: Sequence[LargeCluster], folder: StateFolder | None
    ) -> Iterator[StateSummary]:
        """Fold the offsets of very large clusters in buckets, and write them."""
        if not large:
            return
        make = partial(_summary_rows, folder=folder)
        frame = bucket_frame(self._session, large, self._limits, make, _SUMMARIES)
        for encoded in run(frame, self._progress).column("summary").to_pylist():
            yield _DECODER.decode(encoded)


def _facts_by_cluster(parts: Sequence[StateSummary]) -> dict[str, MarksByRelease]:
    """Facts about offsets that depend on the order between partitions."""
    facts: dict[str, dict[str, OrderFacts]] = {}
    for part in parts:
        if part.release is not None and part.order_marks:
            facts.setdefault(part.cluster, {})[part.release] = facts_of_offsets(part.order_marks)
    return {**facts}


def offset_rows(bucket: FoldedBucket, unreadable: OnUnreadable) -> Iterator[pa.RecordBatch]:
    """Rows of the table of offsets; an unreadable cluster is named in the log of its task."""
    if bucket.problem is not None:
        skip_or_raise(ClusterProblem(bucket.cluster, bucket.problem).line, unreadable)
    for state in bucket.states:
        yield from STATE_TABLES[OFFSETS_TABLE].batches(OFFSETS, bucket.cluster, state)


def _summary_rows(bucket: FoldedBucket, folder: StateFolder | None) -> Iterator[pa.RecordBatch]:
    """Summaries of a bucket; its offsets are written if a folder is given."""
    summaries = [StateSummary(bucket.cluster, problem=bucket.problem)] if bucket.problem else []
    for state in bucket.states:
        rows = {}
        if folder is not None:
            rows = {
                OFFSETS_TABLE: folder.write(OFFSETS_TABLE, state, bucket.cluster, bucket.number)
            }
        total = str(offsets_sum(state.offsets))
        release = state.profile.release
        of_release = bucket.order_marks.get(release, {}).items()
        marks = added_marks((utf8_text(connector), of_each) for connector, of_each in of_release)
        summaries.append(
            StateSummary(bucket.cluster, release, digest_sum=total, rows=rows, order_marks=marks)
        )
    encoded = [msgspec.msgpack.encode(summary) for summary in summaries]
    yield pa.RecordBatch.from_arrays([pa.array(encoded, pa.binary())], schema=_SUMMARIES)


def query_frame(session: SparkSession, work: TableWork) -> DataFrame:
    """Data frame of a query; each cluster is a task, which opens, folds and makes the rows.

    Spark reads nothing before an action. No row passes through the driver, unless the action
    collects it.
    """
    count = len(work.clusters)
    numbers = session.range(0, count, 1, max(1, count))
    return numbers.mapInArrow(partial(_rows, work=work), from_arrow_schema(work.query.schema))


@in_worker
def _rows(batches: Iterator[pa.RecordBatch], work: TableWork) -> Iterator[pa.RecordBatch]:
    """`mapInArrow` function: numbers of clusters in, rows out."""
    for batch in batches:
        for number in batch.column("id").to_pylist():
            yield from readable_batches(work, work.clusters[number])
