"""The engine in this process: threads over partitions, no JVM. For all but fleets the fastest."""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from controlplane.core.entry import Batch
from controlplane.core.evolve import Part
from controlplane.core.profiles import KIP, Profile
from controlplane.core.state import ClusterState
from controlplane.core.views import offsets_topics
from controlplane.logs.cuts import Cut
from replay.archive.cluster import Cluster
from replay.archive.manifest import Snapshot
from replay.archive.winners import reducible
from replay.engine.folded import thawed
from replay.engine.folding import Question, Reduced, states
from replay.engine.gaps import gaps_before
from replay.engine.moments import cut_at
from replay.engine.plan import Begun, PartPlan, Plan, nearest, planned
from replay.engine.reading import Reader
from replay.kernels.batches import batch
from replay.progress import Advance

Ranks = Callable[[Sequence[PartPlan]], Sequence[pa.Table]]
"""Reads parts of an offsets topic once more: the last row of each key, with its rank's time."""


class Options(NamedTuple):
    """How to read an archive."""

    exactly_once: bool = False
    """As workers with exactly-once support do: without records of aborted transactions."""
    derived: bool = True
    """Snapshots and winners may stand in for the records that they were made of."""


class Local:
    """Answers questions about the archive of one cluster."""

    def __init__(self, cluster: Cluster, options: Options | None = None) -> None:
        self.cluster = cluster
        self.options = options or Options()
        self._thawed: dict[tuple[str, tuple[str, ...]], dict[str, dict[Profile, Part]]] = {}

    def plan(self, moment: str | None, profiles: Sequence[Profile]) -> Plan:
        """What is to be read for the states at a moment; None: at the end of the archive.

        Raises:
            UnknownMoment: not such a text, or the archive has nothing there.
            ArchiveCorrupt: a file in which the moment lies is missing or damaged.
        """
        cut = cut_at(self.cluster, moment, self.own_topics)
        gaps = gaps_before(self.cluster, cut, moment)
        return replace(self.plan_at(cut, profiles), gaps=gaps)

    def plan_at(self, cut: Cut, profiles: Sequence[Profile]) -> Plan:
        """What is to be read for the states at a cut."""
        derived = self.options.derived
        snapshot = nearest(self.cluster, cut.ends) if derived else None
        folded: tuple[str, ...] = ()
        if not all(reducible(topic, self.cluster.topics) for topic in cut.ends):
            folded = tuple(topic for topic in self._known(snapshot, profiles) if topic in cut.ends)
        return planned(self.cluster, cut, Begun(snapshot, folded), derived=derived)

    def states(
        self,
        plan: Plan,
        profiles: Sequence[Profile],
        advance: Advance = lambda _: None,
    ) -> list[ClusterState]:
        """What a worker of each release knows at the plan's cut.

        `advance` is told how many rows more have been read, partition by partition.

        Raises:
            ArchiveCorrupt: a file is missing or damaged.
        """
        reader = self._reader(profiles)
        tables = []
        with ThreadPoolExecutor(_threads(plan.busy)) as threads:
            for part, table in zip(plan.busy, threads.map(reader.reduced, plan.busy), strict=True):
                tables.append(table)
                advance(part.rows)
        return self.folded(plan, profiles, tables, _Here(reader))

    def folded(
        self, plan: Plan, profiles: Sequence[Profile], reduced: Iterable[pa.Table], ranks: Ranks
    ) -> list[ClusterState]:
        """The same of rows that somebody has reduced: for each busy part of the plan a table."""
        begun = {
            topic: known
            for topic, known in self._known(plan.snapshot, profiles).items()
            if topic in plan.folded
        }
        tables: dict[str, list[tuple[PartPlan, pa.Table]]] = {topic: [] for topic in begun}
        for part, table in zip(plan.busy, reduced, strict=True):
            tables.setdefault(part.topic, []).append((part, table))
        question = Question(self.cluster.topics, profiles, plan.ends, self.options.exactly_once)
        return states(
            question,
            [
                Reduced(topic, _batches(some), partial(_ranked, ranks, some), begun.get(topic, {}))
                for topic, some in tables.items()
            ],
        )

    def _known(
        self, snapshot: Snapshot | None, profiles: Sequence[Profile]
    ) -> dict[str, dict[Profile, Part]]:
        """What a snapshot knows of topics, for all of these releases."""
        if snapshot is None or snapshot.folded is None:
            return {}
        key = snapshot.folded.file, tuple(one.release for one in profiles)
        if key not in self._thawed:  # asked when planning, and again when folding
            store, topics = self.cluster.store, self.cluster.topics
            support = self.options.exactly_once
            self._thawed[key] = thawed(
                store, snapshot.folded, topics, profiles, exactly_once=support
            )
        return self._thawed[key]

    def _reader(self, profiles: Sequence[Profile]) -> Reader:
        return Reader(
            self.cluster.store,
            self.cluster.topics,
            profiles,
            exactly_once=self.options.exactly_once,
        )

    def own_topics(self, config_ends: Sequence[int]) -> list[str]:
        """The offsets topics of connectors' own that are named up to these ends, as all see it."""
        topics = self.cluster.topics
        reading = Local(self.cluster, self.options._replace(exactly_once=False))
        cut = {topics.config: config_ends}
        kip = [Profile.of(KIP)]
        plan = reading.plan_at(Cut(cut), kip)
        if not plan.folded and not reading._may_name_own_topics(plan):
            return []
        (state,) = reading.states(plan, kip)
        named = {one for name in state.config.connectors for one in offsets_topics(state, name)}
        return sorted(named - {topics.offsets})

    def _may_name_own_topics(self, plan: Plan) -> bool:
        """Whether any config may have the setting, as text: seldom, and then nothing is folded."""
        reader = self._reader(())
        return any(
            pc.any(pc.match_substring(rows.read("value").column("value"), hint)).as_py()
            for part in plan.parts
            for rows in reader.runs(part)
            for hint in _OWN_TOPIC
        )


_OWN_TOPIC = ("offsets.storage.topic", "\\u", "\x00")
"""The setting by which a connector has a topic of its own; or escapes, or wide characters, by which
it can be written so that it does not look like it."""


class _Here:
    """Reads the ranks of offsets in this process (`Ranks`)."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def __call__(self, parts: Sequence[PartPlan]) -> list[pa.Table]:
        return [self._reader.ranked(part) for part in parts]


def _ranked(ranks: Ranks, reduced: Sequence[tuple[PartPlan, pa.Table]]) -> list[Batch]:
    parts = [part for part, _ in reduced]
    return _batches(zip(parts, ranks(parts), strict=True))


def _batches(reduced: Iterable[tuple[PartPlan, pa.Table]]) -> list[Batch]:
    return [batch(part.topic, part.partition, table) for part, table in reduced if table.num_rows]


def _threads(parts: Sequence[PartPlan]) -> int:
    return max(1, min(len(parts), os.cpu_count() or 1))
