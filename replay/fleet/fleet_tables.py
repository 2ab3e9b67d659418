"""Tables that are small enough for one process: clusters, partitions, findings and verdicts.

The work on each cluster runs on an executor; this process receives its results only.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Generic, NamedTuple, TypeVar

import msgspec
import pyarrow as pa

from controlplane.core.text.safe_text import utf8_text
from replay.audit import fleet_findings
from replay.audit.audit_task import AuditTask
from replay.audit.thresholds import thresholds as read_thresholds
from replay.cluster_problem import ClusterProblem, attempted
from replay.cluster_records import ClusterRecords
from replay.compat import RolloutMode, roll, steps_of
from replay.compat.assessment_report import ReportedAssessment
from replay.compat.compat_task import CompatTask
from replay.doubts import AnswerDoubts
from replay.engine.coverage.archive_coverage import coverage
from replay.engine.executors import Executor
from replay.fleet.answer_warnings import warn_of_doubts
from replay.fleet.archive_source import ArchiveSource
from replay.fleet.cluster_summaries import FleetQuestion
from replay.fleet.table_run import OnUnreadable, skip_or_raise
from replay.tables.cells import RowDocument
from replay.tables.finding_rows import finding_row
from replay.tables.schemas import CLUSTERS, FINDINGS, PARTITIONS, VERDICTS

T = TypeVar("T")


class FleetAnswer(NamedTuple):
    """Table of the readable clusters, and the unreadable ones."""

    table: pa.Table
    problems: Sequence[ClusterProblem]

    def answer(self, unreadable: OnUnreadable) -> pa.Table:
        """Return the table; unreadable clusters are named by warnings, or raised.

        Raises:
            UnreadableCluster: a cluster is unreadable and not to be skipped.
        """
        for problem in self.problems:
            skip_or_raise(problem.line, unreadable)
        return self.table


# --- clusters -------------------------------------------------------------------------------


def cluster_table(source: ArchiveSource, clusters: Sequence[str], by: Executor) -> pa.Table:
    """Describe archived clusters by their manifests; an unreadable one has a problem."""
    described = by.run(partial(_described, source), clusters)
    return pa.Table.from_pylist([row for rows in described for row in rows], CLUSTERS)


def _described(source: ArchiveSource, name: str) -> Iterator[RowDocument]:
    cluster = attempted(name, lambda: source.cluster(name))
    if isinstance(cluster, ClusterProblem):
        yield cluster._asdict()
        return
    files = list(cluster.chain.files)
    segments = [segment for part in cluster.parts.values() for segment in part.segments]
    times = [segment.first_ms for segment in segments if segment.first_ms >= 0]
    latest = [segment.latest_ms for segment in segments if segment.latest_ms >= 0]
    yield {
        "cluster": name,
        "head": cluster.chain.head,
        "segments": len(segments),
        "records": sum(segment.stored.records for segment in segments),
        "bytes": sum(file.bytes for file in files),
        "first_ms": min(times, default=None),
        "latest_ms": max(latest, default=None),
        "secrets": cluster.secrets,
        "gaps": [gap.sentence for gap in cluster.gaps],
    }


def partition_table(source: ArchiveSource, clusters: Sequence[str], by: Executor) -> pa.Table:
    """Describe archived partitions: what they have, what is missing, what is certain."""
    described = by.run(partial(_covered, source), clusters)
    return pa.Table.from_pylist([row for rows in described for row in rows], PARTITIONS)


def _covered(source: ArchiveSource, name: str) -> Iterator[RowDocument]:
    parts = attempted(name, lambda: list(coverage(source.cluster(name))))
    if isinstance(parts, ClusterProblem):
        yield parts._asdict()
        return
    for part in parts:
        yield {"cluster": name, **part.document}


# --- audits ---------------------------------------------------------------------------------


def audit_table(
    question: FleetQuestion, clusters: Sequence[str], changes: Mapping[str, str | int], by: Executor
) -> FleetAnswer:
    """Audit clusters, and the resources that they share.

    Raises:
        BadThreshold: a threshold is unknown or has an invalid value.
    """
    task = AuditTask(question.profiles[0], read_thresholds(changes))
    outcomes, problems = _judged(question, task, clusters, by, past=True)
    findings = fleet_findings(outcome.audited for outcome in outcomes)
    rows = [finding_row(finding) for finding in findings]
    return FleetAnswer(pa.Table.from_pylist(rows, FINDINGS), problems)


# --- release changes ------------------------------------------------------------------------


def compat_table(
    question: FleetQuestion,
    clusters: Sequence[str],
    mode: RolloutMode | None,
    by: Executor,
    *,
    transitive: bool,
) -> FleetAnswer:
    """Assess a release change, between the two releases of the question.

    Raises:
        BadReleaseChange: the mode contradicts the direction.
    """
    start, goal = question.profiles
    change = roll(start, goal, mode)
    task = CompatTask(tuple(steps_of(change)) if transitive else (change,))
    outcomes, problems = _judged(question, task, clusters, by)
    rows = [row for outcome in outcomes for step in outcome.rolls for row in _verdict_rows(step)]
    return FleetAnswer(pa.Table.from_pylist(rows, VERDICTS), problems)


def _verdict_rows(assessment: ReportedAssessment) -> Iterator[RowDocument]:
    for connector in assessment.connectors:
        name = connector.connector
        yield {
            "cluster": assessment.cluster,
            "start": assessment.start,
            "goal": assessment.goal,
            "connector": None if name is None else utf8_text(name),
            "verdict": connector.verdict,
            "reasons": [utf8_text(reason) for reason in connector.reasons],
        }


# --- judgements of records ------------------------------------------------------------------


class ClusterJudgement(NamedTuple, Generic[T]):
    """Judgement of the records of one cluster, with its gaps and doubts."""

    cluster: str
    result: T
    gaps: list[str]
    doubts: AnswerDoubts


class RecordsTask(msgspec.Struct, Generic[T], frozen=True):
    """Task: open one cluster, and judge its records."""

    source: ArchiveSource
    moment: str | None
    judge: Callable[[ClusterRecords], T]
    past: bool
    """True if the judgement also depends on the states before the moment."""

    def __call__(self, name: str) -> Iterator[ClusterJudgement[T] | ClusterProblem]:
        """Yield the judgement of a cluster, or its problem."""
        yield attempted(name, lambda: self._judged(name))

    def _judged(self, name: str) -> ClusterJudgement[T]:
        log = self.source.records(name, self.moment)
        gaps = [gap.sentence for gap in log.gaps]
        doubts = log.past_doubts if self.past else log.doubts
        return ClusterJudgement(name, self.judge(log), gaps, doubts)


def _judged(
    question: FleetQuestion,
    judge: Callable[[ClusterRecords], T],
    clusters: Sequence[str],
    by: Executor,
    *,
    past: bool = False,
) -> tuple[list[T], list[ClusterProblem]]:
    """Judgements and problems, in the order of the clusters; warn of uncertain judgements."""
    task = RecordsTask(question.source, question.moment, judge, past)
    judgements: list[T] = []
    problems: list[ClusterProblem] = []
    for answer in chain.from_iterable(by.run(task, clusters)):
        if isinstance(answer, ClusterProblem):
            problems.append(answer)
        else:
            warn_of_doubts(answer.cluster, answer.gaps, [answer.doubts])
            judgements.append(answer.result)
    return judgements, problems
