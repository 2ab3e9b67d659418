"""Spark tasks: read a list of files and return the rows that count.

A row counts if the state depends on it. Only these rows pass through the JVM. A task reads files
like the local engine, with the same kernels. A `ReplayError`, such as a damaged file, is returned
in place of rows. Spark would repeat a task that raises it.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgspec
import pyarrow as pa

from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Topics
from replay.archive.integrity import CheckedStore
from replay.archive.stores.hadoop_settings import HadoopSettings
from replay.archive.stores.store import open_store
from replay.engine.local_engine import LocalEngine
from replay.engine.partition_reader import PartitionReader
from replay.engine.plans.read_plan import PartitionPlan
from replay.engine.slices import TaskLimits
from replay.engine.spark.location import anywhere
from replay.engine.spark.task_output_codec import (
    PIECES,
    TaskOutput,
    by_work,
    pieces,
    rows_content,
    rows_of,
    wrong_content,
)
from replay.engine.spark.worker_process import in_worker
from replay.errors import ReplayError

TASKS = pa.schema([("works", pa.binary())])
"""Schema of tasks: each row is a list of `NumberedWork`."""


class ReadContext(msgspec.Struct, frozen=True):
    """Archive of a partition, and the way of reading it."""

    where: str
    """Path or URL of the archive, valid on every worker."""
    settings: HadoopSettings
    """Settings of the archive's object store."""
    trusted: bool
    """True if hashes of files need not be compared."""
    topics: Topics
    releases: tuple[str, ...]
    exactly_once: bool

    def reader(self, parts: Sequence[PartitionPlan]) -> PartitionReader:
        """Create a reader for these parts of the archive."""
        store = open_store(self.where, self.settings)
        if not self.trusted:
            store = CheckedStore(store, (piece.stored for part in parts for piece in part.pieces))
        profiles = [Profile.of(release) for release in self.releases]
        return PartitionReader(store, self.topics, profiles, exactly_once=self.exactly_once)


def read_context(local: LocalEngine, profiles: Sequence[Profile]) -> ReadContext:
    """Context for reading parts of the archive that an engine has opened."""
    store = local.cluster.store
    return ReadContext(
        anywhere(store.where),
        store.settings,
        not isinstance(store, CheckedStore),
        local.cluster.topics,
        tuple(profile.release for profile in profiles),
        local.options.exactly_once,
    )


class SliceWork(msgspec.Struct, frozen=True):
    """A partition to reduce, or a slice of it."""

    context: ReadContext
    part: PartitionPlan
    before_ms: int | None = None
    """Greatest timestamp of the partition before the slice; None at the beginning."""
    ranked: bool = False
    """Return the last row of each key with its rank, instead of the rows that count."""

    def of(self, part: PartitionPlan, before_ms: int | None) -> "SliceWork":
        """Return the work restricted to one slice."""
        return SliceWork(self.context, part, before_ms, self.ranked)

    def reduced(self) -> pa.Table:
        """Reduce the rows.

        Raises:
            ArchiveCorrupt: a file is missing or damaged.
            ArchiveBusy: a merge has removed a file since the archive was opened.
        """
        reader = self.context.reader([self.part])
        return (
            reader.ranked(self.part, self.before_ms)
            if self.ranked
            else reader.reduced(self.part, self.before_ms)
        )


class NumberedWork(NamedTuple):
    """A work, or a slice of it, with the number of its result."""

    number: int
    slice: int
    work: SliceWork


def bundles(
    works: Sequence[NumberedWork], slots: int, limits: TaskLimits
) -> list[list[NumberedWork]]:
    """Bundle works into tasks with similar numbers of rows; no task is empty.

    There are as many tasks as slots, or a multiple of that; few works make fewer tasks.
    """
    if not works:
        return []
    rows = sum(work.work.part.rows for work in works)
    rounds = max(1, -(-rows // (limits.task_rows * slots)))  # keeps rounds equally long
    count = min(len(works), rounds * slots)
    heap = [(0, number) for number in range(count)]
    tasks: list[list[NumberedWork]] = [[] for _ in range(count)]
    # The largest works come first, each into the task with the fewest rows so far.
    for work in sorted(works, key=lambda numbered: -numbered.work.part.rows):
        taken, number = heapq.heappop(heap)
        tasks[number].append(work)
        heapq.heappush(heap, (taken + work.work.part.rows, number))
    return [bundle for bundle in tasks if bundle]


_DECODER = msgspec.msgpack.Decoder(list[NumberedWork])


def encoded(works: Sequence[NumberedWork]) -> bytes:
    """Encode the works of one task as MessagePack, for one row of `TASKS`."""
    return msgspec.msgpack.encode(works)


@in_worker
def reduced(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """`mapInArrow` function: tasks in, reduced rows out."""
    for batch in batches:
        for works in batch.column("works").to_pylist():
            for number, part, work in _DECODER.decode(works):
                yield from pieces(TaskOutput(number, part, _answer(work.reduced)))


@in_worker
def merged(
    batches: Iterator[pa.RecordBatch], whole: Mapping[int, SliceWork]
) -> Iterator[pa.RecordBatch]:
    """`mapInArrow` function: all slices of a work in, merged rows out."""
    for number, slices in by_work(pa.Table.from_batches(batches, PIECES)):
        left = partial(_merged, whole[number], slices)
        yield from pieces(TaskOutput(number, 0, _answer(left)))


def _merged(work: SliceWork, slices: Sequence[TaskOutput]) -> pa.Table:
    """Merge slices, in the order of their rows."""
    table = pa.concat_tables(rows_of(slice_.content) for slice_ in slices)
    return work.context.reader([]).merged(work.part.topic, table)


def _answer(find: Callable[[], pa.Table]) -> bytes:
    """Encode the rows, or any `ReplayError`."""
    try:
        return rows_content(find())
    except ReplayError as error:
        return wrong_content(error)
