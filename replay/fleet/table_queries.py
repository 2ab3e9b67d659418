"""Queries whose answer is one table: each makes the rows of one cluster at a time.

A query is a value without open files, so that Spark's tasks and other processes can run it.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

import msgspec
import pyarrow as pa

from controlplane.core.releases.profiles import Profile
from replay.cluster_problem import ClusterProblem
from replay.engine.local_engine import LocalEngine
from replay.engine.plans.read_plan import ReadPlan
from replay.engine.query import StateQuery
from replay.engine.slices import LIMITS
from replay.engine.states.order_marks import OrderMarks, ReducedParts
from replay.fleet.answer_warnings import KnownConnectors, warn_of_plans
from replay.fleet.archive_source import ArchiveSource, check_files_of
from replay.fleet.cluster_summaries import FleetQuestion
from replay.fleet.order_facts import order_facts
from replay.tables.cells import batches
from replay.tables.schemas import STATE_SCHEMAS
from replay.tables.state_tables import CONNECTORS_TABLE, STATE_TABLES
from replay.timeline.connector_history import HistoryReader
from replay.timeline.history_jobs import HistoryJob, history_steps
from replay.timeline.history_rows import history_rows
from replay.timeline.passes import timelines
from replay.timeline.timeline_rows import EVENTS, INTERVALS, interval_documents, plain_rows
from replay.timeline.work_shares import TimelineJob, TimelineQuery

T = TypeVar("T")


class TableQuery(Protocol[T]):
    """Query whose answer is one table. The rows of a cluster are made from its plan."""

    @property
    def connectors(self) -> tuple[str, ...]:
        """Named connectors; empty means all."""
        ...

    @property
    def schema(self) -> pa.Schema:
        """Columns of the table."""
        ...

    @property
    def moments(self) -> Sequence[str | None]:
        """Moments of the plans; None is the end."""
        ...

    def planned(self, source: ArchiveSource, cluster: str) -> T | ClusterProblem:
        """Open and plan one cluster. Other processes may do this.

        Raises:
            ReplayError: the cluster is unreadable.
            UnknownMoment: the cluster has no such moment.
        """
        ...

    def batches(
        self, source: ArchiveSource, planned: T
    ) -> Iterator[pa.RecordBatch | ClusterProblem | KnownConnectors]:
        """Make the rows of a planned cluster. An error comes before the first row.

        `UncertainAnswer` warns of an answer that is not certain, once before the first row.
        In a trusted archive, a damaged file can end a timeline or a history after some rows. If a
        side of a comparison is unreadable, its problem is yielded in place of rows. A comparison
        also yields the named connectors that it knows: without a difference, they have no rows.

        Raises:
            ReplayError: the cluster is unreadable.
        """
        ...


class StateTableQuery(msgspec.Struct, frozen=True):
    """Table of the state at a moment, for each release."""

    table: str
    """Name in `STATE_TABLES`."""
    moment: str | None
    profiles: tuple[Profile, ...]
    marked_rows: int = LIMITS.fold_rows
    """Number of rows of offsets up to which order-dependent facts are searched. With more rows,
    none are searched."""
    is_silent: bool = False
    """True if another query of the same moment warns of doubts."""

    @property
    def connectors(self) -> tuple[str, ...]:
        """No names: the table has all connectors."""
        return ()

    @property
    def schema(self) -> pa.Schema:
        """Columns of the table."""
        return STATE_SCHEMAS[self.table]

    @property
    def moments(self) -> Sequence[str | None]:
        """The moment of the state."""
        return [self.moment]

    def planned(self, source: ArchiveSource, cluster: str) -> StateQuery:
        """Open and plan one cluster, for every table of the state.

        Raises:
            ReplayError: the cluster is unreadable.
            UnknownMoment: the cluster has no such moment.
        """
        return FleetQuestion(source, self.moment, self.profiles).query(cluster)

    def batches(self, _: ArchiveSource, planned: StateQuery) -> Iterator[pa.RecordBatch]:
        """Fold the topics of the table, then make its rows."""
        local, plan, profiles = planned
        cluster = plan.cluster
        table = STATE_TABLES[self.table]
        read = plan.only(table.topics(plan.topics, list(plan.ends)))
        reduced = local.reduced(read, profiles)
        marks = self._marks(local, plan, list(zip(read.busy, reduced, strict=True)))
        if not self.is_silent:
            warn_of_plans([plan])
        for state in local.states_of(read, profiles, reduced):
            order = order_facts(marks, state) if marks else None
            yield from table.batches(self.schema, cluster, state, order)

    def _marks(self, local: LocalEngine, plan: ReadPlan, parts: ReducedParts) -> OrderMarks | None:
        """Marks for the connectors; offsets are read for them, and not folded."""
        offsets = plan.only(plan.offsets_topics)
        if (
            self.table != CONNECTORS_TABLE
            or sum(part.rows for part in offsets.busy) > self.marked_rows
        ):
            return None
        reduced = local.reduced(offsets, self.profiles)
        return OrderMarks(plan, [*parts, *zip(offsets.busy, reduced, strict=True)])


class IntervalQuery(msgspec.Struct, frozen=True):
    """Periods in which each fact held, up to a moment."""

    moment: str | None
    profiles: tuple[Profile, ...]
    connectors: tuple[str, ...]
    """Only these connectors; empty means all."""
    offsets: bool
    """Include source offsets, the majority of records."""

    @property
    def schema(self) -> pa.Schema:
        """Columns of the table."""
        return INTERVALS

    @property
    def moments(self) -> Sequence[str | None]:
        """The end of the timeline."""
        return [self.moment]

    def planned(self, source: ArchiveSource, cluster: str) -> TimelineJob:
        """Open and plan one cluster, with the doubts about its past.

        Raises:
            ReplayError: the cluster is unreadable.
            UnknownMoment: the cluster has no such moment.
        """
        local = source.local(cluster, derived=False)
        plan = local.plan(self.moment, self.profiles, past=True)
        question = TimelineQuery(self.profiles, self.connectors, source.exactly_once, self.offsets)
        return TimelineJob(local.cluster, plan, question)

    def batches(self, _: ArchiveSource, planned: TimelineJob) -> Iterator[pa.RecordBatch]:
        """Make the rows while the records are read."""
        job = planned
        check_files_of(job.cluster, job.plan)
        warn_of_plans([job.plan])
        document = interval_documents(job)
        rows = (document(shared) for _, shared in timelines([job], lambda _: None))
        return batches(INTERVALS, plain_rows(INTERVALS, rows))


class HistoryQuery(msgspec.Struct, frozen=True):
    """Records that concern some connectors, and their effects, up to a moment."""

    moment: str | None
    profiles: tuple[Profile, ...]
    connectors: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        """Columns of the table."""
        return EVENTS

    @property
    def moments(self) -> Sequence[str | None]:
        """The end of the history."""
        return [self.moment]

    def planned(self, source: ArchiveSource, cluster: str) -> list[HistoryJob]:
        """Open and plan one cluster: a job for each release and connector.

        Raises:
            ReplayError: the cluster is unreadable.
            UnknownMoment: the cluster has no such moment.
        """
        local = source.local(cluster, derived=False)
        plan = local.plan(self.moment, self.profiles, past=True)
        support = source.exactly_once
        return [
            HistoryJob(local.cluster, plan, HistoryReader(name, profile, plan.topics, support))
            for profile in self.profiles
            for name in dict.fromkeys(self.connectors)
        ]

    def batches(self, _: ArchiveSource, planned: list[HistoryJob]) -> Iterator[pa.RecordBatch]:
        """Make the rows while the records are read, connector by connector."""
        for job in planned[:1]:  # all jobs have the same plan
            check_files_of(job.cluster, job.plan)
            warn_of_plans([job.plan])
        steps = ((job, step) for job in planned for step in history_steps(job))
        rows = (row for job, step in steps for row in history_rows(job, step.effects))
        return batches(EVENTS, plain_rows(EVENTS, rows))
