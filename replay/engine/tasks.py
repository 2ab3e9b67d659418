"""What a task of Spark's does: it gets file lists and gives back the rows that count.

Nothing of a log passes through the JVM but those rows. A task reads its files as the local engine
does, by the same kernels; what is wrong with a file comes back as a sentence, for to try again
would not mend it.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from controlplane.core.profiles import Profile
from controlplane.core.state import Topics
from replay.archive.hadoop import Settings
from replay.archive.integrity import Checked
from replay.archive.store import open_store
from replay.engine.plan import PartPlan
from replay.engine.reading import Reader
from replay.errors import ReplayError

TASKS = pa.schema([("works", pa.binary())])
TASKS_DDL = "works binary"
"""A row is a task: a list of `Numbered`."""

ROWS = pa.schema(
    [
        ("work", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("aborted", pa.bool_()),
        ("wrong", pa.string()),
    ]
)
ROWS_DDL = (
    "work int, offset bigint, timestamp bigint, key binary, value binary, aborted boolean, "
    "wrong string"
)
"""A row of a partition that counts, and whose work it is; or why there are none."""


class Asker(msgspec.Struct, frozen=True):
    """Whose partition it is, and who reads it."""

    where: str
    """The archive, as a worker of Spark's finds it."""
    settings: Settings
    """Those of its object store."""
    trusted: bool
    """Hashes of files need not be compared."""
    topics: Topics
    releases: tuple[str, ...]
    exactly_once: bool

    def reader(self, parts: Sequence[PartPlan]) -> Reader:
        """Who reads these parts of its archive."""
        store = open_store(self.where, self.settings)
        if not self.trusted:
            store = Checked(store, (piece.stored for part in parts for piece in part.pieces))
        profiles = [Profile.of(one) for one in self.releases]
        return Reader(store, self.topics, profiles, exactly_once=self.exactly_once)


class Work(msgspec.Struct, frozen=True):
    """A partition to be reduced, or a slice of one."""

    asker: Asker
    part: PartPlan
    before_ms: int | None = None
    """The greatest timestamp of the partition before a slice; None: there is nothing before."""
    ranked: bool = False
    """Not the rows that count are wanted, but the last of each key with its rank."""

    def of(self, part: PartPlan, before_ms: int | None) -> "Work":
        """The same of a slice."""
        return Work(self.asker, part, before_ms, self.ranked)

    def reduced(self) -> pa.Table:
        """The rows that are left.

        Raises:
            ArchiveCorrupt: a file is missing or damaged.
        """
        reader = self.asker.reader([self.part])
        return (
            reader.ranked(self.part) if self.ranked else reader.reduced(self.part, self.before_ms)
        )


class Numbered(NamedTuple):
    """A work, and where its answer goes."""

    number: int
    work: Work


_DECODER = msgspec.msgpack.Decoder(list[Numbered])


def encoded(works: Sequence[Numbered]) -> bytes:
    """Works as one row."""
    return msgspec.msgpack.encode(works)


def reduced(batches: Iterator[pa.RecordBatch], batch_bytes: int) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: tasks in, rows out."""
    for batch in batches:
        for works in batch.column("works").to_pylist():
            for number, work in _DECODER.decode(works):
                yield from _answered(number, work, batch_bytes)


def _answered(number: int, work: Work, batch_bytes: int) -> Iterator[pa.RecordBatch]:
    try:
        table = as_rows(number, work.reduced())
    except ReplayError as error:
        table = pa.table(
            {name: [None] for name in ROWS.names} | {"work": [number], "wrong": [str(error)]},
            schema=ROWS,
        )
    yield from in_batches(table, batch_bytes)


def merged(
    batches: Iterator[pa.RecordBatch], whole: Mapping[int, Work], batch_bytes: int
) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: rows of slices in, each partition's in one task; rows of `whole` out."""
    table = pa.Table.from_batches(batches, ROWS)
    for number in table.column("work").unique().to_pylist():
        rows = table.filter(pc.equal(table.column("work"), number))
        if rows.column("wrong").null_count == rows.num_rows:
            work = whole[number]
            ordered = rows.sort_by("offset")
            left = work.asker.reader([]).merged(work.part.topic, ordered)
            rows = as_rows(number, left)
        yield from in_batches(rows, batch_bytes)


def as_rows(number: int, table: pa.Table) -> pa.Table:
    """What a kernel has left, as rows of a work."""
    length = table.num_rows
    columns = {name: table.column(name) for name in table.column_names}
    columns["work"] = pa.repeat(number, length)
    return pa.table(
        [
            columns[field.name].cast(field.type)
            if field.name in columns
            else pa.nulls(length, field.type)
            for field in ROWS
        ],
        schema=ROWS,
    )


def of_works(table: pa.Table, count: int) -> list[pa.Table]:
    """The rows of each work, in their order."""
    ordered = table.take(pc.sort_indices(table, [("work", "ascending"), ("offset", "ascending")]))
    ends = np.searchsorted(ordered.column("work").to_numpy(), np.arange(count + 1))
    return [ordered.slice(start, end - start) for start, end in pairwise(ends.tolist())]


def in_batches(table: pa.Table, batch_bytes: int) -> Iterator[pa.RecordBatch]:
    """A table in pieces that Python and the JVM hand to each other."""
    rows = max(1, table.num_rows * batch_bytes // max(1, table.nbytes))
    yield from table.to_batches(max_chunksize=rows)
