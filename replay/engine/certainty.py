"""Doubts: what an archive does not know at a moment, because offsets are missing in it.

The reference is a worker that started with the first look and has read every record since. The log
cleaner removes a record only if a later record has the same key, or if it is an old tombstone. It
follows, partition by partition (docs/replay.md has the argument):

- At the end of a look the last record of each key is known. Between the first missing offset of
  the look and its end, the last records are unknown.
- A look that comes late may have missed a tombstone: older keys may be deleted.
- Configs and statuses depend on earlier records, too: tasks, for instance, on all records since a
  commit. An offset that is missing after the first look leaves that part unknown.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from controlplane.core.order import Ends
from controlplane.core.text.safe_text import count
from replay.archive.archived_cluster import ArchivedCluster, ArchivedPartition, PartitionId
from replay.archive.looks import PROMPT_MS, Look, looks_of
from replay.engine.lost_offsets import behind_cut
from replay.engine.offset_counts import OffsetCounts


class DoubtKind(Enum):
    """Kinds of doubts, the gravest first."""

    STATE = "state unknown"
    """The last record of a key may be missing."""
    DELETIONS = "deletions unknown"
    """A key without a later record may have been deleted."""
    DERIVED = "earlier records unknown"
    """The last record of each key is known, but facts that need earlier records are not."""


class Doubt(NamedTuple):
    """Doubt about one partition at a moment."""

    topic: str
    partition: int
    kind: DoubtKind
    after: int
    """Last offset before the missing ones; -1 if nothing before is known."""
    until: int | None
    """First offset from which it is known again; None if that never comes."""
    missing: int
    """Number of missing offsets."""

    @property
    def sentence(self) -> str:
        """The doubt for people."""
        return f"{self.topic} partition {self.partition}: {_SENTENCES[self.kind](self)}"

    @property
    def document(self) -> dict[str, Any]:
        """The doubt as a JSON document."""
        return self._asdict() | {"kind": self.kind.value, "sentence": self.sentence}


def _state_unknown(doubt: Doubt) -> str:
    begin = "the beginning" if doubt.after < 0 else f"offset {doubt.after}"
    end = "the end" if doubt.until is None else f"offset {doubt.until - 1}"
    return f"the state between {begin} and {end} is unknown: {_missing(doubt)}"


def _deletions_unknown(doubt: Doubt) -> str:
    hours = PROMPT_MS // 3_600_000
    return (
        f"a key last seen up to offset {doubt.after} may have been deleted: {_missing(doubt)}, "
        f"and the captures before and after lie {hours} hours or more apart"
    )


def _earlier_unknown(doubt: Doubt) -> str:
    return (
        f"from offset {doubt.after} on the last record of each key is known, but tasks and "
        f"statuses may depend on others: {_missing(doubt)}"
    )


def _missing(doubt: Doubt) -> str:
    offsets = count(doubt.missing, "offset")
    verb = "is" if doubt.missing == 1 else "are"
    return f"{offsets} {verb} not archived (compacted, or markers of transactions)"


_SENTENCES = {
    DoubtKind.STATE: _state_unknown,
    DoubtKind.DELETIONS: _deletions_unknown,
    DoubtKind.DERIVED: _earlier_unknown,
}


class ArchiveCertainty:
    """Answers which parts of an archived cluster are known at which offsets."""

    def __init__(self, cluster: ArchivedCluster) -> None:
        self.cluster = cluster
        self.counts = OffsetCounts(cluster)
        self.looks: Mapping[PartitionId, Sequence[Look]] = {
            place: (looks[0]._replace(start=0), *looks[1:])  # what came before is missing as well
            for place, looks in looks_of(cluster.chain).items()
        }
        self._dense = {
            place
            for place, part in cluster.parts.items()
            if part.end == sum(segment.stored.records for segment in part.segments)
        }
        """Partitions without any missing offset: the usual case."""

    def doubts(self, ends: Ends, moment: str | None) -> tuple[Doubt, ...]:
        """Doubts about the state at a cut, which belongs to a moment (`moment_cut.cut_at`).

        Raises:
            ArchiveCorrupt: a file with missing offsets is missing or damaged.
        """
        return tuple(
            doubt
            for topic, topic_ends in ends.items()
            for partition, end in enumerate(topic_ends)
            for doubt in self._at((topic, partition), end, moment)
        )

    def _at(self, place: PartitionId, end: int, moment: str | None) -> Iterator[Doubt]:
        if place in self._dense:
            return iter(())
        return self.of_partition(place, behind_cut(self.cluster, moment, place, end))

    def of_partition(self, place: PartitionId, cut: int) -> Iterator[Doubt]:
        """Doubts about one partition before an offset."""
        looks = self._until(place, cut)
        if place in self._dense or not looks:
            return
        yield from self._state(place, looks, cut)
        yield from self._deletions(place, looks, cut)
        if place[0] in self._needs_all:
            yield from self._derived(place, cut)

    def is_first_seen(self, place: PartitionId, offset: int, *, derived: bool) -> bool:
        """True if a fact that begins with this record may have held before it.

        `derived`: the fact depends on other records than the last one of its key.
        """
        if place in self._dense:
            return False
        kinds = {doubt.kind for doubt in self.of_partition(place, offset)}
        lost = any(gap.start < offset for gap in self._part(place).gaps)
        return lost or bool(kinds if derived else kinds - {DoubtKind.DERIVED})

    def unknown_spans(self, place: PartitionId) -> Iterator[Doubt]:
        """Spans of a partition in which the last records are unknown, the oldest first."""
        for look in self.looks[place] if place not in self._dense else ():
            yield from self._state_in(place, look)

    def _until(self, place: PartitionId, cut: int) -> Sequence[Look]:
        """Looks that begin before an offset; looks without offsets are left out."""
        return [look for look in self.looks[place] if look.start < min(cut, look.end)]

    @property
    def _needs_all(self) -> tuple[str, ...]:
        """Topics in which earlier records may count as well."""
        topics = self.cluster.topics
        return topics.config, topics.status, topics.commands

    def _state(self, place: PartitionId, looks: Sequence[Look], cut: int) -> Iterator[Doubt]:
        look = looks[-1]
        end = min(cut, look.end)
        is_at_end = look.is_whole and not self.counts.archived(place, end, look.end)
        if not is_at_end and self.counts.missing(place, look.start, end):
            yield from self._state_in(place, look)

    def _state_in(self, place: PartitionId, look: Look) -> Iterator[Doubt]:
        """Unknown span of a look; there is none if it misses nothing before its last record."""
        until = self._archived_end(place, look.end) if look.is_whole else look.end
        missing = self.counts.missing(place, look.start, until)
        if missing:
            after = self.counts.first_missing(place, look.start, until) - 1
            known = until if look.is_whole else None
            yield Doubt(*place, DoubtKind.STATE, after, known, missing)

    def _deletions(self, place: PartitionId, looks: Sequence[Look], cut: int) -> Iterator[Doubt]:
        """The latest reading that may have missed a tombstone stands for all before it."""
        for look in reversed(looks):
            for start in reversed(look.late):
                missing = self.counts.missing(place, start, min(cut, look.end))
                if missing > 0:
                    yield Doubt(*place, DoubtKind.DELETIONS, start - 1, None, missing)
                    return

    def _derived(self, place: PartitionId, cut: int) -> Iterator[Doubt]:
        begin, until = self.looks[place][0].end, self._archived_end(place, cut)
        missing = self.counts.missing(place, begin, until) - self._lost(place, begin, until)
        if missing > 0:
            after = self.counts.first_missing(place, begin, until) - 1
            yield Doubt(*place, DoubtKind.DERIVED, after, None, missing)

    def _archived_end(self, place: PartitionId, cut: int) -> int:
        """Offset after the last archived record before an offset; markers at the end do not count.

        Inside a segment it may be too great by the offsets that are missing right before the cut.
        """
        segments = self._part(place).segments
        behind = bisect_left(segments, cut, key=lambda segment: segment.start)
        return min(segments[behind - 1].end, cut) if behind else 0

    def _lost(self, place: PartitionId, begin: int, end: int) -> int:
        """Number of offsets in gaps between two offsets; they are reported as gaps."""
        gaps = self._part(place).gaps
        return sum(max(0, min(gap.stop, end) - max(gap.start, begin)) for gap in gaps)

    def _part(self, place: PartitionId) -> ArchivedPartition:
        return self.cluster.parts[place]
