"""Summaries of folded clusters: the digest and the counts, without rows of the state."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import pyarrow as pa

from controlplane.core.order import Ends
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from replay.doubts import AnswerDoubts, Doubt, EndVector
from replay.engine.plans.read_plan import ReadPlan
from replay.engine.query import StateQuery
from replay.engine.states.order_marks import OffsetMarks, OrderMarks
from replay.engine.states.state_digest import digest_text, offsets_sum, sum_without_offsets
from replay.fleet.archive_source import ArchiveSource
from replay.tables.cells import RowDocument, json_cell
from replay.tables.schemas import SUMMARIES


class StateSummary(msgspec.Struct, frozen=True):
    """State of one release: its digest and counts, or those of a part of it."""

    cluster: str
    release: str | None = None
    """None if the cluster is unreadable."""
    as_of: dict[str, list[int]] = {}
    digest_sum: str = "0"
    """Sum of the hashes of the rows, in decimal digits: it exceeds MessagePack's 64 bits."""
    rows: dict[str, int] = {}
    """Written rows by table; a table that was not written is absent."""
    unreadable: int = 0
    gaps: tuple[str, ...] = ()
    problem: str | None = None
    doubts: tuple[Doubt, ...] = ()
    order_marks: dict[str, OffsetMarks] = {}
    """Offsets of a part that depend on the order between partitions, by connector.

    In names of connectors, half surrogate pairs are written as escapes (`utf8_text`).
    """
    certain_from: EndVector | None = None
    """Earliest moment without the doubts; None if there is none."""

    @property
    def answer_doubts(self) -> AnswerDoubts:
        """The doubts, with the earliest moment without them."""
        return AnswerDoubts(self.doubts, self.certain_from)

    @property
    def row(self) -> RowDocument:
        """The summary as a row of `schemas.SUMMARIES`."""
        head: RowDocument = {"cluster": self.cluster, "release": self.release}
        head |= {"gaps": list(self.gaps), "doubts": [doubt.sentence for doubt in self.doubts]}
        if self.problem is not None:
            return head | {"problem": self.problem}
        answer = {"as_of": json_cell(self.as_of), "digest": digest_text(int(self.digest_sum))}
        if self.certain_from is not None:
            answer["certain_from"] = json_cell(self.certain_from)
        return head | answer | {"unreadable": self.unreadable} | self.rows


def summary_of(
    plan: ReadPlan, state: ClusterState, rows: Mapping[str, int], *, offsets: bool = True
) -> StateSummary:
    """Summarise a state; without `offsets`, they are summarised elsewhere."""
    total = sum_without_offsets(state) + (offsets_sum(state.offsets) if offsets else 0)
    return StateSummary(
        plan.cluster,
        state.profile.release,
        plan.ends,
        str(total),
        dict(rows),
        state.unreadable_count,
        tuple(gap.sentence for gap in plan.gaps),
        doubts=plan.doubts,
        certain_from=plan.certain_from,
    )


class FoldedCluster(NamedTuple):
    """States of one cluster, one per release, and the plan by which they were read."""

    plan: ReadPlan
    states: list[ClusterState]
    marks: OrderMarks | None = None
    """Facts that depend on the order between partitions, if they were searched."""


class ClusterCut(NamedTuple):
    """Cluster, and the end offsets of its state if they are fixed.

    Fixed ends give each part of a state, and each attempt of a task, the same records. The archive
    may grow meanwhile.
    """

    cluster: str
    ends: dict[str, list[int]] | None = None
    """None: the moment of the question decides."""


class FleetQuestion(msgspec.Struct, frozen=True):
    """Archive, moment and releases of the wanted states."""

    source: ArchiveSource
    moment: str | None
    profiles: tuple[Profile, ...]

    def query(self, cluster: str, ends: Ends | None = None) -> StateQuery:
        """Open and plan one cluster; `ends` are those of an earlier plan.

        Raises:
            ReplayError: the cluster is unreadable.
            UnknownMoment: the cluster has no such moment.
        """
        local = self.source.local(cluster)
        plan = local.plan(self.moment, self.profiles, ends=ends)
        return StateQuery(local, plan, self.profiles)


def folded(query: StateQuery, *, offsets: bool = True, marked: bool = False) -> FoldedCluster:
    """Fold one cluster, on request without its offsets, or with marks.

    Raises:
        ReplayError: the cluster is unreadable.
    """
    local, plan, profiles = query
    others = [topic for topic in plan.ends if topic not in plan.offsets_topics]
    read = plan if offsets else plan.only(others)
    reduced = local.reduced(read, profiles)
    # Marks first: the search and the fold then do not need their memory at the same time.
    parts = zip(read.busy, reduced, strict=True)
    marks = OrderMarks(plan, list(parts)) if marked else None
    return FoldedCluster(plan, local.states_of(read, profiles, reduced), marks)


def joined(summaries: Iterable[StateSummary]) -> list[StateSummary]:
    """Add up the summaries of parts of a state; one with a problem makes its cluster unreadable."""
    problems: dict[str, StateSummary] = {}
    whole: dict[tuple[str, str | None], StateSummary] = {}
    for summary in summaries:
        if summary.problem is not None:
            problems.setdefault(summary.cluster, summary)
            continue
        key = summary.cluster, summary.release
        whole[key] = _sum(whole[key], summary) if key in whole else summary
    readable = [summary for summary in whole.values() if summary.cluster not in problems]
    return [*readable, *problems.values()]


def _sum(summary: StateSummary, part: StateSummary) -> StateSummary:
    tables = {**summary.rows, **part.rows}
    return msgspec.structs.replace(
        summary,
        as_of=summary.as_of or part.as_of,
        digest_sum=str(int(summary.digest_sum) + int(part.digest_sum)),
        rows={table: summary.rows.get(table, 0) + part.rows.get(table, 0) for table in tables},
        unreadable=summary.unreadable + part.unreadable,
        gaps=summary.gaps or part.gaps,
        doubts=summary.doubts or part.doubts,
        certain_from=summary.certain_from or part.certain_from,
        order_marks=added_marks([*summary.order_marks.items(), *part.order_marks.items()]),
    )


def added_marks(of_parts: Iterable[tuple[str, OffsetMarks]]) -> dict[str, OffsetMarks]:
    """Add up the marks of each connector."""
    marks: dict[str, OffsetMarks] = {}
    for connector, part in of_parts:
        marks[connector] = marks.get(connector, OffsetMarks()).plus(part)
    return marks


def summary_table(summaries: Sequence[StateSummary], clusters: Sequence[str]) -> pa.Table:
    """Summaries as a table, in the order of the clusters."""
    return cluster_table([summary.row for summary in summaries], clusters, SUMMARIES)


def cluster_table(
    rows: Iterable[RowDocument], clusters: Sequence[str], schema: pa.Schema
) -> pa.Table:
    """Rows with a column `cluster` as a table, in the order of the clusters."""
    order = {cluster: number for number, cluster in enumerate(clusters)}
    return pa.Table.from_pylist(sorted(rows, key=lambda row: order[row["cluster"]]), schema)
