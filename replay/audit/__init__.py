"""Audits: problems in the logs of a fleet that no status page shows.

Pure functions over ordered entries, in a single pass; their memory grows with the number of keys.
"""

from collections.abc import Iterable

import msgspec

from replay.audit.context import Audit, AuditContext, LogClock
from replay.audit.decoded_log import ClusterLog, read
from replay.audit.kinds import TABLE
from replay.audit.shared_topics import SharedResourceFinder, SharedResources, in_common
from replay.audit.thresholds import Thresholds
from replay.findings import Finding, Severity, by_name

__all__ = ["AuditResult", "ClusterLog", "audit", "audited", "together"]

_WORST_FIRST = {severity: -rank for rank, severity in enumerate(Severity)}


class AuditResult(msgspec.Struct, frozen=True):
    """Result of one cluster: findings, and resources that it may share with others."""

    findings: tuple[Finding, ...]
    shares: SharedResources


def audit(clusters: Iterable[ClusterLog], thresholds: Thresholds | None = None) -> list[Finding]:
    """Audit these clusters; return all findings, the worst first.

    The entries of one cluster are consumed before those of the next.
    """
    return fleet_findings([audited(cluster, thresholds) for cluster in clusters])


def fleet_findings(fleet: Iterable[AuditResult]) -> list[Finding]:
    """Combine the findings of clusters with those between them, the worst first."""
    clusters = list(fleet)
    alone = (finding for cluster in clusters for finding in cluster.findings)
    return sorted([*alone, *in_common(cluster.shares for cluster in clusters)], key=_order)


def audited(cluster: ClusterLog, thresholds: Thresholds | None = None) -> AuditResult:
    """Audit one cluster in one pass."""
    limits = thresholds or Thresholds()
    about = AuditContext(
        cluster.name,
        cluster.profile,
        LogClock(),
        cluster.topics,
        limits,
        cluster.trail,
        cluster.first_seen,
    )
    audits = [make(about) for make in TABLE]
    sharing = SharedResourceFinder(cluster.name)
    findings: list[Finding] = []
    concerned: dict[type, list[Audit]] = {}
    for decoded in read(cluster):
        about.clock.now_ms = max(about.clock.now_ms, decoded.time_ms)
        sharing.see(decoded)
        record = type(decoded.record)
        if record not in concerned:
            concerned[record] = [kind for kind in audits if issubclass(record, kind.concerns)]
        for kind in concerned[record]:
            findings += kind.see(decoded)
    for kind in audits:
        findings += kind.end()
    return AuditResult(tuple(findings), sharing.end())


def _order(finding: Finding) -> tuple[object, ...]:
    rank, evidence = _WORST_FIRST[finding.severity], finding.evidence
    return rank, finding.cluster, by_name(finding.connector), finding.kind, evidence
