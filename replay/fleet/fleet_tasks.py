"""Answers that are small enough for one process: clusters, findings and verdicts of a fleet.

The work on each cluster runs on an executor; this process receives its findings only.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from controlplane.core.moments import UnknownMoment
from replay.audit import AuditResult, ClusterLog, audited, fleet_findings
from replay.audit.thresholds import Thresholds
from replay.audit.thresholds import thresholds as read_thresholds
from replay.compat import ReleaseChange, RolloutMode, assess, roll, steps_of
from replay.compat.assessment_report import ReportedAssessment, reported
from replay.engine.certainty import ArchiveCertainty
from replay.engine.coverage import coverage
from replay.engine.executors import Executor
from replay.engine.ordered_records import records
from replay.errors import ReplayError
from replay.fleet.archive_source import ArchiveSource, ClusterProblem, UnreadableCluster
from replay.fleet.cluster_summaries import FleetQuestion
from replay.fleet.table_run import OnUnreadable, SkippedCluster
from replay.tables.cells import RowDocument, arrow_text
from replay.tables.finding_rows import finding_row
from replay.tables.schemas import CLUSTERS, FINDINGS, PARTITIONS, VERDICTS


class FleetAnswer(NamedTuple):
    """Table of the readable clusters, and the unreadable ones."""

    table: pa.Table
    problems: Sequence[ClusterProblem]

    def answer(self, unreadable: OnUnreadable) -> pa.Table:
        """Return the table; unreadable clusters are named by warnings, or raised.

        Raises:
            UnreadableCluster: a cluster is unreadable and not to be skipped.
        """
        for cluster, problem in self.problems:
            if unreadable is OnUnreadable.RAISE:
                raise UnreadableCluster(f"{cluster}: {problem}")
            warnings.warn(SkippedCluster(f"{cluster}: {problem}"), stacklevel=3)
        return self.table


# --- clusters -------------------------------------------------------------------------------


def cluster_table(source: ArchiveSource, clusters: Sequence[str], by: Executor) -> pa.Table:
    """Describe archived clusters by their manifests; an unreadable one has a problem."""
    described = by.run(partial(_described, source), clusters)
    return pa.Table.from_pylist([row for rows in described for row in rows], CLUSTERS)


def _described(source: ArchiveSource, name: str) -> Iterator[RowDocument]:
    try:
        cluster = source.cluster(name)
    except ReplayError as error:
        yield {"cluster": name, "problem": str(error)}
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
    try:
        rows = [part.document for part in coverage(source.cluster(name))]
    except ReplayError as error:
        rows = [{"problem": str(error)}]
    for row in rows:
        yield {"cluster": name, **row}


# --- audits ---------------------------------------------------------------------------------


def audit_table(
    question: FleetQuestion, clusters: Sequence[str], changes: Mapping[str, str], by: Executor
) -> FleetAnswer:
    """Audit clusters, and the resources that they share.

    Raises:
        BadThreshold: a threshold is unknown or has an invalid value.
    """
    work = AuditOfCluster(question, read_thresholds(dict(changes)))
    results, problems = _divided(by.run(work, clusters))
    rows = [finding_row(finding) for finding in fleet_findings(results)]
    return FleetAnswer(pa.Table.from_pylist(rows, FINDINGS), problems)


class AuditOfCluster(msgspec.Struct, frozen=True):
    """Task: audit one cluster."""

    question: FleetQuestion
    limits: Thresholds

    def __call__(self, name: str) -> Iterator[AuditResult | ClusterProblem]:
        """Yield the findings of a cluster, or its problem."""
        source, moment, (profile, *_) = msgspec.structs.astuple(self.question)
        try:
            cluster = source.cluster(name)
            log = ClusterLog(
                name,
                records(cluster, moment),
                profile,
                cluster.topics,
                source.exactly_once,
                first_seen=ArchiveCertainty(cluster).may_be_older,
            )
            yield audited(log, self.limits)
        except (ReplayError, UnknownMoment) as error:
            yield ClusterProblem(name, str(error))


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
    work = CompatOfCluster(question, tuple(steps_of(change)) if transitive else (change,))
    results, problems = _divided(by.run(work, clusters))
    rows = [row for assessment in results for row in _verdict_rows(assessment)]
    return FleetAnswer(pa.Table.from_pylist(rows, VERDICTS), problems)


class CompatOfCluster(msgspec.Struct, frozen=True):
    """Task: assess one cluster, for each step of a release change."""

    question: FleetQuestion
    steps: tuple[ReleaseChange, ...]

    def __call__(self, name: str) -> Iterator[ReportedAssessment | ClusterProblem]:
        """Yield the assessment of each step, or the problem of the cluster."""
        source, moment = self.question.source, self.question.moment
        try:
            cluster = source.cluster(name)
            entries = list(records(cluster, moment))
        except (ReplayError, UnknownMoment) as error:
            yield ClusterProblem(name, str(error))
            return
        for change in self.steps:
            assessment = assess(
                entries,
                change,
                topics=cluster.topics,
                cluster=name,
                exactly_once=source.exactly_once,
            )
            yield reported(assessment, cluster.topics)


def _verdict_rows(assessment: ReportedAssessment) -> Iterator[RowDocument]:
    for connector in assessment.connectors:
        name = connector.connector
        yield {
            "cluster": assessment.cluster,
            "start": assessment.start,
            "goal": assessment.goal,
            "connector": None if name is None else arrow_text(name),
            "verdict": connector.verdict,
            "reasons": [arrow_text(reason) for reason in connector.reasons],
        }


def _divided(answers: Any) -> tuple[list[Any], list[ClusterProblem]]:
    """Results and problems, in the order of the clusters."""
    every = [answer for cluster_answers in answers for answer in cluster_answers]
    problems = [answer for answer in every if isinstance(answer, ClusterProblem)]
    return [answer for answer in every if not isinstance(answer, ClusterProblem)], problems
