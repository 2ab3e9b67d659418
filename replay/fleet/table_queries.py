"""Queries whose answer is one table: each makes the rows of one cluster at a time.

A query is a value without open files, so that Spark's tasks and other processes can run it.
"""

from collections.abc import Iterator
from typing import Protocol

import msgspec
import pyarrow as pa

from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.core.views.diff import differences
from replay.engine.local_engine import LocalEngine
from replay.engine.ordered_records import ordered
from replay.engine.read_plan import ReadPlan
from replay.fleet.archive_source import ArchiveSource, check_files_of
from replay.fleet.cluster_summaries import FleetQuestion
from replay.tables.cells import RowDocument, batches
from replay.tables.schemas import STATE_SCHEMAS
from replay.tables.state_tables import STATE_TABLES
from replay.timeline.connector_history import HistoryPass, HistoryReader
from replay.timeline.difference_rows import DiffSide, change_rows
from replay.timeline.history_rows import event_rows, history_head
from replay.timeline.interval_doubts import IntervalDoubts
from replay.timeline.passes import timelines
from replay.timeline.shared_fold import chunks
from replay.timeline.timeline_rows import CHANGES, EVENTS, INTERVALS, of_interval, plain_rows
from replay.timeline.work_shares import TimelineJob, TimelineQuery


class TableQuery(Protocol):
    """Query whose answer is one table."""

    @property
    def schema(self) -> pa.Schema:
        """Columns of the table."""
        ...

    def batches(self, source: ArchiveSource, cluster: str) -> Iterator[pa.RecordBatch]:
        """Make the rows of one cluster. An error comes before the first row.

        Raises:
            ReplayError: the cluster is unreadable.
            UnknownMoment: the cluster has no such moment.
        """
        ...


class StateTableQuery(msgspec.Struct, frozen=True):
    """Table of the state at a moment, for each release."""

    table: str
    """Name in `STATE_TABLES`."""
    moment: str | None
    profiles: tuple[Profile, ...]

    @property
    def schema(self) -> pa.Schema:
        """Columns of the table."""
        return STATE_SCHEMAS[self.table]

    def plan(self, local: LocalEngine) -> ReadPlan:
        """Plan that reads only the topics of the table."""
        plan = local.plan(self.moment, self.profiles)
        return plan.only(STATE_TABLES[self.table].topics(plan.topics, list(plan.ends)))

    def batches(self, source: ArchiveSource, cluster: str) -> Iterator[pa.RecordBatch]:
        """Fold the cluster, then make its rows."""
        local = source.local(cluster)
        states = local.states(self.plan(local), self.profiles)
        for state in states:
            yield from batches(self.schema, STATE_TABLES[self.table].of(cluster, state))


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

    def batches(self, source: ArchiveSource, cluster: str) -> Iterator[pa.RecordBatch]:
        """Make the rows while the records are read."""
        local = source.local(cluster, derived=False)
        plan = local.plan(self.moment, self.profiles)
        check_files_of(local.cluster, plan)
        question = TimelineQuery(self.profiles, self.connectors, source.exactly_once, self.offsets)
        job = TimelineJob(local.cluster, plan, question)
        doubts = IntervalDoubts(local.cluster, plan.ends)
        rows = (of_interval(doubts, shared) for _, shared in timelines([job], lambda _: None))
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

    def batches(self, source: ArchiveSource, cluster: str) -> Iterator[pa.RecordBatch]:
        """Make the rows while the records are read, connector by connector."""
        local = source.local(cluster, derived=False)
        plan = local.plan(self.moment, self.profiles)
        check_files_of(local.cluster, plan)
        rows = self._rows(source, local, plan)
        return batches(EVENTS, plain_rows(EVENTS, rows))

    def _rows(
        self, source: ArchiveSource, local: LocalEngine, plan: ReadPlan
    ) -> Iterator[RowDocument]:
        for profile in self.profiles:
            for name in self.connectors:
                reader = HistoryReader(name, profile, plan.topics, source.exactly_once)
                past, head = HistoryPass(reader), history_head(plan.cluster, reader)
                for records in chunks(ordered(local.cluster, plan.parts)):
                    yield from (head | row for row in event_rows(past.take(records), reader))


class MomentRelease(msgspec.Struct, frozen=True):
    """Side of a comparison: moment and release; a moment of None is the end."""

    moment: str | None
    profile: Profile
    cluster: str | None = None
    """Cluster of the side; None: the queried one."""


class DifferenceQuery(msgspec.Struct, frozen=True):
    """Differences between two moments, releases or clusters."""

    before: MomentRelease
    after: MomentRelease
    connectors: tuple[str, ...]
    """Only these connectors; empty means all."""

    @property
    def schema(self) -> pa.Schema:
        """Columns of the table."""
        return CHANGES

    def batches(self, source: ArchiveSource, cluster: str) -> Iterator[pa.RecordBatch]:
        """Fold both sides, then compare them."""
        (old, before), (new, after) = (
            _folded(source, side.cluster or cluster, side) for side in (self.before, self.after)
        )
        changes = (
            difference
            for difference in differences(before, after)
            if not self.connectors or difference.connector in self.connectors
        )
        yield from batches(CHANGES, plain_rows(CHANGES, change_rows(old, new, changes)))


def _folded(
    source: ArchiveSource, cluster: str, side: MomentRelease
) -> tuple[DiffSide, ClusterState]:
    plan, (state,) = FleetQuestion(source, side.moment, (side.profile,)).fold(cluster)
    return DiffSide(cluster, side.profile.release, plan.ends), state
