"""What a task of Spark's does: it gets file lists and gives back the rows that count.

Nothing of a log passes through the JVM but those rows. A task reads its files as the local engine
does, by the same kernels; what is wrong with a file comes back as a sentence, for to try again
would not mend it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgspec
import pyarrow as pa

from controlplane.core.profiles import Profile
from controlplane.core.state import Topics
from replay.archive.hadoop import Settings
from replay.archive.integrity import Checked
from replay.archive.store import open_store
from replay.engine.parcels import (
    PIECES,
    Parcel,
    by_work,
    pieces,
    rows_content,
    rows_of,
    wrong_content,
)
from replay.engine.plan import PartPlan
from replay.engine.reading import Reader
from replay.errors import ReplayError

TASKS = pa.schema([("works", pa.binary())])
TASKS_DDL = "works binary"
"""A row is a task: a list of `Numbered`."""


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
    """A work, or a slice of one, and where its answer goes."""

    number: int
    slice: int
    work: Work


_DECODER = msgspec.msgpack.Decoder(list[Numbered])


def encoded(works: Sequence[Numbered]) -> bytes:
    """Works as one row."""
    return msgspec.msgpack.encode(works)


def reduced(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: tasks in, the rows that they leave out."""
    for batch in batches:
        for works in batch.column("works").to_pylist():
            for number, part, work in _DECODER.decode(works):
                yield from pieces(Parcel(number, part, _answer(work.reduced)))


def merged(
    batches: Iterator[pa.RecordBatch], whole: Mapping[int, Work]
) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: slices in, those of a work in one task; what is left of the work out."""
    for number, slices in by_work(pa.Table.from_batches(batches, PIECES)):
        left = partial(_merged, whole[number], slices)
        yield from pieces(Parcel(number, 0, _answer(left)))


def _merged(work: Work, slices: Sequence[Parcel]) -> pa.Table:
    """What is left of slices, which follow each other as their rows do."""
    table = pa.concat_tables(rows_of(one.content) for one in slices)
    return work.asker.reader([]).merged(work.part.topic, table)


def _answer(find: Callable[[], pa.Table]) -> bytes:
    """The rows that are found, or what is wrong with a file, to be handed over."""
    try:
        return rows_content(find())
    except ReplayError as error:
        return wrong_content(str(error))
