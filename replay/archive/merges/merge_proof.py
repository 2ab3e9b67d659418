"""Proof that merges kept the records, all but those that retention has removed.

The replaced manifests are compared with the present archive.

The replaced manifests form the chain up to the last merge. So a hash stored before the merge still
proves them. Each of their segments has the hash of its records. The same offsets of the present
segments must have this hash.

If retention has removed a part of an original segment, its hash can no longer be computed. Numbers,
offsets and times are still compared. Manifests since the retention have hashes that prove the
remaining records. Two differences show that more was removed than the retention states:

- The number of remaining records differs from the manifests.
- A removed record is younger than the cut.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from msgspec import UNSET

from replay.archive import layout
from replay.archive.archived_cluster import ArchivedCluster, PartitionId, parts_in
from replay.archive.manifest import Chain, Manifest, Segment
from replay.archive.merges.replaced_manifests import replaced_files
from replay.archive.merges.retention_proof import (
    RetentionRun,
    expired_in,
    retention_differences,
    retentions_in,
)
from replay.archive.segments.record_hash import record_hash
from replay.archive.segments.removed_offsets import RemovedOffsets, read_offsets


class MergedRecords(NamedTuple):
    """Replaced manifests of a cluster, and what they say of the records."""

    hashes: tuple[str, ...]
    """Hashes of the replaced manifests."""
    originals: Mapping[PartitionId, Sequence[Segment]]
    """Segments that merges have replaced, each once."""
    flaws: tuple[str, ...]
    """Differences between the replaced manifests and the present ones, one sentence each."""
    retentions: tuple[RetentionRun, ...] = ()
    """All retentions, the oldest first."""
    removed: Mapping[PartitionId, RemovedOffsets] = {}
    """Offsets that retention has removed."""

    @property
    def unproven(self) -> int:
        """Number of replaced segments whose manifests have no hash of their records."""
        return sum(
            segment.content is UNSET for segments in self.originals.values() for segment in segments
        )

    @property
    def thinned(self) -> int:
        """Number of replaced segments of which retention has removed a part."""
        return sum(
            bool(removed.within(segment.start, segment.end))
            for place, removed in self.removed.items()
            for segment in self.originals.get(place, ())
        )

    def flaws_of(self, present: Segment, table: pa.Table) -> Iterator[str]:
        """Differences between a present segment and the originals that were merged into it."""
        place = present.topic, present.partition
        originals = self.originals.get(place, ())
        removed = self.removed.get(place, RemovedOffsets())
        first = bisect_left(originals, present.start, key=_start)
        last = bisect_left(originals, present.end, key=_start)
        offsets = table.column("offset").to_numpy()
        if removed.inside(offsets).any():
            yield f"{present.stored.file} has records that retention has removed"
        for original in originals[first:last]:
            begin, end = np.searchsorted(offsets, (original.start, original.end))
            rows = table.slice(begin, end - begin)
            if removed.within(original.start, original.end):
                continue  # `merged_records` compares its numbers, by partition
            if rows.num_rows != original.stored.records or (
                original.content is not UNSET and record_hash(rows) != original.content
            ):
                yield (
                    f"{present.stored.file} has other records than {original.stored.file}, which "
                    "was merged into it"
                )


def merged_records(cluster: ArchivedCluster) -> MergedRecords:
    """Read the replaced manifests and compare them with the present ones.

    Raises:
        ArchiveCorrupt: packed manifests are missing or altered.
    """
    hashes: list[str] = []
    originals: dict[PartitionId, dict[str, Segment]] = defaultdict(dict)
    flaws: list[str] = []
    retentions: list[RetentionRun] = []
    present = {segment.stored.file for part in cluster.parts.values() for segment in part.segments}
    following = cluster.chain.manifests[0]
    for packed in replaced_files(cluster.store, cluster.chain):
        manifests = [replaced.manifest for replaced in packed.manifests]
        hashes += [replaced.sha256 for replaced in packed.manifests]
        flaws += _merge_differences([*manifests, following])
        retentions += reversed(retentions_in([*manifests[1:], following]))
        following = manifests[0]
        for manifest in manifests:
            for segment in manifest.segments:
                if segment.stored.file not in present:
                    originals[segment.topic, segment.partition][segment.stored.file] = segment
    replaced = {place: sorted(by_file.values(), key=_start) for place, by_file in originals.items()}
    removed = {
        place: read_offsets(cluster.store, part.removed)
        for place, part in cluster.parts.items()
        if part.removed
    }
    flaws += retention_differences(cluster, retentions, removed, replaced)
    return MergedRecords(
        tuple(hashes), replaced, tuple(flaws), tuple(reversed(retentions)), removed
    )


def _merge_differences(manifests: Sequence[Manifest]) -> Iterator[str]:
    """Differences between each merge and the manifests that it replaces, the oldest first."""
    before: list[Manifest] = []
    for manifest in manifests:
        if before and manifest.merge is not UNSET:
            expected, described = _described(before, manifest), _described([manifest])
            for topic, partition in sorted(expected.keys() | described.keys()):
                if expected.get((topic, partition)) != described.get((topic, partition)):
                    name = layout.manifest(manifest.cluster, manifest.number)
                    yield (
                        f"{name} describes other records of {topic} partition {partition} than the "
                        "manifests that it replaces"
                    )
            before = []
        before.append(manifest)


class _Records(NamedTuple):
    """Records of a partition, as manifests describe them."""

    start: int
    end: int
    gaps: tuple[range, ...]
    records: int
    aborted: int
    latest_ms: int | None


def _described(
    manifests: Sequence[Manifest], merge: Manifest | None = None
) -> dict[PartitionId, _Records]:
    """Records that manifests describe, without those that their merge has removed."""
    expired = {} if merge is None else expired_in(merge)
    return {
        place: _Records(
            part.start,
            part.end,
            part.gaps,
            part.records - (expired[place].records if place in expired else 0),
            sum(segment.aborted for segment in part.segments)
            - (expired[place].aborted if place in expired else 0),
            part.latest_ms,
        )
        for place, part in parts_in(Chain(tuple(manifests), "")).items()
    }


def _start(segment: Segment) -> int:
    return segment.start
