"""Positions: how far a change feed has read each cluster of an archive."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from controlplane.core.order import Ends
from replay.archive import layout
from replay.archive.archived_cluster import ArchivedCluster, open_cluster
from replay.archive.manifest import is_last
from replay.archive.merges.replaced_manifests import replaced_files
from replay.archive.stores.concurrent_requests import concurrently
from replay.archive.stores.store import ArchiveStore
from replay.errors import ReplayError


class CheckpointMismatch(ReplayError):
    """A checkpoint and an archive do not fit: records that the feed has read are missing."""


class ClusterPosition(msgspec.Struct, frozen=True):
    """Position in the archive of one cluster."""

    number: int
    """Number of the last manifest."""
    head: str
    """Hash of the last manifest."""
    ends: dict[str, list[int]]
    """First unread offset of each partition, by topic."""


class ClusterLook(msgspec.Struct, frozen=True):
    """Position at the end of a cluster's archive, or the reason why it is unknown."""

    position: ClusterPosition | None = None
    problem: str | None = None
    retried_after: int = -1
    """Mark that a restarted stream sets on a cluster that was unreadable; -1: no mark.

    The mark is the number of the last batch before the restart. The mark changes the offset of the
    stream. So Spark runs a batch, which reads the cluster again.
    """

    def is_like(self, other: "ClusterLook | None") -> bool:
        """True if both looks found the same position and problem."""
        return other is not None and (self.position, self.problem) == (
            other.position,
            other.problem,
        )


def position_of(cluster: ArchivedCluster) -> ClusterPosition:
    """Position at the end of an open archive."""
    chain = cluster.chain
    return ClusterPosition(chain.manifests[-1].number, chain.head, cluster.ends)


def latest_ms(cluster: ArchivedCluster, ends: Ends) -> int:
    """Greatest time of a record in the segments that begin before the ends; -1 if unknown."""
    times = (
        segment.latest_ms
        for topic, topic_ends in ends.items()
        for part, end in zip(cluster.parts_of(topic), topic_ends, strict=False)
        for segment in part.segments
        if segment.start < end
    )
    return max(times, default=-1)


def check_follows(cluster: ArchivedCluster, position: ClusterPosition) -> None:
    """Check that an archive goes on from a position.

    Raises:
        CheckpointMismatch: the position belongs to another archive, or is ahead of this one.
        ArchiveCorrupt: the manifests that merges have replaced are missing or damaged.
    """
    if position.head not in _ChainHashes(cluster):
        raise CheckpointMismatch(_difference(cluster, position))


class _ChainHashes:
    """Hashes of all manifests of a chain; replaced ones are read only if needed."""

    def __init__(self, cluster: ArchivedCluster) -> None:
        self._cluster = cluster

    def __contains__(self, head: str) -> bool:
        chain = self._cluster.chain
        present = {chain.head, *(manifest.previous for manifest in chain.manifests)}
        return head in present or head in self._replaced()

    def _replaced(self) -> Iterator[str]:
        for file in replaced_files(self._cluster.store, self._cluster.chain):
            yield from (replaced.sha256 for replaced in file.manifests)


def _difference(cluster: ArchivedCluster, position: ClusterPosition) -> str:
    """Sentence about a position that the archive does not have."""
    for topic, ends in position.ends.items():
        archived = cluster.ends.get(topic, [])
        for partition, end in enumerate(ends):
            archived_end = archived[partition] if partition < len(archived) else 0
            if end > archived_end:
                return (
                    f"the checkpoint is ahead of the archive: {topic} partition {partition} is "
                    f"archived up to {archived_end}, but the checkpoint says {end}. The archive "
                    "was restored from a backup, or is another one: give another checkpoint"
                )
    return (
        f"no manifest has the hash {position.head[:12]}, up to which the checkpoint has read. The "
        "archive was restored from a backup, or is another one: give another checkpoint"
    )


# --- looks at an archive --------------------------------------------------------------------


def cluster_looks(
    store: ArchiveStore, names: Iterable[str], before: Mapping[str, ClusterLook]
) -> dict[str, ClusterLook]:
    """Read the end of each cluster. Without a new manifest since `before`, it is not opened.

    An unreadable cluster has its reason in place of a position.
    """
    cluster_names = sorted(names)
    looks = concurrently(lambda name: _look(store, name, before.get(name)), cluster_names)
    return dict(zip(cluster_names, looks, strict=True))


def _look(store: ArchiveStore, name: str, before: ClusterLook | None) -> ClusterLook:
    try:
        if before is not None and before.position is not None:
            number = before.position.number
            is_there = store.size(layout.manifest(name, number)) is not None
            if is_there and is_last(store, name, number):
                return before
        return ClusterLook(position_of(open_cluster(store, name)))
    except ReplayError as error:
        return ClusterLook(problem=str(error))


def followed_names(
    store: ArchiveStore, selected: Sequence[str], earlier: Iterable[str] = ()
) -> set[str]:
    """Clusters to follow: the selected ones, or all of the archive and all that were followed."""
    return set(selected) or {*layout.clusters(store), *earlier}
