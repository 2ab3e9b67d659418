"""View of a cluster's archive: its partitions, their segments and gaps."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from controlplane.core.state import Topics
from controlplane.core.text.safe_text import count
from replay.archive import layout
from replay.archive.manifest import (
    Chain,
    Manifest,
    ReadRange,
    RemovedRecords,
    Segment,
    Snapshot,
    read_chain,
)
from replay.archive.stores.store import ArchiveStore
from replay.errors import ArchiveCorrupt, NoArchive, no_clusters
from replay.gaps import OffsetGap

PartitionId = tuple[str, int]
"""Topic and partition."""


class ArchivedPartition(NamedTuple):
    """Offsets, segments and gaps of one archived partition."""

    start: int
    """First offset that captures have read; nothing before it is known."""
    end: int
    """Offset after the last offset that captures have read."""
    segments: tuple[Segment, ...]
    gaps: tuple[range, ...]
    """Offsets that were removed from the captured log before a capture read them."""
    removed: RemovedRecords | None = None
    """Records that retention has removed."""

    @property
    def records(self) -> int:
        """Number of archived records, without those that retention has removed."""
        return sum(segment.stored.records for segment in self.segments)

    @property
    def read_records(self) -> int:
        """Number of records that captures have read, with those that retention has removed."""
        return self.records + (self.removed.records if self.removed else 0)

    @property
    def latest_ms(self) -> int | None:
        """The greatest timestamp; None without records."""
        return self.segments[-1].latest_ms if self.segments else None


MANY_MANIFESTS = 10_000
"""Number of manifests since the last merge; from this number on, commands advise a merge.

A capture that reads new records every minute writes 10,000 manifests in a week. Opening the archive
then takes some 4 seconds in a folder, and 10 in a store that answers after 30 ms
(docs/benchmarks.md, "Merge an archive").
"""


class ArchivedCluster(NamedTuple):
    """One cluster of an archive, as its manifests describe it."""

    store: ArchiveStore
    name: str
    chain: Chain
    parts: Mapping[PartitionId, ArchivedPartition]

    @property
    def topics(self) -> Topics:
        """Names of the cluster's topics, which all its manifests share."""
        return self.chain.manifests[0].topics

    @property
    def secrets(self) -> str:
        """Policy for secrets: kept, dropped or encrypted."""
        return self.chain.manifests[0].secrets

    @property
    def ends(self) -> dict[str, list[int]]:
        """End offset of each partition, by topic."""
        ends_of: dict[str, list[int]] = {}
        for (topic, _), part in sorted(self.parts.items()):
            ends_of.setdefault(topic, []).append(part.end)
        return ends_of

    @property
    def snapshots(self) -> Iterator[Snapshot]:
        """All snapshots that the manifests name, the oldest first."""
        for manifest in self.chain.manifests:
            yield from manifest.snapshots

    @property
    def gaps(self) -> Iterator[OffsetGap]:
        """All offsets that were removed from the captured log before a capture read them."""
        for (topic, partition), part in self.parts.items():
            for offsets in part.gaps:
                yield OffsetGap(topic, partition, offsets)

    @property
    def merge_advice(self) -> tuple[str, ...]:
        """Advice to merge the manifests, as a sentence; empty if they are few."""
        number = len(self.chain.manifests)
        if number < MANY_MANIFESTS:
            return ()
        manifests = count(number, "manifest")
        return (f"{manifests} to open: merge them with `replay compact-archive`",)

    def parts_of(self, topic: str) -> list[ArchivedPartition]:
        """Partitions of a topic, by number."""
        number = len(self.ends.get(topic, ()))
        return [self.parts[topic, partition] for partition in range(number)]


def open_cluster(store: ArchiveStore, name: str) -> ArchivedCluster:
    """Open the archive of a cluster.

    Raises:
        NoArchive: the cluster has no archive.
        ArchiveCorrupt: its manifests are altered, contradict each other, or are all missing.
    """
    layout.check_cluster(name)
    chain = read_chain(store, name)
    if not chain.manifests and layout.has_files(store, name):
        raise ArchiveCorrupt(
            f"{layout.manifests(name)} has no manifest: restore the manifests of cluster {name}, "
            "or capture it again if its first capture died"
        )
    if not chain.manifests:
        existing = layout.clusters(store)
        if not existing:
            raise NoArchive(f"{store.where} has no archive of any cluster: check the path")
        raise no_clusters(store.where, [name], existing)
    return ArchivedCluster(store, name, chain, parts_in(chain))


def parts_in(chain: Chain) -> dict[PartitionId, ArchivedPartition]:
    """Collect the partitions that the manifests describe.

    Raises:
        ArchiveCorrupt: ranges overlap, a segment begins or ends at an offset that was not read, or
            a partition is missing.
    """
    reaches: dict[PartitionId, list[ReadRange]] = defaultdict(list)
    segments: dict[PartitionId, list[Segment]] = defaultdict(list)
    for manifest in chain.manifests:
        _check_alike(chain.manifests[0], manifest)
        for reach in manifest.reaches:
            reaches[reach.topic, reach.partition].append(reach)
        for segment in manifest.segments:
            segments[segment.topic, segment.partition].append(segment)
    removed = {(records.topic, records.partition): records for records in chain.removed}
    parts = {
        place: _part(ranges, segments.pop(place, []))._replace(removed=removed.get(place))
        for place, ranges in sorted(reaches.items())
    }
    _check_whole(parts, segments)
    return parts


def _check_alike(first: Manifest, manifest: Manifest) -> None:
    if (first.topics, first.secrets) != (manifest.topics, manifest.secrets):
        raise ArchiveCorrupt(
            f"manifest {manifest.number} of cluster {manifest.cluster} has other topics, or "
            "another policy for secrets, than the first: restore it"
        )


def _part(reaches: list[ReadRange], segments: list[Segment]) -> ArchivedPartition:
    gaps = []
    for before, after in pairwise(reaches):
        if after.start < before.end:
            raise _overlap(after.topic, after.partition, range(after.start, before.end))
        if after.start > before.end:
            gaps.append(range(before.end, after.start))
    for earlier, later in pairwise(segments):
        if later.start < earlier.end:
            raise _overlap(later.topic, later.partition, range(later.start, earlier.end))
    starts = [reach.start for reach in reaches]
    for segment in segments:
        # A merged segment may extend over a gap, but its first and last offset were read.
        for offset in (segment.start, segment.end - 1):
            at = bisect_right(starts, offset) - 1
            if at < 0 or offset >= reaches[at].end:
                raise ArchiveCorrupt(
                    f"{segment.stored.file} holds offsets that no manifest says were read: "
                    "restore it"
                )
    return ArchivedPartition(starts[0], reaches[-1].end, tuple(segments), tuple(gaps))


def _overlap(topic: str, partition: int, twice: range) -> ArchiveCorrupt:
    return ArchiveCorrupt(
        f"offsets {twice.start} to {twice.stop - 1} of {topic} partition {partition} are archived "
        "twice: restore the manifests"
    )


def _check_whole(
    parts: Mapping[PartitionId, ArchivedPartition], left: Mapping[PartitionId, list[Segment]]
) -> None:
    """Raise `ArchiveCorrupt` if a segment has no read range, or a lower partition is missing."""
    for topic, partition in (*left, *parts):
        if (topic, partition) not in parts or (partition and (topic, partition - 1) not in parts):
            raise ArchiveCorrupt(
                f"the manifests lack partition {partition} of {topic}, or a lower one: restore them"
            )
