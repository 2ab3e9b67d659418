"""Proof of what retention has removed, from the manifests of all retentions.

The manifests are compared with the removed offsets and with the originals: segments that merges
have replaced. Each retention has a manifest in the chain. The manifest has the minimum age of the
removed records. For each partition it has their number, the offset up to which they were removed,
and their hash.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from msgspec import UNSET

from controlplane.core.moments import time_text
from replay.archive.archived_cluster import ArchivedCluster, PartitionId
from replay.archive.manifest import ExpiredRecords, Manifest, Retention, Segment
from replay.archive.segments.removed_offsets import RemovedOffsets


class RetentionRun(NamedTuple):
    """One retention of a cluster, as the manifest of its merge states it."""

    number: int
    """Number of its manifest."""
    written_at_ms: int
    retention: Retention

    @property
    def records(self) -> int:
        """Number of records that it removed."""
        return sum(expired.records for expired in self.retention.expired)


def expired_in(manifest: Manifest) -> dict[PartitionId, ExpiredRecords]:
    """Records that the merge of a manifest has removed, by partition."""
    every = () if manifest.retention is UNSET else manifest.retention.expired
    return {(expired.topic, expired.partition): expired for expired in every}


def retentions_in(manifests: Sequence[Manifest]) -> list[RetentionRun]:
    """Retentions among manifests, the oldest first."""
    return [
        RetentionRun(manifest.number, manifest.written_at_ms, manifest.retention)
        for manifest in manifests
        if manifest.retention is not UNSET
    ]


def retention_differences(
    cluster: ArchivedCluster,
    runs: Sequence[RetentionRun],
    removed: Mapping[PartitionId, RemovedOffsets],
    originals: Mapping[PartitionId, Sequence[Segment]],
) -> Iterator[str]:
    """Differences between what retentions say and what is gone, one sentence each.

    `runs` are all retentions, `originals` the segments that merges have replaced.
    """
    for run in runs:
        cut = time_text(run.retention.cut_ms)
        if run.retention.cut_ms > run.written_at_ms - run.retention.age_ms:
            yield (
                f"manifest {run.number} removed records up to {cut}, later than the age of its "
                "retention allows"
            )
    counts: dict[PartitionId, int] = defaultdict(int)
    for run in runs:
        for expired in run.retention.expired:
            counts[expired.topic, expired.partition] += expired.records
    for place in sorted(counts.keys() | removed.keys()):
        gone = removed.get(place, RemovedOffsets())
        where = f"{place[0]} partition {place[1]}"
        if gone.total != counts[place]:
            yield f"{where} lacks {gone.total} records, but retentions removed {counts[place]}"
        records = cluster.parts[place].removed if place in cluster.parts else None
        if records is None or not gone.total:
            continue
        if gone.ends[-1] > records.end:
            yield f"{where} lacks records after the cut of its retention at offset {records.end}"
        yield from _removed_after_cut(where, originals.get(place, ()), gone, records.cut_ms)


def _removed_after_cut(
    where: str, originals: Sequence[Segment], gone: RemovedOffsets, cut_ms: int
) -> Iterator[str]:
    """Find removed records in originals that begin after the cut.

    `Segment.latest_ms` is the greatest timestamp of the partition up to the segment's end. If that
    time is later than the cut, the next original begins after the cut.
    """
    for before, original in pairwise(originals):
        is_after = before.end <= original.start and before.latest_ms > cut_ms
        if is_after and gone.within(original.start, original.end):
            yield (
                f"{where} lacks records from offset {original.start} on that are younger than the "
                f"cut of its retention, {time_text(cut_ms)}"
            )
            return
