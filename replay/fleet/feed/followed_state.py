"""States of one cluster at the ends of batches, each folded from the snapshot of the one before."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

from controlplane.core.codec.offsets import decode_partition
from controlplane.core.entry import Position
from controlplane.core.records import Invalid
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.core.text.safe_text import utf8_text
from controlplane.logs.end_vectors import FittedEnds
from replay.archive.archived_cluster import ArchivedCluster
from replay.archive.manifest import Snapshot
from replay.engine.local_engine import LocalEngine, LocalOptions
from replay.engine.partition_reader import PartitionReader
from replay.engine.plans.read_plan import PartitionPlan, PlanStart, nearest, planned
from replay.engine.snapshots.daily_snapshots import snapshot_at
from replay.errors import ArchiveCorrupt
from replay.fleet.feed.cluster_checkpoint import ClusterCheckpoint
from replay.fleet.feed.state_changes import OffsetPositions, offset_item
from replay.kernels.last_value import last_values

ReadEnds = dict[str, list[int]]
"""End offset of each partition, by topic."""


class FollowedState(NamedTuple):
    """State at the end of a batch, and the snapshot from which the next batch goes on."""

    state: ClusterState
    snapshot: Snapshot
    cut: ReadEnds


class StateFollower:
    """Folds the states of one cluster. New snapshots are written to the cluster's store."""

    def __init__(self, cluster: ArchivedCluster, options: LocalOptions, profile: Profile) -> None:
        self._cluster = cluster
        self._options = options
        self._profile = profile
        self._local = LocalEngine(cluster, options)

    def before(self, checkpoint: ClusterCheckpoint | None, ends: ReadEnds | None) -> ClusterState:
        """State at the end of the last batch; an empty one if there was no batch.

        Raises:
            ArchiveCorrupt: a file of the archive is missing or damaged.
        """
        if ends is None:
            return ClusterState(self._profile, self._cluster.topics, self._options.exactly_once)
        if checkpoint is not None:
            try:
                return self._state(checkpoint.snapshot, checkpoint.cut)
            except ArchiveCorrupt:
                # The checkpoint's files may be damaged. Without a retention, the archive still has
                # all records, so the next line folds the same state from it. After a retention,
                # `ClusterBatch` has checked the hashes of these files. Then the archive itself is
                # damaged, and the next line fails as well.
                pass
        return self._state(self._nearest(ends), self._cut(ends))

    def after(self, checkpoint: ClusterCheckpoint | None, ends: ReadEnds) -> FollowedState:
        """State at the end of a new batch, from the snapshot of the last one.

        Raises:
            ArchiveCorrupt: a file of the archive is missing or damaged.
            NotWritable: the snapshot cannot be written.
        """
        snapshot = self._snapshot(checkpoint, ends)
        cut = self._cut(ends)
        return FollowedState(self._state(snapshot, cut), snapshot, cut)

    def _snapshot(self, checkpoint: ClusterCheckpoint | None, ends: ReadEnds) -> Snapshot:
        readers = {self._options.exactly_once: (self._profile,)}
        if checkpoint is not None:
            try:
                return snapshot_at(self._cluster, checkpoint.snapshot, "feed", ends, readers)
            except ArchiveCorrupt:  # if the archive is damaged, the next line fails as well
                pass
        return snapshot_at(self._cluster, self._nearest(ends), "feed", ends, readers)

    def _nearest(self, ends: ReadEnds) -> Snapshot | None:
        return nearest(self._cluster, ends) if self._options.derived else None

    def _state(self, snapshot: Snapshot | None, cut: ReadEnds) -> ClusterState:
        plan = self._local.plan_from(snapshot, FittedEnds(cut), [self._profile])
        (state,) = self._local.states(plan, [self._profile])
        return state

    def _cut(self, ends: ReadEnds) -> ReadEnds:
        """Ends of the topics of a state, without dedicated offsets topics that no config names."""
        topics = self._cluster.topics
        names = [topics.config, topics.offsets, topics.status, topics.commands]
        if ends.keys() - set(names):
            names += self._local.own_topics(ends[topics.config])
        return {name: ends[name] for name in dict.fromkeys(names) if name in ends}


def plans_between(
    cluster: ArchivedCluster, since: ReadEnds | None, ends: ReadEnds
) -> tuple[PartitionPlan, ...]:
    """Rows of segments between two vectors of end offsets."""
    start = PlanStart()
    if since is not None:
        # A dummy snapshot without rows covers all topics up to `since`, so the plan skips earlier
        # rows.
        start = PlanStart(Snapshot("", padded_to(since, ends), ()), tuple(ends))
    return planned(cluster, FittedEnds(ends), start, derived=False).parts


def padded_to(since: ReadEnds, ends: ReadEnds) -> ReadEnds:
    """Earlier end offsets of the topics and partitions in `ends`; 0 for new ones."""
    return {
        topic: [old for old, _ in zip_longest(since.get(topic, ()), topic_ends, fillvalue=0)]
        for topic, topic_ends in ends.items()
    }


def offset_positions(
    cluster: ArchivedCluster,
    profile: Profile,
    parts: Sequence[PartitionPlan],
    *,
    exactly_once: bool,
) -> OffsetPositions:
    """Last record of each source offset in some rows, as workers read them.

    Aborted records count without exactly-once support, but never in a connector's own topic.
    """
    topics = cluster.topics
    others = (topics.config, topics.status, topics.commands)
    reader = PartitionReader(cluster.store, topics, ())
    positions: dict[tuple[str, str], Position] = {}
    for part in parts:
        if part.topic in others or not part.rows:
            continue
        is_aborted_read = not exactly_once and part.topic == topics.offsets
        last = last_values(reader.runs(part), aborted=is_aborted_read)
        keys, offsets = (last.column(name).to_pylist() for name in ("key", "offset"))
        for key, offset in zip(keys, offsets, strict=True):
            subject = decode_partition(key, profile)
            if not isinstance(subject, Invalid):
                place = utf8_text(subject.connector), offset_item(subject.partition)
                positions[place] = Position(part.topic, part.partition, offset)
    return positions
