"""Gaps that may affect the state at a moment."""

from bisect import bisect_left

from controlplane.core.moments import is_vector, read_position
from controlplane.logs.end_vectors import FittedEnds
from replay.archive.archived_cluster import ArchivedCluster, ArchivedPartition, PartitionId
from replay.gaps import OffsetGap


def gaps_before(
    cluster: ArchivedCluster, cut: FittedEnds, moment: str | None
) -> tuple[OffsetGap, ...]:
    """Gaps that lie, or may lie, before a moment; `cut` is the cut at that moment."""
    gaps = []
    for topic, ends in cut.ends.items():
        for partition, end in enumerate(ends):
            part = cluster.parts[topic, partition]
            behind = behind_cut(cluster, moment, (topic, partition), end)
            gaps += [OffsetGap(topic, partition, gap) for gap in part.gaps if gap.start < behind]
    return tuple(gaps)


def behind_cut(cluster: ArchivedCluster, moment: str | None, place: PartitionId, end: int) -> int:
    """First offset that is known to lie after a moment, in a partition that is cut at `end`.

    A vector says exactly what lies before it, and so does a record in its own partition. In other
    partitions missing offsets right after the cut may belong before it: their times are unknown.
    """
    return end if _says_offsets(cluster, moment, place) else _next(cluster.parts[place], end)


def _says_offsets(cluster: ArchivedCluster, moment: str | None, place: PartitionId) -> bool:
    """True if the moment itself gives the end offset of the partition."""
    if moment is None or is_vector(moment):
        return True
    return "@" in moment and read_position(moment, cluster.topics)[:2] == place


def _next(part: ArchivedPartition, end: int) -> int:
    """First offset that is known to lie after the cut of a partition."""
    at = bisect_left(part.segments, end + 1, key=lambda segment: segment.end)
    return max(end, part.segments[at].start) if at < len(part.segments) else part.end
