"""Proof that merges kept the records: the replaced manifests against the present archive.

The replaced manifests form the chain up to the last merge, so a hash stored before the merge still
proves them. Each of their segments has the hash of its records, which must be the hash of the same
offsets of the present segments.
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
from replay.archive.record_hash import record_hash
from replay.archive.replaced_manifests import replaced_files


class MergedRecords(NamedTuple):
    """Replaced manifests of a cluster, and what they say of the records."""

    hashes: tuple[str, ...]
    """Hashes of the replaced manifests."""
    originals: Mapping[PartitionId, Sequence[Segment]]
    """Segments that merges have replaced, each once."""
    flaws: tuple[str, ...]
    """Differences between the replaced manifests and the present ones, one sentence each."""

    @property
    def unproven(self) -> int:
        """Number of replaced segments whose manifests have no hash of their records."""
        return sum(
            segment.content is UNSET for segments in self.originals.values() for segment in segments
        )

    def flaws_of(self, present: Segment, table: pa.Table) -> Iterator[str]:
        """Differences between a present segment and the originals that were merged into it."""
        originals = self.originals.get((present.topic, present.partition), ())
        first = bisect_left(originals, present.start, key=_start)
        last = bisect_left(originals, present.end, key=_start)
        offsets = table.column("offset").to_numpy()
        for original in originals[first:last]:
            begin, end = np.searchsorted(offsets, (original.start, original.end))
            rows = table.slice(begin, end - begin)
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
    present = {segment.stored.file for part in cluster.parts.values() for segment in part.segments}
    following = cluster.chain.manifests[0]
    for packed in replaced_files(cluster.store, cluster.chain):
        manifests = [replaced.manifest for replaced in packed.manifests]
        hashes += [replaced.sha256 for replaced in packed.manifests]
        flaws += _unlike([*manifests, following])
        following = manifests[0]
        for manifest in manifests:
            for segment in manifest.segments:
                if segment.stored.file not in present:
                    originals[segment.topic, segment.partition][segment.stored.file] = segment
    return MergedRecords(
        tuple(hashes),
        {place: sorted(by_file.values(), key=_start) for place, by_file in originals.items()},
        tuple(flaws),
    )


def _unlike(manifests: Sequence[Manifest]) -> Iterator[str]:
    """Differences between each merge and the manifests that it replaces, the oldest first."""
    before: list[Manifest] = []
    for manifest in manifests:
        if before and manifest.merge is not UNSET:
            expected, described = _described(before), _described([manifest])
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


def _described(manifests: Sequence[Manifest]) -> dict[PartitionId, _Records]:
    return {
        place: _Records(
            part.start,
            part.end,
            part.gaps,
            sum(segment.stored.records for segment in part.segments),
            sum(segment.aborted for segment in part.segments),
            part.latest_ms,
        )
        for place, part in parts_in(Chain(tuple(manifests), "")).items()
    }


def _start(segment: Segment) -> int:
    return segment.start
