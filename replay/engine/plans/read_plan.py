"""Plan: rows of files that determine a state.

A plan is a value. Any process that has the store can run it; its parts are independent.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from controlplane.core.order import Ends
from controlplane.core.state import Topics
from controlplane.logs.end_vectors import FittedEnds
from replay.archive.archived_cluster import ArchivedCluster, ArchivedPartition
from replay.archive.manifest import Segment, Snapshot, SnapshotRows, StoredFile
from replay.archive.segments.segment_files import opened
from replay.archive.segments.winners import reducible
from replay.archive.stores.concurrent_requests import concurrently_in_plan
from replay.doubts import AnswerDoubts, Doubt, EndVector
from replay.engine.plans.row_lookup import row_of_offset
from replay.gaps import OffsetGap


class FileRows(msgspec.Struct, frozen=True):
    """Range of rows to read from one file."""

    stored: StoredFile
    begin: int
    end: int
    kind: str
    """`segment`, `winners` or `snapshot`."""
    aborted: bool
    """True if the rows may include records of aborted transactions."""


class PartitionPlan(msgspec.Struct, frozen=True):
    """Rows to read of one partition, in the order of offsets."""

    topic: str
    partition: int
    pieces: tuple[FileRows, ...]

    @property
    def rows(self) -> int:
        """Number of rows to read, in all files of the partition."""
        return sum(piece.end - piece.begin for piece in self.pieces)

    @property
    def aborted(self) -> bool:
        """True if the rows may include records of aborted transactions."""
        return any(piece.aborted for piece in self.pieces)


class ReadPlan(msgspec.Struct, frozen=True):
    """Rows to read for the state of one cluster at one cut."""

    cluster: str
    topics: Topics
    ends: dict[str, list[int]]
    """The cut: the first excluded offset, by topic and partition."""
    parts: tuple[PartitionPlan, ...]
    snapshot: Snapshot | None = None
    """Snapshot that the plan starts from."""
    folded: tuple[str, ...] = ()
    """Topics whose frozen state comes from the snapshot; only later rows are read."""
    notices: tuple[str, ...] = ()
    gaps: tuple[OffsetGap, ...] = ()
    """Gaps that may affect the state."""
    doubts: tuple[Doubt, ...] = ()
    """Doubts about the state; on request also about the time before (`LocalEngine.plan`)."""
    certain_from: EndVector | None = None
    """Earliest moment without these doubts (`doubts.certain_from`); None if there is none."""

    @property
    def answer_doubts(self) -> AnswerDoubts:
        """The doubts, with the earliest moment without them."""
        return AnswerDoubts(self.doubts, self.certain_from)

    @property
    def stored(self) -> list[StoredFile]:
        """Files with rows to read, each once."""
        every = (piece.stored for part in self.parts for piece in part.pieces)
        return list({file.file: file for file in every}.values())

    @property
    def brief(self) -> "ReadPlan":
        """The plan without its parts and snapshot: small enough to be sent along with an answer."""
        return replace(self, parts=(), snapshot=None)

    @property
    def busy(self) -> list[PartitionPlan]:
        """Parts with rows to read, in the order of the plan."""
        return [part for part in self.parts if part.rows]

    @property
    def offsets_topics(self) -> list[str]:
        """Topics with source offsets: the worker's, and those of connectors (KIP-618)."""
        others = (self.topics.config, self.topics.status, self.topics.commands)
        return [topic for topic in self.ends if topic not in others]

    def only(self, topics: Sequence[str]) -> "ReadPlan":
        """The plan restricted to some topics."""
        return replace(self, parts=tuple(part for topic in topics for part in self.parts_of(topic)))

    def parts_of(self, topic: str) -> list[PartitionPlan]:
        """Plans of a topic's partitions; empty if the plan lacks the topic."""
        return [part for part in self.parts if part.topic == topic]


def nearest(cluster: ArchivedCluster, ends: Ends) -> Snapshot | None:
    """The latest snapshot that lies completely before a cut."""
    for snapshot in reversed(list(cluster.snapshots)):
        if all(
            _within(snapshot.ends.get(topic, ()), topic_ends) for topic, topic_ends in ends.items()
        ):
            return snapshot
    return None


def _within(at: Sequence[int], ends: Sequence[int]) -> bool:
    """Compare end offsets; topics gain partitions and never lose any."""
    return all(known_end <= end for known_end, end in zip(at, ends, strict=False))


class PlanStart(NamedTuple):
    """Start of a plan: the beginning of the archive, or a snapshot."""

    snapshot: Snapshot | None = None
    folded: tuple[str, ...] = ()
    """Topics whose frozen state is taken from the snapshot."""


FROM_THE_START = PlanStart()


def planned(
    cluster: ArchivedCluster,
    cut: FittedEnds,
    start: PlanStart = FROM_THE_START,
    *,
    derived: bool = True,
) -> ReadPlan:
    """Make the plan for a cut; `derived` allows winners in place of whole segments.

    Raises:
        ArchiveCorrupt: a file with the cut in it is missing or damaged.
    """

    def planned_part(topic: str, partition: int, end: int) -> PartitionPlan:
        use = derived and reducible(topic, cluster.topics)
        begin, pieces = _snapshot_part(start, topic, partition)
        part = cluster.parts[topic, partition]
        pieces += _pieces(cluster, part, begin, end, derived=use)
        return PartitionPlan(topic, partition, tuple(pieces))

    ends = {topic: list(offsets) for topic, offsets in cut.ends.items()}
    places = [
        (topic, *cut_end) for topic, offsets in ends.items() for cut_end in enumerate(offsets)
    ]
    # Only a segment with missing offsets may have to be opened. Then partitions do not wait for
    # each other; otherwise threads would only cost time.
    is_dense = all(each.is_dense for place in places for each in cluster.parts[place[:2]].segments)
    at_once = 1 if is_dense else cluster.store.requests_at_once
    parts = concurrently_in_plan(lambda place: planned_part(*place), places, at_once)
    return ReadPlan(cluster.name, cluster.topics, ends, tuple(parts), *start, cut.notices)


def _snapshot_part(start: PlanStart, topic: str, partition: int) -> tuple[int, list[FileRows]]:
    """Offset from which segments are read, and the snapshot's rows before it."""
    snapshot, folded = start
    ends = snapshot.ends.get(topic, ()) if snapshot else ()
    end = ends[partition] if partition < len(ends) else 0
    if topic in folded:
        return end, []
    for rows in snapshot.topics if snapshot else ():
        if rows.topic == topic and end:
            return end, list(_snapshot_pieces(rows.stored, rows.partitions, partition))
    return 0, []


def _snapshot_pieces(
    stored: StoredFile, partitions: Sequence[SnapshotRows], partition: int
) -> Iterator[FileRows]:
    begin = 0
    for partition_rows in partitions:
        if partition_rows.partition == partition and partition_rows.rows:
            yield FileRows(
                stored, begin, begin + partition_rows.rows, "snapshot", bool(partition_rows.aborted)
            )
        begin += partition_rows.rows


def _pieces(
    cluster: ArchivedCluster, part: ArchivedPartition, begin: int, end: int, *, derived: bool
) -> Iterator[FileRows]:
    """Segments of a partition between two offsets, cut to them."""
    for segment in part.segments:
        if segment.end <= begin or segment.start >= end:
            continue
        aborted = bool(segment.aborted)
        whole = begin <= segment.start and segment.end <= end
        if whole and derived and segment.winners is not None:
            yield FileRows(segment.winners, 0, segment.winners.records, "winners", aborted)
        else:
            low, high = _cut(cluster, segment, begin, end)
            if low < high:
                yield FileRows(segment.stored, low, high, "segment", aborted)


def _cut(cluster: ArchivedCluster, segment: Segment, begin: int, end: int) -> tuple[int, int]:
    """Rows of a segment between two offsets; a file is opened only if the cut may lie in a hole."""
    low, high = max(begin - segment.start, 0), min(end, segment.end) - segment.start
    if segment.is_dense:
        return low, high
    if not low and segment.end <= end:
        return 0, segment.stored.records
    file = opened(cluster.store, segment.stored)
    return row_of_offset(file, begin), row_of_offset(file, end)
