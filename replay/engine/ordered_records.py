"""Original records of an archive, in the one order.

Partitions are merged while they are read. For each partition, this process holds one row group in
columns, and a few thousand decoded records.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from types import MappingProxyType
from typing import NamedTuple

from controlplane.core.entry import Entry
from controlplane.core.order import RankedEntry
from controlplane.logs.end_vectors import FittedEnds
from replay.archive.archived_cluster import ArchivedCluster, PartitionId
from replay.cluster_problem import errors_of
from replay.doubts import AnswerDoubts, beginning, certain_from
from replay.engine.coverage.certainty import ArchiveCertainty
from replay.engine.coverage.lost_offsets import gaps_before
from replay.engine.local_engine import LocalEngine, LocalOptions
from replay.engine.partition_reader import PartitionReader
from replay.engine.plans.moment_cut import cut_at
from replay.engine.plans.read_plan import PartitionPlan, planned
from replay.gaps import OffsetGap
from replay.kernels.batches import batch
from replay.kernels.row_runs import RowRun

ROWS_AT_ONCE = 4_096
"""Decoded records per partition; the rest of the row group stays in columns."""

COLUMNS = ("offset", "timestamp", "key", "value", "headers", "aborted")


def records(
    cluster: ArchivedCluster, moment: str | None = None, *, exactly_once: bool = False
) -> Iterator[Entry]:
    """Yield every record up to a moment (None: all), including aborted ones.

    Without a moment, all archived topics are read. At a time or a record, dedicated offsets topics
    are read only if configs before the cut name them. With `exactly_once`, aborted configs do not
    count for this. At a vector, the dedicated topics in the vector are read.

    Raises:
        UnknownMoment: an invalid moment, or the archive has nothing there.
        ArchiveCorrupt: a file is missing or damaged; also raised during the iteration.
    """
    parts = planned(cluster, _cut(cluster, moment, exactly_once=exactly_once), derived=False).parts
    return (ranked.entry for ranked in ordered(cluster, parts))


def missing(
    cluster: ArchivedCluster, moment: str | None = None, *, exactly_once: bool = False
) -> tuple[OffsetGap, ...]:
    """Gaps that may affect the records up to a moment; None: all records.

    Raises:
        UnknownMoment: an invalid moment, or the archive has nothing there.
        ArchiveCorrupt: a file with the moment in it is missing or damaged.
    """
    if not any(part.gaps for part in cluster.parts.values()):  # the usual case
        return ()
    return gaps_before(cluster, _cut(cluster, moment, exactly_once=exactly_once), moment)


class MomentDoubts(NamedTuple):
    """Doubts about a moment, and about the time before it."""

    present: AnswerDoubts = AnswerDoubts()
    """Doubts about the state at the moment."""
    past: AnswerDoubts = AnswerDoubts()
    """Doubts about anything before it."""


def doubts_at(
    certainty: ArchiveCertainty, moment: str | None, *, exactly_once: bool = False
) -> MomentDoubts:
    """Doubts at a moment; None: the end.

    Raises:
        UnknownMoment: an invalid moment, or the archive has nothing there.
        ArchiveCorrupt: the segment of the moment, or one that misses offsets, cannot be read.
    """
    if certainty.is_complete:  # the usual case
        return MomentDoubts()
    cut = _cut(certainty.cluster, moment, exactly_once=exactly_once)
    ends, has_gaps = cut.ends, bool(gaps_before(certainty.cluster, cut, moment))
    present, past = certainty.doubts(ends, moment), certainty.past(ends, moment)
    return MomentDoubts(
        AnswerDoubts(present, certain_from(ends, present, has_gaps=has_gaps)),
        AnswerDoubts(past, certain_from(beginning(ends), past, has_gaps=has_gaps)),
    )


def ordered(
    cluster: ArchivedCluster,
    parts: Iterable[PartitionPlan],
    before_ms: Mapping[PartitionId, int] = MappingProxyType({}),
) -> Iterator[RankedEntry]:
    """Yield the records of some partitions with their ranks, merged in order.

    `before_ms`: greatest timestamp of each partition before its part; it is part of the rank.

    Raises:
        ArchiveCorrupt: a file is missing or damaged.
    """
    reader = PartitionReader(cluster.store, cluster.topics, ())
    with errors_of(cluster.name):
        runs = [
            _placed(part, reader.runs(part), before_ms.get((part.topic, part.partition)))
            for part in parts
            if part.rows
        ]
        yield from merge(*runs, key=lambda ranked: ranked[:4])


def _cut(cluster: ArchivedCluster, moment: str | None, *, exactly_once: bool) -> FittedEnds:
    if moment is None:
        return FittedEnds(cluster.ends)
    local = LocalEngine(cluster, LocalOptions(exactly_once))
    return cut_at(cluster, moment, local.own_topics)


def _placed(
    part: PartitionPlan, runs: Sequence[RowRun], latest_ms: int | None
) -> Iterator[RankedEntry]:
    """Records of a partition with their ascending ranks."""
    for rows in runs:
        table = rows.read(*COLUMNS)
        for start in range(0, table.num_rows, ROWS_AT_ONCE):
            decoded = batch(part.topic, part.partition, table.slice(start, ROWS_AT_ONCE))
            for entry in decoded.entries():
                before_ms = entry.timestamp if latest_ms is None else latest_ms
                latest_ms = max(entry.timestamp, before_ms)
                yield RankedEntry(latest_ms, part.partition, entry.offset, part.topic, entry)
