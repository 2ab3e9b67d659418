"""What nobody can tell of a moment: records that had been removed before they were archived."""

from bisect import bisect_left

from controlplane.core.moments import is_vector, read_position
from controlplane.logs.cuts import Cut
from replay.archive.cluster import Cluster, Part, Place
from replay.gaps import Gap


def gaps_before(cluster: Cluster, cut: Cut, moment: str | None) -> tuple[Gap, ...]:
    """The gaps that lie before a moment, or may: the cut is that of the moment.

    A vector says what lies before it, and so does a record of its own partition. Elsewhere, what is
    missing right behind the cut may have been before the moment: nobody knows the times of it.
    """
    found = []
    for topic, ends in cut.ends.items():
        for partition, end in enumerate(ends):
            part = cluster.parts[topic, partition]
            known = _says_offsets(cluster, moment, (topic, partition))
            behind = end if known else _next(part, end)
            found += [Gap(topic, partition, one) for one in part.gaps if one.start < behind]
    return tuple(found)


def _says_offsets(cluster: Cluster, moment: str | None, place: Place) -> bool:
    """Whether a moment says by itself which offsets of a partition are before it."""
    if moment is None or is_vector(moment):
        return True
    return "@" in moment and read_position(moment, cluster.topics)[:2] == place


def _next(part: Part, end: int) -> int:
    """Of a partition that is cut here, the first offset that is known to be behind the cut."""
    at = bisect_left(part.segments, end + 1, key=lambda one: one.end)
    return max(end, part.segments[at].start) if at < len(part.segments) else part.end
