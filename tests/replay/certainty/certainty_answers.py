"""All answers of an archive about certain and uncertain states."""

from collections.abc import Iterable
from typing import Any

from replay.archive.archived_cluster import ArchivedCluster, PartitionId
from replay.doubts import Doubt, DoubtKind
from replay.engine.coverage.archive_coverage import coverage
from replay.engine.coverage.certainty import ArchiveCertainty


def cuts_of(cluster: ArchivedCluster) -> Iterable[tuple[PartitionId, int]]:
    """Yield every offset of every partition, up to one behind the end."""
    for place, part in sorted(cluster.parts.items()):
        yield from ((place, offset) for offset in range(part.end + 2))


def without_retention(doubts: Iterable[Doubt]) -> list[Doubt]:
    """Doubts without those that a retention has caused."""
    return [doubt for doubt in doubts if doubt.kind is not DoubtKind.RETENTION]


def certainty_from_records(cluster: ArchivedCluster) -> list[Any]:
    """Doubts at every offset, summaries of partitions, and counts of missing offsets.

    Doubts from retention are left out.
    """
    certainty = ArchiveCertainty(cluster)
    answers: list[Any] = [
        without_retention(certainty.of_partition(*cut)) for cut in cuts_of(cluster)
    ]
    for place in sorted(cluster.parts):
        summary = certainty.summary(place)
        answers.append(
            (without_retention(summary.unknown), summary.doubtful_from, summary.derived_from)
        )
    kept = ("looks", "missing", "lost", "holes", "listed")
    answers += [[getattr(part, name) for name in kept] for part in coverage(cluster)]
    return answers


def certainty_of(cluster: ArchivedCluster) -> list[Any]:
    """All answers about certainty, at every offset."""
    certainty = ArchiveCertainty(cluster)
    answers = certainty_from_records(cluster)
    answers += [
        certainty.fact_may_be_older(*cut, derived=derived)
        for cut in cuts_of(cluster)
        for derived in (True, False)
    ]
    return [*answers, *coverage(cluster)]
