"""The records of an archive themselves, in the one order, as they came from their log.

Partitions are merged while they are read: of each a few thousand records are held at a time.
"""

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge

from controlplane.core.entry import Entry
from controlplane.core.moments import UnknownMoment
from controlplane.core.order import Placed
from controlplane.logs.cuts import Cut
from replay.archive.cluster import Cluster
from replay.engine.gaps import gaps_before
from replay.engine.local import Local
from replay.engine.moments import cut_at
from replay.engine.plan import PartPlan, planned
from replay.engine.reading import Reader
from replay.gaps import Gap
from replay.kernels.batches import batch
from replay.kernels.rows import Rows

ROWS_AT_ONCE = 4_096
"""Records of a partition that are held at a time; the rest of its row group is compact."""

COLUMNS = ("offset", "timestamp", "key", "value", "headers", "aborted")


def records(cluster: Cluster, moment: str | None = None) -> Iterator[Entry]:
    """Every record up to a moment (None: all that are archived), aborted ones, too.

    Raises:
        UnknownMoment: not such a text, or the archive has nothing there.
        ArchiveCorrupt: a file is missing or damaged; also while they are gone through.
    """
    parts = planned(cluster, _cut(cluster, moment), derived=False).parts
    return (one.entry for one in ordered(cluster, parts))


def missing(cluster: Cluster, moment: str | None = None) -> tuple[Gap, ...]:
    """What had been removed before it was archived, and may have been among these records.

    Raises:
        UnknownMoment: not such a text, or the archive has nothing there.
        ArchiveCorrupt: a file in which the moment lies is missing or damaged.
    """
    if not any(part.gaps for part in cluster.parts.values()):  # as nearly always
        return ()
    return gaps_before(cluster, _cut(cluster, moment), moment)


def ordered(cluster: Cluster, parts: Iterable[PartPlan]) -> Iterator[Placed]:
    """The records that a plan reads of some partitions, each with its rank.

    Raises:
        ArchiveCorrupt: a file is missing or damaged; also while they are gone through.
    """
    reader = Reader(cluster.store, cluster.topics, ())
    runs = [_placed(part, reader.runs(part)) for part in parts if part.rows]
    return merge(*runs, key=lambda one: one[:4])


def _cut(cluster: Cluster, moment: str | None) -> Cut:
    if moment is None:
        return Cut(cluster.ends)
    try:
        return cut_at(cluster, moment, Local(cluster).own_topics)
    except UnknownMoment as error:
        raise UnknownMoment(f"{cluster.name}: {error}") from None


def _placed(part: PartPlan, runs: Sequence[Rows]) -> Iterator[Placed]:
    """The records of a partition, each with its rank, which ascends."""
    latest_ms = None
    for rows in runs:
        table = rows.read(*COLUMNS)
        for start in range(0, table.num_rows, ROWS_AT_ONCE):
            some = batch(part.topic, part.partition, table.slice(start, ROWS_AT_ONCE))
            for entry in some.entries():
                before_ms = entry.timestamp if latest_ms is None else latest_ms
                latest_ms = max(entry.timestamp, before_ms)
                yield Placed(latest_ms, part.partition, entry.offset, part.topic, entry)
