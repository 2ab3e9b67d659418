"""The engine in Spark: one job for all clusters that are asked about, if that is not too much.

    file lists → mapInArrow(read, reduce) → rows that count
      (only of a partition that was sliced:) → shuffle by partition → mapInArrow(merge) ↗

What a task reads it reads by itself, from the store that the archive names; the JVM sees file lists
and parcels of bytes. The rows in them come to the driver, where the core folds them.
"""

from collections.abc import Sequence
from functools import partial, reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from controlplane.core.state import ClusterState
from replay.archive.integrity import Checked
from replay.engine.asked import Asked
from replay.engine.jobs import PARALLELISM, run
from replay.engine.parcels import PIECES_DDL, parcels, rows_of
from replay.engine.plan import PartPlan
from replay.engine.slicing import LIMITS, Limits, Slice, bundles, in_jobs, slices
from replay.engine.tasks import TASKS, Asker, Numbered, Work, encoded, merged, reduced
from replay.engine.where import anywhere
from replay.progress import Progress, Unseen


class Spark:
    """Answers questions about the archives of many clusters."""

    def __init__(
        self, session: SparkSession, limits: Limits = LIMITS, progress: Progress | None = None
    ) -> None:
        self._session = session
        self._limits = limits
        self._progress = progress or Unseen()

    def states(self, asked: Sequence[Asked]) -> list[list[ClusterState]]:
        """For each question what a worker of each release knows.

        Raises:
            ArchiveCorrupt: a file is missing or damaged.
            NoSpark: Spark has failed.
        """
        return [states for some in in_jobs(asked, self._limits) for states in self._states(some)]

    def _states(self, asked: Sequence[Asked]) -> list[list[ClusterState]]:
        works = self.works(asked)
        cut = [self._slices(one, part) for one in asked for part in one.plan.busy]
        tables = iter(self.rows(works, cut))
        reduced = [[next(tables) for _ in one.plan.busy] for one in asked]
        ranks = [_Ranks() for _ in asked]
        known = list(map(_folded, asked, reduced, ranks))
        self._rank(asked, ranks)
        return [
            _folded(one, tables, some) if some.wanted else states
            for one, tables, some, states in zip(asked, reduced, ranks, known, strict=True)
        ]

    def works(self, asked: Sequence[Asked]) -> list[Work]:
        """What has to be reduced for them: each busy part of each plan."""
        return [_work(one, part) for one in asked for part in one.plan.busy]

    def _slices(self, one: Asked, part: PartPlan) -> list[Slice]:
        return slices(one.local.cluster, part, self._limits)

    def _rank(self, asked: Sequence[Asked], ranks: Sequence["_Ranks"]) -> None:
        """Find the ranks that were asked for, of all clusters at once: a job more at most."""
        works = [
            _work(one, part, ranked=True)
            for one, some in zip(asked, ranks, strict=True)
            for part in some.wanted
        ]
        tables = iter(self.rows(works))
        for some in ranks:
            some.found = {part: next(tables) for part in some.wanted}

    def rows(
        self, works: Sequence[Work], cut: Sequence[Sequence[Slice]] | None = None
    ) -> list[pa.Table]:
        """What is left of each, by one job; `cut`: the slices of each, if they are not whole.

        Raises:
            ArchiveCorrupt: a file is missing or damaged.
            NoSpark: Spark has failed.
        """
        if not works:
            return []
        frame = self.frame(works, cut or [[Slice(work.part, None)] for work in works])
        return [rows_of(parcel.content) for parcel in parcels(run(frame, self._progress))]

    def frame(self, works: Sequence[Work], cut: Sequence[Sequence[Slice]]) -> DataFrame:
        """The same as a plan of Spark's."""
        whole: list[Numbered] = []
        sliced: list[Numbered] = []
        for number, (work, some) in enumerate(zip(works, cut, strict=True)):
            into = whole if len(some) == 1 else sliced
            into += [Numbered(number, at, work.of(*one)) for at, one in enumerate(some)]
        slots = self._session.sparkContext.defaultParallelism
        tasks = [bundles(some, slots, self._limits) for some in (whole, sliced)]
        self._session.conf.set(PARALLELISM, max(map(len, tasks)))
        frames = [self._reduced(some) for some in tasks if some]
        if sliced:
            frames[-1] = _merged(frames[-1], {one.number: works[one.number] for one in sliced})
        return reduce(DataFrame.unionAll, frames)

    def _reduced(self, tasks: Sequence[Sequence[Numbered]]) -> DataFrame:
        """What tasks leave of their works: one row of the table is one task."""
        table = pa.table({"works": [encoded(one) for one in tasks]}, schema=TASKS)
        frame = self._session.createDataFrame(table)
        return frame.mapInArrow(reduced, PIECES_DDL)


class _Ranks:
    """The ranks of the last rows of an offsets topic (`engine.local.Ranks`).

    Seldom does a fold ask for any. What it asks is remembered, answered with nothing, and found out
    for all clusters together; then it asks again.
    """

    def __init__(self) -> None:
        self.wanted: list[PartPlan] = []
        self.found: dict[PartPlan, pa.Table] = {}

    def __call__(self, parts: Sequence[PartPlan]) -> list[pa.Table]:
        if self.found:
            return [self.found[part] for part in parts]
        self.wanted += [part for part in parts if part not in self.wanted]
        return [_NOTHING for _ in parts]


_NOTHING = pa.table({})


def _folded(one: Asked, reduced: Sequence[pa.Table], ranks: _Ranks) -> list[ClusterState]:
    return one.local.folded(one.plan, one.profiles, reduced, ranks)


def _merged(slices_left: DataFrame, whole: dict[int, Work]) -> DataFrame:
    """What is left of slices, by partition: the one shuffle."""
    merging = partial(merged, whole=whole)
    return slices_left.repartition(len(whole), "work").mapInArrow(merging, PIECES_DDL)


def _work(one: Asked, part: PartPlan, *, ranked: bool = False) -> Work:
    local = one.local
    store = local.cluster.store
    asker = Asker(
        anywhere(store.where),
        store.settings,
        not isinstance(store, Checked),
        local.cluster.topics,
        tuple(profile.release for profile in one.profiles),
        local.options.exactly_once,
    )
    return Work(asker, part, ranked=ranked)
