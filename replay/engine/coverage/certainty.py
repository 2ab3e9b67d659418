"""Doubts: what an archive does not know at a moment, because offsets are missing in it.

A *look* reads a partition up to the end that its log has then. A look consists of *readings*, one
for each append that the capture made on the way (`readings.reading_columns`).

The reference is a worker that started with the first look and has read every record since. The log
cleaner removes only old tombstones, and records whose key has a later record. For each partition
this implies (docs/replay.md has the argument):

- At the end of a look the last record of each key is known. Between the first missing offset of
  the look and its end, the last records are unknown.
- A reading that comes late may have missed a tombstone: a key without a record since then may be
  deleted.
- Configs and statuses depend on earlier records, too: tasks, for instance, on all records since a
  commit. If an offset is missing after the first look, these facts are unknown.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from threading import Lock
from typing import NamedTuple, TypeVar

import numpy as np

from controlplane.core.entry import Position
from controlplane.core.order import Ends
from replay.archive.archived_cluster import ArchivedCluster, ArchivedPartition, PartitionId
from replay.archive.readings.archived_readings import ArchivedReadings
from replay.archive.readings.reading_columns import Flags, PartitionLooks
from replay.archive.stores.concurrent_requests import concurrently_in_plan
from replay.doubts import Doubt, DoubtKind, RetentionTimes
from replay.engine.coverage.hole_index import HoleIndex, Int64s, MissingOffsets
from replay.engine.coverage.lost_offsets import behind_cut
from replay.engine.coverage.offset_counts import OffsetCounts

T = TypeVar("T")
R = TypeVar("R")


class UnknownSpans(NamedTuple):
    """Spans of a partition in which the last records are unknown, in columns, the oldest first."""

    after: Int64s
    """Last offset before the missing ones."""
    until: Int64s
    """First offset from which every last record is known again; valid only where `ends` is true."""
    missing: Int64s
    """Number of missing offsets."""
    ends: Flags
    """True if the span has ended: its look reached the end of the log."""

    @classmethod
    def of(cls, looks: PartitionLooks, missing: MissingOffsets) -> "UnknownSpans":
        """One span for each look that misses an offset before its last record."""
        # Missing offsets right before the end of a whole look are markers, so the span ends at the
        # last record. In an unfinished look every missing offset counts.
        until = np.where(looks.whole, missing.end_before(looks.ends), looks.ends)
        # For a look without any record, `end_before` may return an offset before its start.
        until = np.maximum(until, looks.starts)
        counts = missing.before(until) - missing.before(looks.starts)
        rows = np.flatnonzero(counts)
        after = missing.first_from(looks.starts[rows]) - 1
        return cls(after, until[rows], counts[rows], looks.whole[rows])

    def doubts(self, place: PartitionId) -> Iterator[Doubt]:
        """Yield the spans as doubts about a partition."""
        for after, until, missing, ends in zip(*(each.tolist() for each in self), strict=True):
            yield Doubt(*place, DoubtKind.STATE, after, until if ends else None, missing)

    def has(self, offset: int) -> bool:
        """True if an offset lies in a span."""
        # Spans do not overlap: only the last one that begins before the offset can hold it.
        at = int(np.searchsorted(self.after, offset - 1)) - 1
        return at >= 0 and (not self.ends[at] or offset < self.until[at])


class PartitionDoubts(NamedTuple):
    """Doubts about one partition at any offset, computed from all its looks."""

    place: PartitionId
    spans: UnknownSpans | None = None
    """Spans in which the last records are unknown; None: no offset is missing."""
    removed: Doubt | None = None
    """Span from which retention has removed records."""
    doubtful_from: int | None = None
    """First missing offset that leaves older keys in doubt until they have a later record."""
    derived_from: int | None = None
    """First missing offset that leaves in doubt all facts that depend on earlier records."""

    @property
    def known_from(self) -> int | None:
        """Smallest offset N: each state that ends at N or later has the last record of each key.

        None: there is no such offset.
        """
        # A key without a later record stays in doubt at every later offset.
        if self.doubtful_from is not None:
            return None
        removed_until = self.removed.until if self.removed and self.removed.until else 0
        if self.spans is None or not len(self.spans.until):
            return removed_until
        # Only the last look may lack its end; then nothing after its first hole is certain.
        return max(int(self.spans.until[-1]), removed_until) if self.spans.ends[-1] else None

    @property
    def unknown(self) -> tuple[Doubt, ...]:
        """All spans in which the last records are unknown; what retention removed comes first."""
        spans = () if self.spans is None else self.spans.doubts(self.place)
        return (*spans,) if self.removed is None else (self.removed, *spans)


class ArchiveCertainty:
    """Answers which parts of an archived cluster are known at which offsets."""

    def __init__(self, cluster: ArchivedCluster) -> None:
        self.cluster = cluster
        self.counts = OffsetCounts(cluster)
        self.holes = HoleIndex(cluster)
        self._last: tuple[PartitionId, PartitionLooks] | None = None
        """Partition of the last question, and its looks."""
        self._lock = Lock()
        """Threads answer for several partitions at once; they read the file of readings in turn."""
        self._summaries: dict[PartitionId, PartitionDoubts] = {}
        self._dense = {place for place, part in cluster.parts.items() if part.end == part.records}
        """Partitions without any missing offset: the usual case."""

    @cached_property
    def _readings(self) -> ArchivedReadings:
        return ArchivedReadings(self.cluster.store, self.cluster.chain)

    @property
    def is_complete(self) -> bool:
        """True if no offset of any partition is missing."""
        return len(self._dense) == len(self.cluster.parts)

    def doubts(self, ends: Ends, moment: str | None) -> tuple[Doubt, ...]:
        """Doubts about the state at a cut, which belongs to a moment (`moment_cut.cut_at`).

        Raises:
            ArchiveCorrupt: a segment that misses offsets cannot be read.
        """
        cuts = [(place, end) for place, end in _cuts(ends) if place not in self._dense]
        each = self._concurrently(lambda cut: [*self._at(*cut, moment)], cuts)
        return tuple(chain.from_iterable(each))

    def _concurrently(self, request: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
        """Make requests about partitions, which may read segments."""
        return concurrently_in_plan(request, items, self.cluster.store.requests_at_once)

    def _at(self, place: PartitionId, end: int, moment: str | None) -> Iterator[Doubt]:
        return self.of_partition(place, behind_cut(self.counts, moment, place, end))

    def of_partition(self, place: PartitionId, cut: int) -> Iterator[Doubt]:
        """Doubts about one partition before an offset."""
        if place in self._dense:
            return
        looks = self.looks(place)
        # The last look that starts before the cut; without one, the cut has no record before it.
        at = int(np.searchsorted(looks.starts, cut)) - 1
        if at < 0:
            return
        removed = self.removed(place)
        # If `cut` is at or before the first removed offset, no removed record lies before it. If
        # `cut` is at or after `until`, the state depends on no removed record: the retention has
        # removed only records that states from there on do not need.
        if removed is not None and removed.after + 1 < cut < (removed.until or 0):
            yield removed
        yield from self._state(place, looks, at, cut)
        yield from self._deletions(place, looks, cut)
        if place[0] in self._needs_all:
            yield from self._derived(place, looks, cut)

    def past(self, ends: Ends, moment: str | None) -> tuple[Doubt, ...]:
        """Doubts about anything before a cut: unknown spans, then doubts at the cut.

        Raises:
            ArchiveCorrupt: a segment that misses offsets cannot be read.
        """
        cuts = [*_cuts(ends)]
        summaries = self._concurrently(self.summary, [place for place, _ in cuts])
        spans = (
            span
            for (_, end), summary in zip(cuts, summaries, strict=True)
            for span in summary.unknown
            if span.after + 1 < end
        )
        return tuple(dict.fromkeys((*spans, *self.doubts(ends, moment))))

    def fact_may_be_older(self, place: PartitionId, offset: int, *, derived: bool) -> bool:
        """True if a fact that begins with this record may have held before it.

        `derived`: the fact depends on other records than the last one of its key.
        """
        if place in self._dense:
            return False
        summary = self.summary(place)
        limit = summary.derived_from if derived else summary.doubtful_from
        is_doubtful = limit is not None and limit < offset
        return is_doubtful or self._follows_missing(place, offset, derived=derived)

    def _follows_missing(self, place: PartitionId, offset: int, *, derived: bool) -> bool:
        """True if records just before this one are missing."""
        summary = self.summary(place)
        if summary.spans is not None and summary.spans.has(offset):
            return True
        removed = summary.removed
        # Retention removes no record of a connector's config.
        if removed is None or (place[0] == self.cluster.topics.config and not derived):
            return False
        return removed.after < offset < (removed.until or 0)

    def may_be_older(self, position: Position) -> bool:
        """True if records directly before an archived record may be missing (`MayBeOlder`).

        In the config topic: True if the connector may have existed before this record. In an
        offsets topic: True if the source may have made progress since the previous archived offset.
        """
        topic, partition, offset = position
        place = topic, partition
        if topic == self.cluster.topics.config:
            return self.fact_may_be_older(place, offset, derived=False)
        return self._follows_missing(place, offset, derived=False)

    def summary(self, place: PartitionId) -> "PartitionDoubts":
        """Doubts about a whole partition; computed once."""
        if place not in self._summaries:
            self._summaries[place] = self._summary(place)
        return self._summaries[place]

    def _summary(self, place: PartitionId) -> "PartitionDoubts":
        if place in self._dense:
            return PartitionDoubts(place)
        part, looks, missing = self._part(place), self.looks(place), self.holes.missing(place)
        # A late reading may have missed a tombstone only if offsets are missing between its start
        # and the end of its look.
        is_missed = missing.before(looks.late_ends) > missing.before(looks.late)
        missed = missing.first_from(looks.late[is_missed]).tolist()
        # The records of a gap were lost before a capture read them. Each key may have had its last
        # record there.
        doubtful = [*missed, *(gap.start for gap in part.gaps)]
        derived = doubtful + [doubt.after + 1 for doubt in self._derived(place, looks, part.end)]
        return PartitionDoubts(
            place,
            UnknownSpans.of(looks, missing),
            self.removed(place),
            min(doubtful, default=None),
            min(derived, default=None),
        )

    def looks(self, place: PartitionId) -> PartitionLooks:
        """Return the looks at a partition.

        Only the looks at the last requested partition are cached: a partition may have very many.

        Raises:
            ArchiveCorrupt: a file with readings is missing or damaged.
        """
        with self._lock:
            if self._last is None or self._last[0] != place:
                self._last = place, self._readings.of(place).looks
            return self._last[1]

    def removed(self, place: PartitionId) -> Doubt | None:
        """Span from which retention has removed records; None if it has removed none."""
        records = self._part(place).removed
        if records is None:
            return None
        retention = RetentionTimes(records.removed_at_ms, records.cut_ms)
        span = (records.start - 1, records.end, records.records)
        return Doubt(*place, DoubtKind.RETENTION, *span, retention)

    @property
    def _needs_all(self) -> tuple[str, ...]:
        """Topics whose facts depend on more than the last record of each key."""
        topics = self.cluster.topics
        return topics.config, topics.status, topics.commands

    def _state(
        self, place: PartitionId, looks: PartitionLooks, at: int, cut: int
    ) -> Iterator[Doubt]:
        """Unknown span of a look, if the cut lies in it."""
        start, look_end, is_whole = int(looks.starts[at]), int(looks.ends[at]), looks.whole[at]
        end = min(cut, look_end)
        # A cut after the last record of a whole look is as certain as the end of that look.
        is_at_end = is_whole and not self.counts.archived(place, end, look_end)
        if is_at_end or not self.counts.missing(place, start, end):
            return
        # The state stays unknown until the end of the look. The key of a missing record may have
        # its next record only there.
        until = self._archived_end(place, look_end) if is_whole else look_end
        missing = self.counts.missing(place, start, until)
        if missing:
            after = self.counts.first_missing(place, start, until) - 1
            yield Doubt(*place, DoubtKind.STATE, after, until if is_whole else None, missing)

    def _deletions(self, place: PartitionId, looks: PartitionLooks, cut: int) -> Iterator[Doubt]:
        """Doubt of the latest reading that may have missed a tombstone; it covers earlier ones."""
        # Each key without a record since a late reading is in doubt, if the reading misses an
        # offset. Later readings leave more keys in doubt, so the latest such reading is enough.
        for at in range(int(np.searchsorted(looks.late, cut)) - 1, -1, -1):
            start = int(looks.late[at])
            missing = self.counts.missing(place, start, min(cut, int(looks.late_ends[at])))
            if missing > 0:
                yield Doubt(*place, DoubtKind.DELETIONS, start - 1, None, missing)
                return

    def _derived(self, place: PartitionId, looks: PartitionLooks, cut: int) -> Iterator[Doubt]:
        # Offsets that are missing in the first look do not count. A worker that started at the end
        # of that look did not find their records in the log either.
        begin, until = looks.first_end, self._archived_end(place, cut)
        # Offsets in gaps do not count either: gaps are reported as such.
        missing = self.counts.missing(place, begin, until) - self._lost(place, begin, until)
        if missing > 0:
            after = self.counts.first_missing(place, begin, until) - 1
            yield Doubt(*place, DoubtKind.DERIVED, after, None, missing)

    def _archived_end(self, place: PartitionId, cut: int) -> int:
        """End of the archived records before `cut`: the offset after the last of them.

        Missing offsets right before `cut` lie after this end, so the caller does not count them. At
        the end of a look they are markers of transactions. At any other cut, `_state` yields a
        doubt about them.
        """
        return self.counts.end_before(place, cut)

    def _lost(self, place: PartitionId, begin: int, end: int) -> int:
        """Number of offsets in gaps (`replay.gaps`), from `begin` to before `end`."""
        gaps = self._part(place).gaps
        return sum(max(0, min(gap.stop, end) - max(gap.start, begin)) for gap in gaps)

    def _part(self, place: PartitionId) -> ArchivedPartition:
        return self.cluster.parts[place]


def _cuts(ends: Ends) -> Iterator[tuple[PartitionId, int]]:
    """Partitions of a cut, each with its end offset."""
    for topic, topic_ends in ends.items():
        for partition, end in enumerate(topic_ends):
            yield (topic, partition), end
