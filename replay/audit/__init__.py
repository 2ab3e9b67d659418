"""Audits: problems in the logs of a fleet that no status page shows.

Pure functions over ordered entries, in a single pass. Memory grows with the number of keys and of
workers, not of records.
"""

from collections.abc import Iterable

from replay.audit.audit_pass import (
    AuditPass,
    AuditResult,
    AuditSubject,
    RecordListener,
    ignore_record,
)
from replay.audit.decoded_log import ClusterLog
from replay.audit.shared_topics import in_common
from replay.audit.thresholds import Thresholds
from replay.findings import Finding, Severity, by_name

__all__ = ["AuditResult", "ClusterLog", "audit", "audited", "fleet_findings", "worst_first"]

_WORST_FIRST = {severity: -rank for rank, severity in enumerate(Severity)}


def audit(clusters: Iterable[ClusterLog], thresholds: Thresholds | None = None) -> list[Finding]:
    """Audit these clusters; return all findings, the worst first.

    The entries of one cluster are consumed before those of the next.
    """
    return fleet_findings([audited(cluster, thresholds) for cluster in clusters])


def fleet_findings(fleet: Iterable[AuditResult]) -> list[Finding]:
    """Combine the findings of clusters with those between them, the worst first."""
    clusters = list(fleet)
    alone = (finding for cluster in clusters for finding in cluster.findings)
    return sorted([*alone, *in_common(cluster.shares for cluster in clusters)], key=worst_first)


def audited(
    cluster: ClusterLog,
    thresholds: Thresholds | None = None,
    listener: RecordListener = ignore_record,
) -> AuditResult:
    """Audit one cluster in one pass; `listener` shares the pass."""
    running = AuditPass(
        AuditSubject(
            cluster.name,
            cluster.profile,
            cluster.topics,
            cluster.exactly_once,
            thresholds or Thresholds(),
            cluster.trail,
            cluster.may_be_older,
        ),
        listener,
    )
    findings = running.take_all(cluster.entries)
    return AuditResult((*findings, *running.pending()), running.shares())


def worst_first(finding: Finding) -> tuple[object, ...]:
    """Sort key of findings: the worst first, then by cluster, connector, kind and evidence."""
    rank, evidence = _WORST_FIRST[finding.severity], finding.evidence
    return rank, finding.cluster, by_name(finding.connector), finding.kind, evidence
