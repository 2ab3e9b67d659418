"""Which rows of which files tell a state: as few as will do.

A plan is a value. Whoever carries it out – this process, or Spark's workers – needs the store and
nothing else; its parts know nothing of each other.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from controlplane.core.state import Topics
from controlplane.logs.cuts import Cut
from replay.archive.cluster import Cluster, Part
from replay.archive.manifest import Rows, Segment, Snapshot, Stored
from replay.archive.segments import opened
from replay.archive.winners import reducible
from replay.engine.places import row_of_offset
from replay.gaps import Gap

Ends = Mapping[str, Sequence[int]]


class Piece(msgspec.Struct, frozen=True):
    """Rows of one file."""

    stored: Stored
    begin: int
    end: int
    kind: str
    """`segment`, `winners` or `snapshot`."""
    aborted: bool
    """Whether there may be records of aborted transactions among them."""


class PartPlan(msgspec.Struct, frozen=True):
    """What is to be read of one partition, in the order of offsets."""

    topic: str
    partition: int
    pieces: tuple[Piece, ...]

    @property
    def rows(self) -> int:
        """How many rows are looked at."""
        return sum(piece.end - piece.begin for piece in self.pieces)

    @property
    def aborted(self) -> bool:
        """Whether there may be records of aborted transactions among them."""
        return any(piece.aborted for piece in self.pieces)


class Plan(msgspec.Struct, frozen=True):
    """What is to be read for the state of one cluster at one cut."""

    cluster: str
    topics: Topics
    ends: dict[str, list[int]]
    """The cut: by topic and partition the offset of the first record that is not in."""
    parts: tuple[PartPlan, ...]
    snapshot: Snapshot | None = None
    """The one that was begun with."""
    folded: tuple[str, ...] = ()
    """Topics of which the snapshot's folded state is taken, and only the rest is read."""
    notices: tuple[str, ...] = ()
    gaps: tuple[Gap, ...] = ()
    """What had been removed before it was archived, and may have been in."""

    @property
    def stored(self) -> list[Stored]:
        """All files of which rows are read, each once."""
        every = (piece.stored for part in self.parts for piece in part.pieces)
        return list({one.file: one for one in every}.values())

    @property
    def busy(self) -> list[PartPlan]:
        """The parts of which anything is read."""
        return [part for part in self.parts if part.rows]

    def only(self, topics: Sequence[str]) -> "Plan":
        """The same for some topics."""
        return replace(self, parts=tuple(part for one in topics for part in self.parts_of(one)))

    def parts_of(self, topic: str) -> list[PartPlan]:
        """What is to be read of a topic."""
        return [part for part in self.parts if part.topic == topic]


def nearest(cluster: Cluster, ends: Ends) -> Snapshot | None:
    """The latest snapshot that has nothing of these topics in it which is not before a cut."""
    for snapshot in reversed(list(cluster.snapshots)):
        if all(_within(snapshot.ends.get(topic, ()), some) for topic, some in ends.items()):
            return snapshot
    return None


def _within(at: Sequence[int], ends: Sequence[int]) -> bool:
    """Topics get more partitions, never fewer."""
    return all(one <= end for one, end in zip(at, ends, strict=False))


class Begun(NamedTuple):
    """What reading begins with."""

    snapshot: Snapshot | None = None
    folded: tuple[str, ...] = ()
    """Topics of which its folded state is taken."""


FROM_THE_START = Begun()


def planned(
    cluster: Cluster, cut: Cut, begun: Begun = FROM_THE_START, *, derived: bool = True
) -> Plan:
    """The plan for a cut; `derived` allows to read winners in place of whole segments.

    Raises:
        ArchiveCorrupt: a file in which the cut lies is missing or damaged.
    """
    parts = []
    for topic, offsets in cut.ends.items():
        use = derived and reducible(topic, cluster.topics)
        for partition, end in enumerate(offsets):
            begin, pieces = _begun(begun, topic, partition)
            part = cluster.parts[topic, partition]
            pieces += _pieces(cluster, part, begin, end, derived=use)
            parts.append(PartPlan(topic, partition, tuple(pieces)))
    ends = {topic: list(offsets) for topic, offsets in cut.ends.items()}
    return Plan(cluster.name, cluster.topics, ends, tuple(parts), *begun, cut.notices)


def _begun(begun: Begun, topic: str, partition: int) -> tuple[int, list[Piece]]:
    """From which offset on segments are read, and what a snapshot has of what lies before."""
    snapshot, folded = begun
    ends = snapshot.ends.get(topic, ()) if snapshot else ()
    end = ends[partition] if partition < len(ends) else 0
    if topic in folded:
        return end, []
    for rows in snapshot.topics if snapshot else ():
        if rows.topic == topic and end:
            return end, list(_snapshot_pieces(rows.stored, rows.partitions, partition))
    return 0, []


def _snapshot_pieces(stored: Stored, partitions: Sequence[Rows], wanted: int) -> Iterator[Piece]:
    begin = 0
    for one in partitions:
        if one.partition == wanted and one.rows:
            yield Piece(stored, begin, begin + one.rows, "snapshot", bool(one.aborted))
        begin += one.rows


def _pieces(
    cluster: Cluster, part: Part, begin: int, end: int, *, derived: bool
) -> Iterator[Piece]:
    """The segments of a partition between two offsets, cut to them."""
    for segment in part.segments:
        if segment.end <= begin or segment.start >= end:
            continue
        aborted = bool(segment.aborted)
        whole = begin <= segment.start and segment.end <= end
        if whole and derived and segment.winners is not None:
            yield Piece(segment.winners, 0, segment.winners.records, "winners", aborted)
        else:
            low, high = _cut(cluster, segment, begin, end)
            if low < high:
                yield Piece(segment.stored, low, high, "segment", aborted)


def _cut(cluster: Cluster, segment: Segment, begin: int, end: int) -> tuple[int, int]:
    """Which rows of a segment lie between two offsets; only where it is cut is the file opened."""
    if begin <= segment.start and segment.end <= end:
        return 0, segment.stored.records
    file = opened(cluster.store, segment.stored)
    return row_of_offset(file, begin), row_of_offset(file, end)
