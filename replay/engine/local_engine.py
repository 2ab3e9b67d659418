"""Engine in this process: threads over partitions, no JVM. The fastest for all but fleets."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from controlplane.core.entry import Batch
from controlplane.core.fold import TopicSnapshot
from controlplane.core.order import Ends
from controlplane.core.releases.profiles import KIP, Profile
from controlplane.core.state import ClusterState
from controlplane.core.views import offsets_topics
from controlplane.logs.end_vectors import FittedEnds
from replay.archive.archived_cluster import ArchivedCluster
from replay.archive.manifest import Snapshot
from replay.archive.segments.winners import reducible
from replay.archive.stores.concurrent_requests import concurrently
from replay.doubts import beginning, certain_from
from replay.engine.coverage.certainty import ArchiveCertainty
from replay.engine.coverage.lost_offsets import gaps_before
from replay.engine.partition_reader import PartitionReader
from replay.engine.plans.moment_cut import check_reaches, cut_at
from replay.engine.plans.read_plan import PartitionPlan, PlanStart, ReadPlan, nearest, planned
from replay.engine.plans.reused_reads import ReusedReads
from replay.engine.snapshots.topic_snapshot import thawed
from replay.engine.states.state_builder import FoldOptions, ReducedTopic, states
from replay.kernels.batches import batch
from replay.processors import usable_processors
from replay.progress import Advance

RankReader = Callable[[Sequence[PartitionPlan]], Sequence[pa.Table]]
"""Rereads an offsets topic: the last row of each key, with the running maximum of timestamps.

Rows of several partitions are ordered by this maximum (`core.order`).
"""


class LocalOptions(NamedTuple):
    """Options: whether aborted records count, and whether snapshots and winners may be read."""

    exactly_once: bool = False
    """Skip aborted configs and offsets, as workers with exactly-once support do."""
    derived: bool = True
    """Allow snapshots and winners in place of the records they were made from.

    Winners are the rows of a segment that may still count (`archive.segments.winners`).
    """


class LocalEngine:
    """Answers queries on the archive of one cluster."""

    def __init__(self, cluster: ArchivedCluster, options: LocalOptions | None = None) -> None:
        self.cluster = cluster
        self.options = options or LocalOptions()
        self._thawed: dict[
            tuple[str, tuple[str, ...]], dict[str, dict[Profile, TopicSnapshot]]
        ] = {}

    def __reduce__(self) -> "tuple[type[LocalEngine], tuple[ArchivedCluster, LocalOptions]]":
        """Pickle without the states of snapshots: another process reads them again."""
        return LocalEngine, (self.cluster, self.options)

    def plan(
        self,
        moment: str | None,
        profiles: Sequence[Profile],
        *,
        past: bool = False,
        ends: Ends | None = None,
    ) -> ReadPlan:
        """Plan the states at a moment; None is the end of the archive.

        With `past`, the plan also has the doubts about the time before `moment`. Its `certain_from`
        may then lie before `moment`; without `past`, never. `ends` are the end offsets that an
        earlier plan has found for `moment`. They keep the cut the same if the archive has grown.

        Raises:
            UnknownMoment: an invalid moment, or the archive has nothing there.
            ArchiveBusy: the archive ends before `ends`.
            ArchiveCorrupt: a file with the moment in it is missing or damaged.
        """
        reusing = self._reusing()
        if ends is None:
            cut = cut_at(reusing.cluster, moment, reusing.own_topics)
        else:
            check_reaches(self.cluster, ends)
            cut = FittedEnds(ends)
        gaps = gaps_before(reusing.cluster, cut, moment)
        certainty = ArchiveCertainty(reusing.cluster)
        doubts = (certainty.past if past else certainty.doubts)(cut.ends, moment)
        begin = beginning(cut.ends) if past else cut.ends
        certain = certain_from(begin, doubts, has_gaps=bool(gaps))
        plan = reusing.plan_at(cut, profiles)
        notices = (*plan.notices, *self.cluster.merge_advice)
        return replace(plan, notices=notices, gaps=gaps, doubts=doubts, certain_from=certain)

    def _reusing(self) -> "LocalEngine":
        """Engine for one plan: each small file that its steps read is requested once."""
        store = ReusedReads(self.cluster.store)
        engine = LocalEngine(self.cluster._replace(store=store), self.options)
        engine._thawed = self._thawed
        return engine

    def plan_at(self, cut: FittedEnds, profiles: Sequence[Profile]) -> ReadPlan:
        """Plan the states at a cut."""
        derived = self.options.derived
        return self.plan_from(nearest(self.cluster, cut.ends) if derived else None, cut, profiles)

    def plan_from(
        self, snapshot: Snapshot | None, cut: FittedEnds, profiles: Sequence[Profile]
    ) -> ReadPlan:
        """Plan the states at a cut from a snapshot before it; None: from the beginning."""
        folded: tuple[str, ...] = ()
        if not all(reducible(topic, self.cluster.topics) for topic in cut.ends):
            # Snapshots do not store the order between partitions. So a topic with records in
            # several partitions is read from its segments.
            folded = tuple(
                topic
                for topic in self._snapshot_states(snapshot, profiles)
                if topic in cut.ends and not any(cut.ends[topic][1:])
            )
        return planned(self.cluster, cut, PlanStart(snapshot, folded), derived=self.options.derived)

    def states(
        self,
        plan: ReadPlan,
        profiles: Sequence[Profile],
        advance: Advance = lambda _: None,
    ) -> list[ClusterState]:
        """Return the state of each release at the plan's cut.

        `advance` receives the number of rows read, after each partition or group of small ones.

        Raises:
            ArchiveCorrupt: a file is missing or damaged.
        """
        return self.states_of(plan, profiles, self.reduced(plan, profiles, advance))

    def reduced(
        self, plan: ReadPlan, profiles: Sequence[Profile], advance: Advance = lambda _: None
    ) -> list[pa.Table]:
        """Read the rows that count: one table for each part with rows (`ReadPlan.busy`).

        Raises:
            ArchiveCorrupt: a file is missing or damaged.
        """
        reader = self._reader(profiles)
        groups = list(reader.groups(plan.busy))
        tables: list[pa.Table] = []
        at_once = max(1, min(len(groups), usable_processors()))
        reduced = concurrently(reader.reduced_group, groups, at_once)
        for group, group_tables in zip(groups, reduced, strict=True):
            tables += group_tables
            advance(sum(part.rows for part in group))
        return tables

    def states_of(
        self, plan: ReadPlan, profiles: Sequence[Profile], reduced: Iterable[pa.Table]
    ) -> list[ClusterState]:
        """Fold the rows that `reduced` has read."""
        return self.folded(plan, profiles, reduced, _LocalRanks(self._reader(profiles)))

    def folded(
        self,
        plan: ReadPlan,
        profiles: Sequence[Profile],
        reduced: Iterable[pa.Table],
        ranks: RankReader,
    ) -> list[ClusterState]:
        """Fold rows that were reduced elsewhere: one table for each of `plan.busy`."""
        begun = {
            topic: snapshot_states
            for topic, snapshot_states in self._snapshot_states(plan.snapshot, profiles).items()
            if topic in plan.folded
        }
        tables: dict[str, list[tuple[PartitionPlan, pa.Table]]] = {topic: [] for topic in begun}
        for part, table in zip(plan.busy, reduced, strict=True):
            tables.setdefault(part.topic, []).append((part, table))
        question = FoldOptions(self.cluster.topics, profiles, plan.ends, self.options.exactly_once)
        return states(
            question,
            [
                ReducedTopic(
                    topic, _batches(rows), partial(_ranked, ranks, rows), begun.get(topic, {})
                )
                for topic, rows in tables.items()
            ],
        )

    def _snapshot_states(
        self, snapshot: Snapshot | None, profiles: Sequence[Profile]
    ) -> dict[str, dict[Profile, TopicSnapshot]]:
        """Snapshot states of topics, for all of these releases."""
        if snapshot is None or snapshot.folded is None:
            return {}
        key = snapshot.folded.file, tuple(profile.release for profile in profiles)
        if key not in self._thawed:  # needed for the plan, and again for the fold
            store, topics = self.cluster.store, self.cluster.topics
            support = self.options.exactly_once
            self._thawed[key] = thawed(
                store, snapshot.folded, topics, profiles, exactly_once=support
            )
        return self._thawed[key]

    def _reader(self, profiles: Sequence[Profile]) -> PartitionReader:
        return PartitionReader(
            self.cluster.store,
            self.cluster.topics,
            profiles,
            exactly_once=self.options.exactly_once,
        )

    def own_topics(self, config_ends: Sequence[int]) -> list[str]:
        """Dedicated offsets topics that configs before these end offsets name, for any release.

        The archive may not have them yet.
        """
        topics = self.cluster.topics
        cut = {topics.config: config_ends}
        kip = [Profile.of(KIP)]
        plan = self.plan_at(FittedEnds(cut), kip)
        if not plan.folded and not self._may_name_own_topics(plan):
            return []
        (state,) = self.states(plan, kip)
        named = {topic for name in state.config.connectors for topic in offsets_topics(state, name)}
        return sorted(named - {topics.offsets})

    def _may_name_own_topics(self, plan: ReadPlan) -> bool:
        """True if any config may hold the setting, by text search; usually false."""
        reader = self._reader(())
        return any(
            pc.any(pc.match_substring(rows.read("value").column("value"), hint)).as_py()
            for part in plan.parts
            for rows in reader.runs(part)
            for hint in _OWN_TOPIC
        )


_OWN_TOPIC = ("offsets.storage.topic", "\\u", "\x00")
"""The setting of a dedicated topic, or escapes and wide characters that could hide it."""


class _LocalRanks:
    """Reads the ranks of offsets in this process (`RankReader`)."""

    def __init__(self, reader: PartitionReader) -> None:
        self._reader = reader

    def __call__(self, parts: Sequence[PartitionPlan]) -> list[pa.Table]:
        return [self._reader.ranked(part) for part in parts]


def _ranked(ranks: RankReader, reduced: Sequence[tuple[PartitionPlan, pa.Table]]) -> list[Batch]:
    parts = [part for part, _ in reduced]
    return _batches(zip(parts, ranks(parts), strict=True))


def _batches(reduced: Iterable[tuple[PartitionPlan, pa.Table]]) -> list[Batch]:
    return [batch(part.topic, part.partition, table) for part, table in reduced if table.num_rows]
