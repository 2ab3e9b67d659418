"""Doubts about intervals: facts that may be older than they seem, and unknown time within them."""

from typing import NamedTuple

from controlplane.core.entry import Position
from controlplane.core.order import Ends
from controlplane.core.state import Topics
from controlplane.core.text.record_text import place
from controlplane.core.views.diff import Aspect
from replay.archive.archived_cluster import ArchivedCluster
from replay.engine.coverage.certainty import ArchiveCertainty
from replay.engine.coverage.hole_index import MissingSpan
from replay.timeline.intervals import Interval

DERIVED = frozenset(
    {
        Aspect.TARGET_STATE,
        Aspect.TASKS,
        Aspect.TASK_CONFIG,
        Aspect.INCONSISTENT,
        Aspect.TASK_STATUS,
    }
)
"""Facts that depend on other records than the last one of their key."""


class IntervalDoubt(NamedTuple):
    """Doubt about one interval; no doubt if both fields have their defaults."""

    first_seen: bool = False
    """True if the fact may have held before."""
    missing: MissingSpan | None = None
    """Missing offsets within the interval, in which the fact may have changed and come back."""

    def sentence(self, interval: Interval, topics: Topics) -> str:
        """The doubt for people; empty if there is none."""
        words = ["first seen"] if self.first_seen else []
        if self.missing is not None:
            topic, partition, _ = interval.since.position
            ends = (self.missing.after, self.missing.until)
            between = " and ".join(place(Position(topic, partition, end), topics) for end in ends)
            words.append(f"unknown between {between}")
        return ", ".join(words)


class IntervalDoubts:
    """Doubts about the intervals of one cluster, up to a cut."""

    def __init__(self, cluster: ArchivedCluster, ends: Ends) -> None:
        self.cluster = cluster.name
        self._ends = ends
        self._certainty = ArchiveCertainty(cluster)

    def of(self, interval: Interval) -> IntervalDoubt:
        """Return the doubt about an interval.

        Raises:
            ArchiveCorrupt: a segment that misses offsets cannot be read.
        """
        if self._certainty.is_complete:
            return IntervalDoubt()
        topic, partition, since = interval.since.position
        where, until = (topic, partition), interval.until
        is_same = until is not None and until.position[:2] == where
        end = until.position.offset if until and is_same else self._ends[topic][partition]
        derived = interval.aspect in DERIVED
        first_seen = self._certainty.fact_may_be_older(where, since, derived=derived)
        return IntervalDoubt(first_seen, self._certainty.holes.between(where, since, end))
