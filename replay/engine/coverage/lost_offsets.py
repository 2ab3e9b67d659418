"""Gaps that may affect the state at a moment."""

from controlplane.core.moments import is_vector, read_position
from controlplane.logs.end_vectors import FittedEnds
from replay.archive.archived_cluster import ArchivedCluster, PartitionId
from replay.engine.coverage.offset_counts import OffsetCounts
from replay.gaps import OffsetGap


def gaps_before(
    cluster: ArchivedCluster, cut: FittedEnds, moment: str | None
) -> tuple[OffsetGap, ...]:
    """Gaps that lie, or may lie, before a moment; `cut` is the cut at that moment.

    Raises:
        ArchiveCorrupt: a segment that misses offsets cannot be read.
    """
    gaps: list[OffsetGap] = []
    counts = OffsetCounts(cluster)
    for topic, ends in cut.ends.items():
        for partition, end in enumerate(ends):
            lost = cluster.parts[topic, partition].gaps
            if lost:
                behind = behind_cut(counts, moment, (topic, partition), end)
                gaps += [OffsetGap(topic, partition, gap) for gap in lost if gap.start < behind]
    return tuple(gaps)


def behind_cut(counts: OffsetCounts, moment: str | None, place: PartitionId, end: int) -> int:
    """First offset that is known to lie after a moment, in a partition that is cut at `end`.

    A vector of end offsets states exactly which records lie before it. A position (`config@57`)
    does so in its own partition. In other partitions missing offsets right after the cut may belong
    before it: their times are unknown.

    Raises:
        ArchiveCorrupt: a segment that misses offsets cannot be read.
    """
    if _says_offsets(counts.cluster, moment, place):
        return end
    return max(end, counts.begin_from(place, end))


def _says_offsets(cluster: ArchivedCluster, moment: str | None, place: PartitionId) -> bool:
    """True if the moment itself gives the end offset of the partition."""
    if moment is None or is_vector(moment):
        return True
    return "@" in moment and read_position(moment, cluster.topics)[:2] == place
