"""Coverage of an archived cluster: what each partition has, what is missing, what is certain."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from replay.archive.archived_cluster import ArchivedCluster, PartitionId
from replay.doubts import Doubt
from replay.engine.coverage.certainty import ArchiveCertainty

HOLES_LISTED = 1_000
"""Holes listed per partition, the oldest first; `holes` counts all. A compacted topic has many."""


_NOT_LISTED = {"listed", "doubts"}
"""Fields that the document of a partition leaves out.

The document has `listed` as `ranges`; the document of the cluster has `doubts`.
"""


class PartitionCoverage(NamedTuple):
    """Archived and missing offsets of one partition."""

    topic: str
    partition: int
    records: int
    first_offset: int | None
    """Offset of the first record; None without records."""
    last_offset: int | None
    first_ms: int | None
    """Time of the first record that has one, in ms since 1970."""
    latest_ms: int | None
    """Greatest time of a record."""
    looks: int
    """Number of looks that have found new offsets.

    A look reads up to the end that the log has then (`readings.reading_columns`). The last look may
    be unfinished.
    """
    missing: int
    """Offsets before the end that were never archived: compacted, lost, or markers."""
    lost: int
    """Missing offsets that the log had removed between two looks (gaps)."""
    holes: int
    """Number of missing ranges."""
    listed: list[range]
    """The first missing ranges."""
    known_from: int | None
    """Smallest offset N: each state that ends at N or later has the last record of each key. None:
    there is no such offset."""
    unknown: tuple[Doubt, ...]
    """Spans in which the last records are unknown."""
    removed: int
    """Records that retention has removed."""
    doubts: tuple[Doubt, ...]
    """Doubts about the state at the end of the archive."""

    @property
    def document(self) -> dict[str, Any]:
        """The coverage as a JSON document."""
        return {
            **{name: value for name, value in self._asdict().items() if name not in _NOT_LISTED},
            "ranges": [{"start": hole.start, "end": hole.stop} for hole in self.listed],
            "unknown": [
                {"after": span.after, "until": span.until, "missing": span.missing}
                for span in self.unknown
            ],
        }


def coverage(cluster: ArchivedCluster) -> Iterator[PartitionCoverage]:
    """Yield the coverage of each partition.

    Raises:
        ArchiveCorrupt: a segment that misses offsets cannot be read.
    """
    certainty = ArchiveCertainty(cluster)
    for place in sorted(cluster.parts):
        yield _coverage(cluster, certainty, place)


def _coverage(
    cluster: ArchivedCluster, certainty: ArchiveCertainty, place: PartitionId
) -> PartitionCoverage:
    part, doubts = cluster.parts[place], certainty.summary(place)
    segments, holes = part.segments, certainty.holes.missing(place)
    times = (segment.first_ms for segment in segments if segment.first_ms >= 0)
    latest = segments[-1].latest_ms if segments else -1
    return PartitionCoverage(
        *place,
        part.records,
        segments[0].start if segments else None,
        segments[-1].end - 1 if segments else None,
        next(times, None),
        latest if latest >= 0 else None,
        certainty.looks(place).number,
        part.end - part.read_records,
        sum(map(len, part.gaps)),
        len(holes.starts),
        holes.first(HOLES_LISTED),
        doubts.known_from,
        doubts.unknown,
        part.removed.records if part.removed else 0,
        tuple(certainty.of_partition(place, part.end)),
    )
