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
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from controlplane.core.entry import Position
from controlplane.core.order import Ends
from replay.archive.archived_cluster import ArchivedCluster, ArchivedPartition, PartitionId
from replay.archive.looks import Looks, PartitionLook, looks_of
from replay.doubts import Doubt, DoubtKind, RetentionTimes
from replay.engine.lost_offsets import behind_cut
from replay.engine.offset_counts import OffsetCounts


class PartitionDoubts(NamedTuple):
    """Doubts about a whole partition."""

    spans: tuple[Doubt, ...] = ()
    """Spans in which the last records are unknown, the oldest first."""
    removed: Doubt | None = None
    """Span from which retention has removed records."""
    doubtful_from: int | None = None
    """First missing offset that leaves older keys in doubt until they have a later record."""
    derived_from: int | None = None
    """First missing offset that leaves facts in doubt that need earlier records."""

    @property
    def known_from(self) -> int | None:
        """Offset from which on the last record of every key is known; None if from none on."""
        if self.doubtful_from is not None:
            return None
        removed_until = self.removed.until if self.removed and self.removed.until else 0
        until = self.spans[-1].until if self.spans else 0
        return None if until is None else max(until, removed_until)

    @property
    def unknown(self) -> tuple[Doubt, ...]:
        """All spans in which the last records are unknown; what retention removed comes first."""
        return self.spans if self.removed is None else (self.removed, *self.spans)


class ArchiveCertainty:
    """Answers which parts of an archived cluster are known at which offsets."""

    def __init__(self, cluster: ArchivedCluster) -> None:
        self.cluster = cluster
        self.counts = OffsetCounts(cluster)
        self.looks: Mapping[PartitionId, Looks] = {
            place: (looks[0]._replace(start=0), *looks[1:])  # what came before is missing as well
            for place, looks in looks_of(cluster.chain).items()
        }
        self._summaries: dict[PartitionId, PartitionDoubts] = {}
        self._dense = {place for place, part in cluster.parts.items() if part.end == part.records}
        """Partitions without any missing offset: the usual case."""

    @property
    def is_complete(self) -> bool:
        """True if no offset of any partition is missing."""
        return len(self._dense) == len(self.cluster.parts)

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
        return self.of_partition(place, behind_cut(self.counts, moment, place, end))

    def of_partition(self, place: PartitionId, cut: int) -> Iterator[Doubt]:
        """Doubts about one partition before an offset."""
        looks = self._until(place, cut)
        if place in self._dense or not looks:
            return
        removed = self.removed(place)
        if removed is not None and removed.after + 1 < cut < (removed.until or 0):
            yield removed
        yield from self._state(place, looks, cut)
        yield from self._deletions(place, looks, cut)
        if place[0] in self._needs_all:
            yield from self._derived(place, cut)

    def past(self, ends: Ends, moment: str | None) -> tuple[Doubt, ...]:
        """Doubts about anything before a cut: unknown spans, then doubts at the cut.

        Raises:
            ArchiveCorrupt: a file with missing offsets is missing or damaged.
        """
        spans = (
            span
            for topic, topic_ends in ends.items()
            for partition, end in enumerate(topic_ends)
            for span in self.summary((topic, partition)).unknown
            if span.after + 1 < end
        )
        return tuple(dict.fromkeys((*spans, *self.doubts(ends, moment))))

    def is_first_seen(self, place: PartitionId, offset: int, *, derived: bool) -> bool:
        """True if a fact that begins with this record may have held before it.

        `derived`: the fact depends on other records than the last one of its key.
        """
        if place in self._dense:
            return False
        summary = self.summary(place)
        limit = summary.derived_from if derived else summary.doubtful_from
        is_doubtful = limit is not None and limit < offset
        return is_doubtful or self._is_behind_missing(place, offset, derived=derived)

    def _is_behind_missing(self, place: PartitionId, offset: int, *, derived: bool) -> bool:
        """True if records just before this one are missing."""
        summary = self.summary(place)
        at = bisect_left(summary.spans, offset, key=lambda span: span.after + 1)
        span = summary.spans[at - 1] if at else None
        # Retention removes no record of a connector's config.
        is_whole = place[0] == self.cluster.topics.config and not derived
        return any(
            each is not None and each.after < offset and (each.until is None or offset < each.until)
            for each in (span, None if is_whole else summary.removed)
        )

    def may_be_older(self, position: Position) -> bool:
        """True if what begins with this record may be older: `FirstSeen`.

        With a config a connector begins. With an offset the known pace of a source begins.
        """
        topic, partition, offset = position
        place = topic, partition
        if topic == self.cluster.topics.config:
            return self.is_first_seen(place, offset, derived=False)
        return self._is_behind_missing(place, offset, derived=False)

    def summary(self, place: PartitionId) -> "PartitionDoubts":
        """Doubts about a whole partition; computed once."""
        if place not in self._summaries:
            self._summaries[place] = self._summary(place)
        return self._summaries[place]

    def _summary(self, place: PartitionId) -> "PartitionDoubts":
        if place in self._dense:
            return PartitionDoubts()
        part, counts = self._part(place), self.counts
        late = ((start, look.end) for look in self.looks[place] for start in look.late)
        missed = [counts.first_missing(place, *two) for two in late if counts.missing(place, *two)]
        doubtful = [*missed, *(gap.start for gap in part.gaps)]
        derived = doubtful + [doubt.after + 1 for doubt in self._derived(place, part.end)]
        return PartitionDoubts(
            tuple(self.unknown_spans(place)),
            self.removed(place),
            min(doubtful, default=None),
            min(derived, default=None),
        )

    def removed(self, place: PartitionId) -> Doubt | None:
        """Span from which retention has removed records; None if it has removed none."""
        records = self._part(place).removed
        if records is None:
            return None
        retention = RetentionTimes(records.removed_at_ms, records.cut_ms)
        span = (records.start - 1, records.end, records.records)
        return Doubt(*place, DoubtKind.RETENTION, *span, retention)

    def unknown_spans(self, place: PartitionId) -> Iterator[Doubt]:
        """Spans of a partition in which the last records are unknown, the oldest first."""
        for look in self.looks[place] if place not in self._dense else ():
            yield from self._state_in(place, look)

    def _until(self, place: PartitionId, cut: int) -> Looks:
        """Looks that begin before an offset; looks without offsets are left out."""
        return [look for look in self.looks[place] if look.start < min(cut, look.end)]

    @property
    def _needs_all(self) -> tuple[str, ...]:
        """Topics in which earlier records may count as well."""
        topics = self.cluster.topics
        return topics.config, topics.status, topics.commands

    def _state(self, place: PartitionId, looks: Looks, cut: int) -> Iterator[Doubt]:
        look = looks[-1]
        end = min(cut, look.end)
        is_at_end = look.is_whole and not self.counts.archived(place, end, look.end)
        if not is_at_end and self.counts.missing(place, look.start, end):
            yield from self._state_in(place, look)

    def _state_in(self, place: PartitionId, look: PartitionLook) -> Iterator[Doubt]:
        """Unknown span of a look; there is none if it misses nothing before its last record."""
        until = self._archived_end(place, look.end) if look.is_whole else look.end
        missing = self.counts.missing(place, look.start, until)
        if missing:
            after = self.counts.first_missing(place, look.start, until) - 1
            known_from = until if look.is_whole else None
            yield Doubt(*place, DoubtKind.STATE, after, known_from, missing)

    def _deletions(self, place: PartitionId, looks: Looks, cut: int) -> Iterator[Doubt]:
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

        Offsets that are missing right before the end of a look are markers. Before any other cut
        they leave the state in doubt anyway.
        """
        return self.counts.end_before(place, cut)

    def _lost(self, place: PartitionId, begin: int, end: int) -> int:
        """Number of offsets in gaps between two offsets; they are reported as gaps."""
        gaps = self._part(place).gaps
        return sum(max(0, min(gap.stop, end) - max(gap.start, begin)) for gap in gaps)

    def _part(self, place: PartitionId) -> ArchivedPartition:
        return self.cluster.parts[place]
